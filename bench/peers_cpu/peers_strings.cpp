/* Byte strings of 16 to 64 bytes as keys, with values of 8 bytes: hashloom's tables with LOOM_VARIABLE keys, and maps
 * of std::string. Keys and queries are made before the timer starts: for hashloom as one array of bytes with offsets,
 * for the others as arrays of std::string. Both sides copy the keys that they store.
 *
 * A first table compares one thread with one thread. A second one compares all threads: of maps that are not made for
 * threads there is one for each thread, which takes the keys of its share of the hashes. */
#include "peers_contest.h"

#include <unordered_map>

namespace
{

constexpr uint64_t SHORTEST = 16, LONGEST = 64;

/* Strings one behind the other, as hashloom takes them, and each as a std::string. */
struct texts {
    std::vector<uint64_t> offsets{0};
    std::vector<char> bytes;
    std::vector<std::string> strings;
    std::vector<uint16_t> shards;

    /* String number `which`: random bytes, all strings different because the first 8 bytes are. */
    void add(uint64_t which)
    {
        const uint64_t random = key_of<uint64_t>(which + 1);
        const uint64_t length = SHORTEST + (random >> 7) % (LONGEST - SHORTEST + 1);
        std::string text;
        for (uint64_t word = random; text.size() < length; word = key_of<uint64_t>(word + 1))
            text.append((const char *)&word, std::min<uint64_t>(sizeof word, length - text.size()));
        bytes.insert(bytes.end(), text.begin(), text.end());
        offsets.push_back(bytes.size());
        shards.push_back((uint16_t)shard_of(random));
        strings.push_back(std::move(text));
    }
    loom_strings view() const
    {
        return loom_strings{offsets.data(), bytes.data()};
    }
};

struct string_input {
    typedef std::string key;
    typedef uint64_t value;
    texts keys, queries;
    std::vector<uint64_t> values;
    answers<uint64_t> expected;

    explicit string_input(uint64_t n) : values(n), expected(n)
    {
        for (uint64_t i = 0; i < n; i++) {
            keys.add(i);
            values[i] = ~i;
        }
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t which = key_of<uint64_t>(i + 1) % (2 * n); /* keys from n on are absent */
            queries.add(which);
            expected.set(i, which < n, ~which);
        }
    }
    uint64_t size() const
    {
        return values.size();
    }
    const std::string &key_at(uint64_t i) const
    {
        return keys.strings[i];
    }
    uint64_t value_at(uint64_t i) const
    {
        return values[i];
    }
    const std::string &query_at(uint64_t i) const
    {
        return queries.strings[i];
    }
    unsigned shard_at(uint64_t i) const
    {
        return keys.shards[i];
    }
    unsigned query_shard_at(uint64_t i) const
    {
        return queries.shards[i];
    }
};

class loom_side : public contestant<uint64_t>
{
  public:
    loom_side(const string_input &of, unsigned threads) : in(of)
    {
        loom_map_config config = LOOM_MAP_CONFIG_INIT;
        config.key_bytes = LOOM_VARIABLE;
        config.value_bytes = sizeof(uint64_t);
        config.capacity = in.size();
        config.string_bytes = in.keys.bytes.size() + 8 * in.size(); /* each is rounded up to a multiple of 8 */
        table = make_loom_table(config, threads);
    }
    void build() override
    {
        const loom_strings keys = in.keys.view();
        check_loom(
            loom_map_build(table->map, &keys, in.values.data(), in.size(), LOOM_KEEP, nullptr, nullptr, nullptr));
    }
    void find(answers<uint64_t> &found) override
    {
        const loom_strings queries = in.queries.view();
        const uint64_t absent = 0;
        check_loom(loom_map_find(table->map, &queries, in.size(), found.values.data(), &absent, found.status.data(),
                                 nullptr, nullptr));
    }

  private:
    const string_input &in;
    std::unique_ptr<loom_table> table;
};

typedef std::unique_ptr<contestant<uint64_t>> side;
typedef std::unordered_map<std::string, uint64_t> std_map;
#ifdef HAVE_ABSL
typedef absl::flat_hash_map<std::string, uint64_t> absl_map;
#endif
#ifdef HAVE_BOOST
typedef boost::unordered_flat_map<std::string, uint64_t> boost_map;
#endif

template <class map> void alone(contest<string_input> &table, const char *name, const string_input &in)
{
    table.run(
        name, 1, 1, [&]() -> side { return std::make_unique<loom_side>(in, 1); },
        [&]() -> side { return std::make_unique<one_map<map, string_input>>(in, 1); });
}

template <class map>
void sharded(contest<string_input> &table, const char *name, const maker<uint64_t> &ours, const string_input &in)
{
    table.run(name, thread_count(), thread_count(), ours,
              [&]() -> side { return std::make_unique<map_per_thread<map, string_input>>(in); });
}

} // namespace

void compare_strings(uint64_t n)
{
    const string_input in(n);
    std::printf("%llu string keys of %llu to %llu bytes, values of 8 bytes. hashloom: loom_map_build, loom_map_find\n",
                (unsigned long long)n, (unsigned long long)SHORTEST, (unsigned long long)LONGEST);
    std::puts("One thread each:");
    contest<string_input> single(in);
    alone<std_map>(single, "std::unordered_map", in);
#ifdef HAVE_ABSL
    alone<absl_map>(single, "absl::flat_hash_map", in);
#endif
#ifdef HAVE_BOOST
    alone<boost_map>(single, "boost::unordered_flat_map", in);
#endif
    single.conclude();
    if (thread_count() == 1)
        return;
    std::printf("%u threads each:\n", thread_count());
    const maker<uint64_t> ours = [&]() -> side { return std::make_unique<loom_side>(in, 0); };
    contest<string_input> all(in);
    sharded<std_map>(all, "std::unordered_map, one for each thread", ours, in);
#ifdef HAVE_ABSL
    sharded<absl_map>(all, "absl::flat_hash_map, one for each thread", ours, in);
#endif
#ifdef HAVE_BOOST
    sharded<boost_map>(all, "boost::unordered_flat_map, one for each thread", ours, in);
#endif
#ifdef HAVE_TBB
    all.run("tbb::concurrent_hash_map", thread_count(), thread_count(), ours,
            [&]() -> side { return std::make_unique<tbb_map<string_input>>(in); });
#endif
#ifdef HAVE_CUCKOO
    all.run("libcuckoo::cuckoohash_map", thread_count(), thread_count(), ours,
            [&]() -> side { return std::make_unique<cuckoo_map<string_input>>(in); });
#endif
    all.conclude();
}
