/* Streams of bytes in blocks with checksums (durable_layout.h): payloads of records and of snapshots, and the heads
 * before them. */
#ifndef LOOM_DURABLE_BLOCKS_H
#define LOOM_DURABLE_BLOCKS_H

#include "durable/disk.h"
#include "durable/durable_layout.h"

/* Where the blocks of a stream lie in a file: block i is block `first` + (`at` + i) mod `ring` of the file. */
typedef struct loom__block_place {
    loom__disk_file *file;
    uint64_t first;
    uint64_t ring; /* UINT64_MAX: no ring */
    uint64_t at;   /* below `ring` */
} loom__block_place;

/* The seed of block i of a stream is `seed` + i. */
uint64_t loom__block_checksum(const unsigned char block[DURABLE_BLOCK], uint64_t seed);
void loom__block_seal(unsigned char block[DURABLE_BLOCK], uint64_t seed);
int loom__block_is_sound(const unsigned char block[DURABLE_BLOCK], uint64_t seed);

/* ---- Writing ---- */

typedef struct loom__block_writer {
    loom__block_place place;
    uint64_t seed;
    unsigned char *buffer; /* [room] blocks, the caller's; aligned as any block of memory is */
    uint64_t room;
    uint64_t index;    /* of the first block in the buffer */
    uint64_t full;     /* sealed blocks in the buffer */
    uint64_t contents; /* bytes in the block behind them */
} loom__block_writer;

/* The bytes go to the file when the buffer is full, and at the end. A stream of up to `room` blocks is one write, or
 * two where it crosses the end of the ring. */
loom_status loom__block_put(loom__block_writer *writer, const void *data, uint64_t bytes);
loom_status loom__block_end(loom__block_writer *writer);

/* ---- Reading ---- */

enum { LOOM__READER_BLOCKS = 16 };

typedef struct loom__block_reader {
    loom__block_place place;
    uint64_t seed;
    uint64_t blocks;   /* of the stream */
    uint64_t index;    /* of the block that is read now */
    uint64_t contents; /* bytes of it that were read */
    uint64_t loaded;   /* blocks in the buffer, from `index` on, less those that were read */
    unsigned char buffer[LOOM__READER_BLOCKS * DURABLE_BLOCK];
    uint64_t buffered; /* blocks in the buffer */
} loom__block_reader;

void loom__block_open(loom__block_reader *reader, const loom__block_place *place, uint64_t seed, uint64_t blocks);

/* Copies the next bytes, or skips them if `data` is NULL. NOT_FOUND, without a sentence: the stream has no such bytes,
 * or a block's checksum is wrong. */
loom_status loom__block_get(loom__block_reader *reader, void *data, uint64_t bytes);

/* Reads up to LOOM__READER_BLOCKS blocks as they are, from block `index` of the place on. */
loom_status loom__block_load(const loom__block_place *place, uint64_t index, uint64_t count, unsigned char *blocks);

#endif
