/* hashloom's cpu machine and the containers that Debian packages, in one run: building a table of n pairs and looking
 * up n keys, half of which are present; the same with string keys (peers_strings.cpp); then several values per key
 * (peers_multi.cpp). Usage: peers_cpu [n]
 *
 * Each container gets its capacity beforehand and as many threads as there are cores. A container that is not made for
 * threads is measured with one map that one thread fills and all threads read, and with one map for each thread.
 * peers_contest.h tells how both sides are timed. */
#include "peers_contest.h"

namespace
{

template <class word> struct word_input {
    typedef word key;
    typedef word value;
    std::vector<word> keys, values, queries;
    answers<word> expected;

    explicit word_input(uint64_t n) : keys(n), values(n), queries(n), expected(n)
    {
        for (uint64_t i = 0; i < n; i++) {
            keys[i] = key_of<word>(i);
            values[i] = (word)~keys[i];
        }
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t which = key_of<uint64_t>(i + 1) % (2 * n); /* keys from n on are absent */
            queries[i] = key_of<word>(which);
            expected.set(i, which < n, (word)~queries[i]);
        }
    }
    uint64_t size() const
    {
        return keys.size();
    }
    word key_at(uint64_t i) const
    {
        return keys[i];
    }
    word value_at(uint64_t i) const
    {
        return values[i];
    }
    word query_at(uint64_t i) const
    {
        return queries[i];
    }
    unsigned shard_at(uint64_t i) const
    {
        return shard_of(keys[i]);
    }
    unsigned query_shard_at(uint64_t i) const
    {
        return shard_of(queries[i]);
    }
};

template <class word> class loom_side : public contestant<word>
{
  public:
    explicit loom_side(const word_input<word> &of) : in(of)
    {
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.key_bytes = config.value_bytes = sizeof(word);
        config.capacity = in.size();
        table = make_loom_table(config);
    }
    void build() override
    {
        check_loom(loom_map_build(table->map, in.keys.data(), in.values.data(), in.size(), LOOM_KEEP, nullptr, nullptr,
                                  nullptr));
    }
    void find(answers<word> &found) override
    {
        const word absent = 0;
        check_loom(loom_map_find(table->map, in.queries.data(), in.size(), found.values.data(), &absent,
                                 found.status.data(), nullptr, nullptr));
    }

  private:
    const word_input<word> &in;
    std::unique_ptr<loom_table> table;
};

template <class word> void compare(uint64_t n)
{
    typedef word_input<word> input;
    typedef std::unique_ptr<contestant<word>> side;
    const input in(n);
    const unsigned threads = thread_count();
    const maker<word> ours = [&]() -> side { return std::make_unique<loom_side<word>>(in); };
    std::printf("Pairs of %zu + %zu bytes. hashloom: loom_map_build, loom_map_find, %u threads\n", sizeof(word),
                sizeof(word), threads);
    contest<input> table(in);
#ifdef HAVE_ABSL
    typedef absl::flat_hash_map<word, word> absl_map;
    table.run("absl::flat_hash_map", 1, threads, ours,
              [&]() -> side { return std::make_unique<one_map<absl_map, input>>(in, threads); });
    table.run("absl::flat_hash_map, fetched ahead", 1, threads, ours,
              [&]() -> side { return std::make_unique<prefetched_map<absl_map, input>>(in, threads); });
    table.run("absl::flat_hash_map, one for each thread", threads, threads, ours,
              [&]() -> side { return std::make_unique<map_per_thread<absl_map, input>>(in); });
#else
    std::puts("absl::flat_hash_map: skipped, libabsl-dev is not there");
#endif
#ifdef HAVE_BOOST
    typedef boost::unordered_flat_map<word, word> boost_map;
    table.run("boost::unordered_flat_map", 1, threads, ours,
              [&]() -> side { return std::make_unique<one_map<boost_map, input>>(in, threads); });
    table.run("boost::unordered_flat_map, one for each thread", threads, threads, ours,
              [&]() -> side { return std::make_unique<map_per_thread<boost_map, input>>(in); });
#else
    std::puts("boost::unordered_flat_map: skipped, libboost1.81-dev is not there");
#endif
#ifdef HAVE_TBB
    table.run("tbb::concurrent_hash_map", threads, threads, ours,
              [&]() -> side { return std::make_unique<tbb_map<input>>(in); });
#else
    std::puts("tbb::concurrent_hash_map: skipped, libtbb-dev is not there");
#endif
#ifdef HAVE_CUCKOO
    table.run("libcuckoo::cuckoohash_map", threads, threads, ours,
              [&]() -> side { return std::make_unique<cuckoo_map<input>>(in); });
#else
    std::puts("libcuckoo::cuckoohash_map: skipped, libcuckoo-dev is not there");
#endif
    table.conclude();
}

} // namespace

int main(int argc, char **argv)
{
    const uint64_t n = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : (uint64_t)1 << 24;
    if (n == 0 || n > (uint64_t)1 << 31) {
        std::fprintf(stderr, "usage: peers_cpu [PAIRS], up to 2^31\n");
        return 2;
    }
    std::printf("%llu pairs, and as many lookups, half of them for absent keys; %u threads; medians of %d rounds.\n"
                "Ratios: hashloom's rate, measured directly before, divided by the container's.\n\n",
                (unsigned long long)n, thread_count(), REPEATS);
    compare<uint32_t>(n);
    compare<uint64_t>(n);
    compare_strings(std::max<uint64_t>(n / 4, 1));
    compare_multimaps(n);
    return 0;
}
