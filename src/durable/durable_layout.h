/* The bytes of a durable map's two files, `journal` and `snapshot` (docs/format.md describes them in prose). All
 * numbers are little-endian.
 *
 * Both files are arrays of blocks of 4 KiB. A block is 4088 bytes of contents and the XXH64 of these bytes. The
 * checksum is seeded with a number of what the block belongs to, plus the block's index in it: a sound block of an
 * older record, or at another place, does not pass.
 *
 *   journal    a head block, then the ring. A record begins at a block of the ring, and its blocks follow each other
 *              modulo the ring's length. Its contents are a header and the payload, zero-padded
 *   snapshot   a head block, then the blocks of its payload
 *
 * A payload is a sequence of pieces. A piece is a header and its columns: keys, then values.
 *
 * Records form a chain. Each has the stamp of the record before it, the first one that of the snapshot. Epochs ascend
 * by one. A record of an earlier life of the map, or of an earlier lap of the ring, is therefore no successor. */
#ifndef LOOM_DURABLE_DURABLE_LAYOUT_H
#define LOOM_DURABLE_DURABLE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define JOURNAL_MAGIC  "loomjrnl"
#define RECORD_MAGIC   "loomrecd"
#define SNAPSHOT_MAGIC "loomsnap"

enum {
    DURABLE_BYTE_ORDER = 0x01020304,
    DURABLE_VERSION = 1,
    DURABLE_BLOCK = 4096,
    DURABLE_CONTENTS = DURABLE_BLOCK - 8, /* of a block; its checksum follows */
    LEAST_RING_BLOCKS = 16,
    MOST_RING_BLOCKS = 1 << 28
};

/* The head block's contents begin with one of these two structs; zeros follow. The seed of its checksum is 0. */
typedef struct loom__journal_head {
    char magic[8];
    uint32_t byte_order;
    uint32_t version;
    uint64_t ring_blocks;
    uint64_t reserved_8[5];
} loom__journal_head;

typedef struct loom__snapshot_head {
    char magic[8];
    uint32_t byte_order;
    uint32_t version;
    uint32_t type; /* loom_type */
    uint32_t key_bytes;
    uint32_t value_bytes;
    uint32_t reserved_4;
    uint64_t life;    /* as in records. Seed of the checksums of the payload's blocks: life + 2^32 * epoch */
    uint64_t epoch;   /* the newest commit in it */
    uint64_t pairs;   /* in the payload */
    uint64_t bytes;   /* of the payload */
    uint64_t ring_at; /* block of the ring where the record of epoch + 1 begins */
    uint64_t stamp;   /* XXH64 of the bytes before, seed 0 */
    uint64_t reserved_8[4];
} loom__snapshot_head;

typedef struct loom__record_head {
    char magic[8];
    uint64_t life; /* a random number of the process's opening of the map */
    uint64_t epoch;
    uint64_t synced;   /* commits up to this one had been synced when the record was written */
    uint64_t previous; /* stamp of the record before, or of the snapshot */
    uint64_t bytes;    /* of the payload */
    uint64_t reserved_8;
    uint64_t stamp; /* XXH64 of the bytes before, seed 0; seed of the checksums of the record's blocks */
} loom__record_head;

typedef enum loom__piece_kind {
    LOOM__PIECE_PUT = 1,        /* `count` keys, then their values */
    LOOM__PIECE_ERASE = 2,      /* `count` keys, which are absent */
    LOOM__PIECE_CLEAR = 3,      /* no key is present */
    LOOM__PIECE_ERASE_RANGE = 4 /* a loom__range_piece: erases by value */
} loom__piece_kind;

typedef struct loom__piece_head {
    uint32_t kind;
    uint32_t count;
    uint64_t reserved_8;
} loom__piece_head;

/* The arguments of loom_map_erase_if. Replaying it gives the same table, because all that came before it was replayed
 * exactly. */
typedef struct loom__range_piece {
    uint32_t number;      /* loom_number */
    uint32_t bounds;      /* bit 0: there is a least value; bit 1: a most value */
    uint64_t least, most; /* in their first bytes, as wide as the number; zero-padded */
} loom__range_piece;

_Static_assert(sizeof(loom__journal_head) == 64, "no padding");
_Static_assert(sizeof(loom__snapshot_head) == 112 && offsetof(loom__snapshot_head, stamp) == 72, "no padding");
_Static_assert(sizeof(loom__record_head) == 64 && offsetof(loom__record_head, stamp) == 56, "no padding");
_Static_assert(sizeof(loom__piece_head) == 16, "no padding");
_Static_assert(sizeof(loom__range_piece) == 24, "no padding");

/* Blocks that hold so many bytes of contents. */
static inline uint64_t loom__blocks_of(uint64_t bytes)
{
    return bytes / DURABLE_CONTENTS + (bytes % DURABLE_CONTENTS != 0);
}

#endif
