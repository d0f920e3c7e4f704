/* hashloom: hash tables for CPUs and GPUs, behind one C interface.
 *
 * This header includes the whole host interface. Each part can also be included alone.
 *   loom/base.h      status codes, contexts, memory, what all bulk calls share
 *   loom/map.h       maps, sets, counters and multimaps
 *   loom/durable.h   maps that survive a killed process and a power failure
 *   loom/filter.h    Bloom filters
 *   loom/view.h      device views: tables inside your own kernels (loom/device.cuh)
 *   loom/array.h     EXPERIMENTAL: arrays in the memory of the context's machine
 *   loom/measure.h   EXPERIMENTAL: self-checks, bucket counts, limits of the hardware
 * docs/guide.md tells how to choose a type, an engine and a size, and how growth, streams, threads
 * and files work.
 *
 * GUARANTEES
 *   - Every key value is legal, including 0 and all ones.
 *   - A table created for n keys holds any n distinct keys. The probability that it cannot is below
 *     one in 10^9, for every n.
 *   - A table that receives more keys grows. If it must not grow, or memory runs out, it may store
 *     a few more keys. Then it refuses keys and reports a status code for each.
 *   - No call hangs, aborts, exits or prints. Every call returns a status code; loom_last_error()
 *     explains the last failure in one sentence.
 *   - No key is lost and no key is stored twice. After any call a key is in the table once or not
 *     at all.
 *   - A call that fails leaves the table unchanged, or reports for each key what became of it.
 *   - Saving replaces a file as a whole. Afterwards the path holds the complete new table or the
 *     complete old file.
 *   - A program that was built with an older header, with smaller structs (struct_size), works:
 *     fields that its structs lack have their defaults. A struct larger than the library's is
 *     INVALID_ARGUMENT.
 *
 * COSTS
 *   - Open tables (the default): a lookup of a stored key reads 1.12 buckets of 64 bytes on average
 *     at load factor 0.8, and 1.25 at 0.9. A lookup of an absent key reads 1.01 and 1.03.
 *     loom_map_stats() reports these numbers for a table.
 *   - Perfect tables (LOOM_ENGINE_PERFECT): every lookup reads one bucket and 8 bytes of codes.
 *     Insertion is slower than in open tables.
 *   - Pairs of 4 + 4 bytes take 9.2 bytes per slot. Divide by the load factor for the bytes per
 *     pair.
 *
 * CAVEATS
 *   - The hash is seeded and mixes well, but it is not cryptographic. Somebody who knows the seed
 *     can construct keys that collide. Colliding keys make a table slow, or make it refuse keys
 *     early. They cannot make an answer wrong.
 *   - With a fixed seed (loom_context_config.fixed_seed) two runs agree. An adversary may know the
 *     seed.
 *   - A table that grows moves into a larger one in the middle of a call. Both tables are in memory
 *     until the move ends, and the call is synchronous. To avoid this, create the table for all its
 *     keys or call loom_map_reserve. growth = 0 turns growth off.
 *   - Erasing wears the partitions of open tables. A call that leaves a partition too worn
 *     reorganises it before the call ends (upkeep). At load factor 0.9 lookups read on average less
 *     than 10 % more buckets than in a fresh table of the same keys; in tables of two partitions
 *     (about 20,000 keys) up to 15 % more for short times. docs/guide.md, "Erasing and upkeep".
 *   - Arrays given to a call must not change while the call runs. If they change, the stored keys
 *     and values are undefined; nothing else is harmed.
 *   - Of equal keys in one batch any one may win, unless the call has LOOM_IN_ORDER.
 *   - After fork() a child process may use contexts and tables that no other thread was using at
 *     the moment of the fork. Calls in the child run on the calling thread alone. On the cuda
 *     machine they return LOOM_DEVICE.
 *
 * EXAMPLE
 *   loom_context *context;
 *   loom_map *map;
 *   loom_map_config config = LOOM_MAP_CONFIG_INIT;
 *   config.key_bytes = config.value_bytes = 4;
 *   config.capacity = n;
 *   if (loom_context_create(NULL, &context) || loom_map_create(context, &config, &map)) {
 *       fprintf(stderr, "%s\n", loom_last_error());
 *       return 1;
 *   }
 *   loom_map_build(map, keys, values, n, LOOM_KEEP, NULL, NULL, NULL);
 *   loom_map_find(map, wanted, m, found_values, NULL, found_status, NULL, NULL);
 *   loom_map_destroy(map);
 *   loom_context_destroy(context);
 */
#ifndef LOOM_LOOM_H
#define LOOM_LOOM_H

#include <loom/base.h>
#include <loom/durable.h>
#include <loom/filter.h>
#include <loom/map.h>
#include <loom/view.h>

/* EXPERIMENTAL: these may change in any release. */
#include <loom/array.h>
#include <loom/measure.h>

#endif
