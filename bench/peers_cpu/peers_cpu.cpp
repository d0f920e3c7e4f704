/* Building a table of n pairs: hashloom's cpu machine and the containers that Debian packages, in one run; then the
 * same with several values per key (peers_multi.cpp). Usage: peers_cpu [n]
 *
 * Each container gets its capacity beforehand and as many threads as there are cores. A container that is not made for
 * threads is measured twice: with a single thread, and with one container for each thread, which takes the keys of its
 * share of the hashes. This is the fastest way to build it that we know. Every table is checked: its size, and the
 * value of each key. */
#include "peers_cpu.h"

#ifdef HAVE_TBB
#include <tbb/concurrent_hash_map.h>
#endif
#ifdef HAVE_CUCKOO
#include <libcuckoo/cuckoohash_map.hh>
#endif

namespace
{

template <class word> struct input {
    std::vector<word> keys, values;
    explicit input(uint64_t n) : keys(n), values(n)
    {
        for (uint64_t i = 0; i < n; i++) {
            keys[i] = key_of<word>(i);
            values[i] = (word)~keys[i];
        }
    }
    uint64_t size() const
    {
        return keys.size();
    }
};

/* The best of several builds, in M pairs a second; `make` makes a container, `fill` is timed, `holds` checks. */
template <class word, class maker, class filler, class checker>
double measure(const char *name, const input<word> &in, maker make, filler fill, checker holds)
{
    double best = 0;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        auto container = make();
        double begin = seconds();
        fill(*container);
        best = std::max(best, (double)in.size() / (seconds() - begin) * 1e-6);
        if (!holds(*container)) {
            std::fprintf(stderr, "%s: a key or a value is missing\n", name);
            std::exit(1);
        }
    }
    std::printf("%-42s %zu + %zu bytes %10.1f M pairs/s\n", name, sizeof(word), sizeof(word), best);
    std::fflush(stdout);
    return best;
}

/* Containers that one thread fills: emplace, find, reserve, size. */
template <class map, class word> double measure_alone(const std::string &name, const input<word> &in)
{
    const uint64_t n = in.size();
    double alone = measure((name + ", one thread").c_str(), in,
                           [&] {
                               auto m = std::make_unique<map>();
                               m->reserve(n);
                               return m;
                           },
                           [&](map &m) {
                               for (uint64_t i = 0; i < n; i++)
                                   m.emplace(in.keys[i], in.values[i]);
                           },
                           [&](map &m) {
                               bool all = m.size() == n;
                               for (uint64_t i = 0; i < n && all; i++) {
                                   auto at = m.find(in.keys[i]);
                                   all = at != m.end() && at->second == in.values[i];
                               }
                               return all;
                           });
    if (thread_count() == 1)
        return alone;
    typedef std::vector<map> shards;
    double sharded = measure((name + ", one for each thread").c_str(), in,
                             [&] {
                                 auto m = std::make_unique<shards>(thread_count());
                                 for (map &shard : *m)
                                     shard.reserve(n / thread_count() + n / 64);
                                 return m;
                             },
                             [&](shards &m) {
                                 in_parallel([&](unsigned own) {
                                     for (uint64_t i = 0; i < n; i++)
                                         if (shard_of(in.keys[i]) == own)
                                             m[own].emplace(in.keys[i], in.values[i]);
                                 });
                             },
                             [&](shards &m) {
                                 bool all = true;
                                 for (uint64_t i = 0; i < n && all; i++) {
                                     map &shard = m[shard_of(in.keys[i])];
                                     auto at = shard.find(in.keys[i]);
                                     all = at != shard.end() && at->second == in.values[i];
                                 }
                                 return all;
                             });
    return std::max(alone, sharded);
}

/* Each thread takes a range of the keys. */
template <class map, class word, class inserter> void fill_shared(map &m, const input<word> &in, inserter insert)
{
    in_parallel([&](unsigned own) {
        const uint64_t n = in.size(), begin = n * own / thread_count(), end = n * (own + 1) / thread_count();
        for (uint64_t i = begin; i < end; i++)
            insert(m, in.keys[i], in.values[i]);
    });
}

