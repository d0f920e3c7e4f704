/* What the comparisons share: threads, keys, time, a table of hashloom's, and the table that is printed. */
#ifndef PEERS_CPU_H
#define PEERS_CPU_H

#include <loom/loom.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#ifdef HAVE_ABSL
#include <absl/container/flat_hash_map.h>
#endif
#ifdef HAVE_BOOST
#include <boost/unordered/unordered_flat_map.hpp>
#endif

constexpr int REPEATS = 3;

inline unsigned thread_count()
{
    static const unsigned count = std::max(1u, std::thread::hardware_concurrency()); /* which asks the system */
    return count;
}

template <class work> void in_parallel(unsigned count, work each)
{
    std::vector<std::thread> threads;
    for (unsigned i = 1; i < count; i++)
        threads.emplace_back([=] { each(i); });
    each(0);
    for (std::thread &thread : threads)
        thread.join();
}

/* All keys different: a bijection of the index. */
template <class word> word key_of(uint64_t i)
{
    if (sizeof(word) == 4) {
        uint32_t x = (uint32_t)i;
        x = (x ^ x >> 16) * 0x7feb352du;
        x = (x ^ x >> 15) * 0x846ca68bu;
        return (word)(x ^ x >> 16);
    }
    uint64_t x = i;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (word)(x ^ x >> 31);
}

/* The share of the keys that thread i of a sharded container takes. It depends on other bits than the containers' own
 * hashes. */
template <class word> unsigned shard_of(word key)
{
    return (unsigned)(((uint64_t)key * 0x9e3779b97f4a7c15u >> 32) * thread_count() >> 32);
}

inline double seconds()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct loom_table {
    loom_context *context = nullptr;
    loom_map *map = nullptr;
    ~loom_table()
    {
        loom_map_destroy(map);
        loom_context_destroy(context);
    }
};

/* Makes a table of hashloom's, on the cpu machine; threads = 0: all. */
inline std::unique_ptr<loom_table> make_loom_table(const loom_map_config &config, unsigned threads = 0)
{
    auto table = std::make_unique<loom_table>();
    loom_context_config with = LOOM_CONTEXT_CONFIG_INIT;
    with.machine = LOOM_MACHINE_CPU;
    with.threads = threads;
    if (loom_context_create(&with, &table->context) != LOOM_OK ||
        loom_map_create(table->context, &config, &table->map) != LOOM_OK) {
        std::fprintf(stderr, "%s\n", loom_last_error());
        std::exit(1);
    }
    return table;
}

inline void check_loom(loom_status status)
{
    if (status == LOOM_OK)
        return;
    std::fprintf(stderr, "%s\n", loom_last_error());
    std::exit(1);
}

void compare_strings(uint64_t n);   /* peers_strings.cpp */
void compare_multimaps(uint64_t n); /* peers_multi.cpp */

#endif
