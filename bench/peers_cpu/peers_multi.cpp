/* Building a table of n pairs with VALUES_PER_KEY values per key, and reading all values of every key: hashloom's
 * multimaps, and maps of vectors. A map of vectors is measured with one map for each thread, which takes the keys of
 * its share of the hashes. All values are read as hashloom's find_all returns them: threads look up a range of the keys
 * each, then copy the lists one behind the other. Every table is checked: each value belongs to its key, and all are
 * there. */
#include "peers_cpu.h"

#include <cstring>

namespace
{

typedef uint32_t word;
constexpr uint64_t VALUES_PER_KEY = 8;

/* Pair i has the value i. */
struct pairs {
    std::vector<word> keys, values, queries; /* queries: every key once */
    explicit pairs(uint64_t n) : keys(n), values(n), queries(n / VALUES_PER_KEY)
    {
        for (uint64_t i = 0; i < n; i++) {
            keys[i] = key_of<word>(key_of<uint64_t>(i + 1) % queries.size());
            values[i] = (word)i;
        }
        for (uint64_t i = 0; i < queries.size(); i++)
            queries[i] = key_of<word>(i);
    }
};

struct lists {
    std::vector<uint64_t> offsets;
    std::vector<word> values;
    explicit lists(const pairs &in) : offsets(in.queries.size() + 1), values(in.keys.size()) {}
};

struct rates {
    double build = 0, find_all = 0;
};

bool is_right(const pairs &in, const lists &found)
{
    std::vector<bool> seen(in.keys.size());
    for (uint64_t i = 0; i < in.queries.size(); i++)
        for (uint64_t at = found.offsets[i]; at < found.offsets[i + 1]; at++) {
            const word value = found.values[at];
            if (value >= in.keys.size() || in.keys[value] != in.queries[i] || seen[value])
                return false;
            seen[value] = true;
        }
    return found.offsets.back() == in.keys.size();
}

/* The best of several repeats; `make` makes a container, `build` and `find_all` are timed. */
template <class maker, class builder, class finder>
rates measure(const char *name, const pairs &in, maker make, builder build, finder find_all)
{
    rates best;
    const double millions = (double)in.keys.size() * 1e-6;
    lists found(in);
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        auto container = make();
        double begin = seconds();
        build(*container);
        best.build = std::max(best.build, millions / (seconds() - begin));
        std::memset(found.values.data(), 0xa5, found.values.size() * sizeof(word));
        begin = seconds();
        find_all(*container, found);
        best.find_all = std::max(best.find_all, millions / (seconds() - begin));
        if (!is_right(in, found)) {
            std::fprintf(stderr, "%s: a value is missing or wrong\n", name);
            std::exit(1);
        }
    }
    std::printf("%-42s build %8.1f, find_all %8.1f M pairs/s\n", name, best.build, best.find_all);
    std::fflush(stdout);
    return best;
}

rates measure_loom(const pairs &in)
{
    return measure(
        "hashloom, a multimap", in,
        [&] {
            loom_map_config config = LOOM_MAP_CONFIG_INIT;
            config.type = LOOM_TYPE_MULTIMAP;
            config.key_bytes = config.value_bytes = sizeof(word);
            config.capacity = in.queries.size();
            config.values = in.keys.size();
            return make_loom_table(config);
        },
        [&](loom_table &t) {
            check_loom(loom_map_build(t.map, in.keys.data(), in.values.data(), in.keys.size(), LOOM_KEEP, nullptr,
                                      nullptr, nullptr));
        },
        [&](loom_table &t, lists &found) {
            check_loom(loom_map_find_all(t.map, in.queries.data(), in.queries.size(), 0, found.offsets.data(),
                                         found.values.data(), found.values.size(), nullptr, nullptr, nullptr));
        });
}

/* The lists of one thread's range of the queries. */
template <class shards> void find_range(const shards &m, const pairs &in, lists &found, unsigned own, uint64_t *sums)
{
    const uint64_t n = in.queries.size(), begin = n * own / thread_count(), end = n * (own + 1) / thread_count();
    uint64_t sum = 0;
    for (uint64_t i = begin; i < end; i++) {
        const auto &shard = m[shard_of(in.queries[i])];
        const auto at = shard.find(in.queries[i]);
        found.offsets[i] = sum;
        sum += at != shard.end() ? at->second.size() : 0;
    }
    sums[own] = sum;
}

template <class shards> void copy_range(const shards &m, const pairs &in, lists &found, unsigned own, uint64_t before)
{
    const uint64_t n = in.queries.size(), begin = n * own / thread_count(), end = n * (own + 1) / thread_count();
    for (uint64_t i = begin; i < end; i++) {
        const auto &shard = m[shard_of(in.queries[i])];
        const auto at = shard.find(in.queries[i]);
        found.offsets[i] += before;
        if (at != shard.end())
            std::copy(at->second.begin(), at->second.end(), found.values.begin() + (std::ptrdiff_t)found.offsets[i]);
    }
}

template <class map> rates measure_vectors(const char *name, const pairs &in)
{
    typedef std::vector<map> shards;
    return measure(
        name, in,
        [&] {
            auto m = std::make_unique<shards>(thread_count());
            for (map &shard : *m)
                shard.reserve(in.queries.size() / thread_count() + in.queries.size() / 64);
            return m;
        },
        [&](shards &m) {
            in_parallel(thread_count(), [&](unsigned own) {
                for (uint64_t i = 0; i < in.keys.size(); i++)
                    if (shard_of(in.keys[i]) == own)
                        m[own][in.keys[i]].push_back(in.values[i]);
            });
        },
        [&](shards &m, lists &found) {
            std::vector<uint64_t> sums(thread_count() + 1);
            in_parallel(thread_count(), [&](unsigned own) { find_range(m, in, found, own, sums.data()); });
            uint64_t before = 0;
            for (uint64_t &sum : sums) {
                const uint64_t mine = sum;
                sum = before;
                before += mine;
            }
            found.offsets.back() = before;
            in_parallel(thread_count(), [&](unsigned own) { copy_range(m, in, found, own, sums[own]); });
        });
}

} // namespace

void compare_multimaps(uint64_t n)
{
    const pairs in(n);
    std::printf("%llu values per key, 4 + 4 bytes\n", (unsigned long long)VALUES_PER_KEY);
    const rates ours = measure_loom(in);
    rates best;
    [[maybe_unused]] auto keep = [&](const rates &one) {
        best.build = std::max(best.build, one.build);
        best.find_all = std::max(best.find_all, one.find_all);
    };
#ifdef HAVE_ABSL
    keep(measure_vectors<absl::flat_hash_map<word, std::vector<word>>>("absl::flat_hash_map of vectors", in));
#endif
#ifdef HAVE_BOOST
    keep(measure_vectors<boost::unordered_flat_map<word, std::vector<word>>>("boost::unordered_flat_map of vectors",
                                                                             in));
#endif
    if (best.build > 0)
        std::printf("hashloom builds %.2f and finds %.2f times as fast as the fastest of them\n",
                    ours.build / best.build, ours.find_all / best.find_all);
}
