#include "durable/blocks.h"
#include "core/checksum.h"

#include <string.h>

uint64_t loom__block_checksum(const unsigned char block[DURABLE_BLOCK], uint64_t seed)
{
    return loom__checksum(block, DURABLE_CONTENTS, seed);
}

void loom__block_seal(unsigned char block[DURABLE_BLOCK], uint64_t seed)
{
    const uint64_t checksum = loom__block_checksum(block, seed);
    memcpy(block + DURABLE_CONTENTS, &checksum, sizeof checksum);
}

int loom__block_is_sound(const unsigned char block[DURABLE_BLOCK], uint64_t seed)
{
    uint64_t checksum;
    memcpy(&checksum, block + DURABLE_CONTENTS, sizeof checksum);
    return checksum == loom__block_checksum(block, seed);
}

/* Blocks from block `index` of the stream on that lie side by side in the file, at most `count`. *offset: where. */
static uint64_t run_of(const loom__block_place *place, uint64_t index, uint64_t count, uint64_t *offset)
{
    const uint64_t at = place->ring == UINT64_MAX ? place->at + index : (place->at + index) % place->ring;
    *offset = (place->first + at) * DURABLE_BLOCK;
    return count < place->ring - at ? count : place->ring - at;
}

/* ---- writing ---- */

static loom_status flush(loom__block_writer *writer)
{
    const loom__block_place *place = &writer->place;
    for (uint64_t done = 0, run; done < writer->full; done += run) { /* ends: each run has a block at least */
        uint64_t offset;
        run = run_of(place, writer->index + done, writer->full - done, &offset);
        const loom_status status = place->file->disk->ops->write(place->file, writer->buffer + done * DURABLE_BLOCK,
                                                                 run * DURABLE_BLOCK, offset);
        if (status != LOOM_OK)
            return status;
    }
    writer->index += writer->full;
    writer->full = 0;
    return LOOM_OK;
}

static void seal(loom__block_writer *writer)
{
    unsigned char *block = writer->buffer + writer->full * DURABLE_BLOCK;
    memset(block + writer->contents, 0, DURABLE_CONTENTS - writer->contents);
    loom__block_seal(block, writer->seed + writer->index + writer->full);
    writer->full++;
    writer->contents = 0;
}

loom_status loom__block_put(loom__block_writer *writer, const void *data, uint64_t bytes)
{
    for (const unsigned char *from = data; bytes > 0;) { /* ends: each round copies a byte at least */
        if (writer->full == writer->room) {
            const loom_status status = flush(writer);
            if (status != LOOM_OK)
                return status;
        }
        const uint64_t room = DURABLE_CONTENTS - writer->contents, part = bytes < room ? bytes : room;
        memcpy(writer->buffer + writer->full * DURABLE_BLOCK + writer->contents, from, part);
        writer->contents += part;
        from += part;
        bytes -= part;
        if (writer->contents == DURABLE_CONTENTS)
            seal(writer);
    }
    return LOOM_OK;
}

loom_status loom__block_end(loom__block_writer *writer)
{
    if (writer->contents > 0)
        seal(writer);
    return flush(writer);
}

/* ---- reading ---- */

loom_status loom__block_load(const loom__block_place *place, uint64_t index, uint64_t count, unsigned char *blocks)
{
    for (uint64_t done = 0, run; done < count; done += run) {
        uint64_t offset;
        run = run_of(place, index + done, count - done, &offset);
        const loom_status status =
            place->file->disk->ops->read(place->file, blocks + done * DURABLE_BLOCK, run * DURABLE_BLOCK, offset);
        if (status != LOOM_OK)
            return status;
    }
    return LOOM_OK;
}

void loom__block_open(loom__block_reader *reader, const loom__block_place *place, uint64_t seed, uint64_t blocks)
{
    reader->place = *place;
    reader->seed = seed;
    reader->blocks = blocks;
    reader->index = reader->contents = reader->loaded = reader->buffered = 0;
}

/* The block that is read now, which is loaded and checked if it is new. */
static loom_status current_block(loom__block_reader *reader, const unsigned char **block)
{
    if (reader->loaded == 0) {
        const uint64_t left = reader->blocks - reader->index;
        if (left == 0)
            return LOOM_NOT_FOUND;
        reader->buffered = reader->loaded = left < LOOM__READER_BLOCKS ? left : LOOM__READER_BLOCKS;
        const loom_status status = loom__block_load(&reader->place, reader->index, reader->buffered, reader->buffer);
        if (status != LOOM_OK)
            return status;
    }
    *block = reader->buffer + (reader->buffered - reader->loaded) * DURABLE_BLOCK;
    return reader->contents > 0 || loom__block_is_sound(*block, reader->seed + reader->index) ? LOOM_OK
                                                                                              : LOOM_NOT_FOUND;
}

loom_status loom__block_get(loom__block_reader *reader, void *data, uint64_t bytes)
{
    for (unsigned char *to = data; bytes > 0;) { /* ends: each round reads a byte at least */
        const unsigned char *block;
        const loom_status status = current_block(reader, &block);
        if (status != LOOM_OK)
            return status;
        const uint64_t room = DURABLE_CONTENTS - reader->contents, part = bytes < room ? bytes : room;
        if (to != NULL) {
            memcpy(to, block + reader->contents, part);
            to += part;
        }
        reader->contents += part;
        bytes -= part;
        if (reader->contents == DURABLE_CONTENTS) {
            reader->contents = 0;
            reader->index++;
            reader->loaded--;
        }
    }
    return LOOM_OK;
}