template <class word> double measure_loom(const input<word> &in)
{
    return measure(
        "hashloom, loom_map_build", in,
        [&] {
            loom_map_config config = LOOM_MAP_CONFIG_INIT;
            config.key_bytes = config.value_bytes = sizeof(word);
            config.capacity = in.size();
            return make_loom_table(config);
        },
        [&](loom_table &t) {
            if (loom_map_build(t.map, in.keys.data(), in.values.data(), in.size(), LOOM_KEEP, nullptr, nullptr,
                               nullptr) != LOOM_OK)
                std::fprintf(stderr, "%s\n", loom_last_error());
        },
        [&](loom_table &t) {
            std::vector<word> found(in.size());
            uint64_t size = 0;
            return loom_map_find(t.map, in.keys.data(), in.size(), found.data(), nullptr, nullptr, nullptr, nullptr) ==
                       LOOM_OK &&
                   loom_map_size(t.map, &size, nullptr) == LOOM_OK && size == in.size() && found == in.values;
        });
}

template <class word> void compare(uint64_t n)
{
    const input<word> in(n);
    double ours = measure_loom(in), best = 0;
#ifdef HAVE_ABSL
    best = std::max(best, measure_alone<absl::flat_hash_map<word, word>>("absl::flat_hash_map", in));
#else
    std::puts("absl::flat_hash_map: skipped, libabsl-dev is not there");
#endif
#ifdef HAVE_BOOST
    best = std::max(best, measure_alone<boost::unordered_flat_map<word, word>>("boost::unordered_flat_map", in));
#else
    std::puts("boost::unordered_flat_map: skipped, libboost1.81-dev is not there");
#endif
#ifdef HAVE_TBB
    typedef tbb::concurrent_hash_map<word, word> tbb_map;
    best = std::max(best, measure(
                              "tbb::concurrent_hash_map", in, [&] { return std::make_unique<tbb_map>(n); },
                              [&](tbb_map &m) {
                                  fill_shared(m, in, [](tbb_map &to, word key, word value) {
                                      to.insert(std::make_pair(key, value));
                                  });
                              },
                              [&](tbb_map &m) {
                                  bool all = m.size() == n;
                                  for (uint64_t i = 0; i < n && all; i++) {
                                      typename tbb_map::const_accessor at;
                                      all = m.find(at, in.keys[i]) && at->second == in.values[i];
                                  }
                                  return all;
                              }));
#else
    std::puts("tbb::concurrent_hash_map: skipped, libtbb-dev is not there");
#endif
#ifdef HAVE_CUCKOO
    typedef libcuckoo::cuckoohash_map<word, word> cuckoo_map;
    best =
        std::max(best, measure(
                           "libcuckoo::cuckoohash_map", in, [&] { return std::make_unique<cuckoo_map>(n); },
                           [&](cuckoo_map &m) {
                               fill_shared(m, in, [](cuckoo_map &to, word key, word value) { to.insert(key, value); });
                           },
                           [&](cuckoo_map &m) {
                               bool all = m.size() == n;
                               word value;
                               for (uint64_t i = 0; i < n && all; i++)
                                   all = m.find(in.keys[i], value) && value == in.values[i];
                               return all;
                           }));
#else
    std::puts("libcuckoo::cuckoohash_map: skipped, libcuckoo-dev is not there");
#endif
    if (best > 0)
        std::printf("hashloom builds %.2f times as fast as the fastest of them\n", ours / best);
}

} // namespace

int main(int argc, char **argv)
{
    const uint64_t n = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : (uint64_t)1 << 24;
    std::printf("%llu pairs, %u threads\n", (unsigned long long)n, thread_count());
    compare<uint32_t>(n);
    compare<uint64_t>(n);
    compare_multimaps(n);
    return 0;
}
