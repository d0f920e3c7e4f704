/* A contest: hashloom and another container build a table of the same pairs and find the same keys, in turn.
 *
 * The machine may be busy with other work, so a rate alone says little. In each round both sides build and find, one
 * directly after the other, and what counts is the median of the rounds' ratios. Every answer is checked.
 *
 * An input has the types `key` and `value` and
 *   size()              pairs
 *   key_at(i), value_at(i), shard_at(i)    pair i, and the thread that stores it if each thread has its own container
 *   query_at(i), query_shard_at(i)         key i of the size() keys that are looked up; half of them are present
 *   expected            the right answers */
#ifndef PEERS_CONTEST_H
#define PEERS_CONTEST_H

#include "peers_cpu.h"

#ifdef HAVE_TBB
#include <tbb/concurrent_hash_map.h>
#endif
#ifdef HAVE_CUCKOO
#include <libcuckoo/cuckoohash_map.hh>
#endif

/* What lookups return: as loom_map_find, a value and a status for each key. */
template <class value> struct answers {
    std::vector<value> values; /* 0 where the key is absent */
    std::vector<uint8_t> status;
    explicit answers(uint64_t n) : values(n), status(n) {}
    void set(uint64_t i, bool found, value of)
    {
        values[i] = found ? of : 0;
        status[i] = found ? LOOM_OK : LOOM_NOT_FOUND;
    }
    bool operator==(const answers &other) const
    {
        return values == other.values && status == other.status;
    }
};

/* One side. A new object for each round; the constructor is not timed and reserves the capacity. */
template <class value> struct contestant {
    virtual ~contestant() = default;
    virtual void build() = 0;
    virtual void find(answers<value> &found) = 0;
};

template <class value> using maker = std::function<std::unique_ptr<contestant<value>>()>;

/* The range of n that a thread takes. */
template <class work> void for_range(uint64_t n, unsigned own, unsigned threads, work each)
{
    for (uint64_t i = n * own / threads, end = n * (own + 1) / threads; i < end; i++)
        each(i);
}

/* Containers that one thread fills. Any number of threads may look up keys in one that nobody changes. */
template <class map, class input> class one_map : public contestant<typename input::value>
{
  public:
    one_map(const input &of, unsigned finding_threads) : in(of), finders(finding_threads)
    {
        m.reserve(in.size());
    }
    void build() override
    {
        for (uint64_t i = 0; i < in.size(); i++)
            m.emplace(in.key_at(i), in.value_at(i));
    }
    void find(answers<typename input::value> &found) override
    {
        in_parallel(finders, [&](unsigned own) {
            for_range(in.size(), own, finders, [&](uint64_t i) {
                const auto at = m.find(in.query_at(i));
                const bool there = at != m.end();
                found.set(i, there, there ? at->second : 0);
            });
        });
    }

  protected:
    const input &in;
    const unsigned finders;
    map m;
};

#ifdef HAVE_ABSL
/* The same, and what a lookup will read is fetched ahead. Only absl offers this. */
template <class map, class input> class prefetched_map : public one_map<map, input>
{
  public:
    using one_map<map, input>::one_map;
    void find(answers<typename input::value> &found) override
    {
        constexpr uint64_t AHEAD = 16;
        in_parallel(this->finders, [&](unsigned own) {
            for_range(this->in.size(), own, this->finders, [&](uint64_t i) {
                if (i + AHEAD < this->in.size())
                    this->m.prefetch(this->in.query_at(i + AHEAD));
                const auto at = this->m.find(this->in.query_at(i));
                const bool there = at != this->m.end();
                found.set(i, there, there ? at->second : 0);
            });
        });
    }
};
#endif

/* The same containers, one for each thread, which stores the keys of its share of the hashes. This is the fastest way
 * to build them that we know. */
template <class map, class input> class map_per_thread : public contestant<typename input::value>
{
  public:
    explicit map_per_thread(const input &of) : in(of), shards(thread_count())
    {
        for (map &shard : shards)
            shard.reserve(in.size() / shards.size() + in.size() / 64);
    }
    void build() override
    {
        in_parallel(thread_count(), [&](unsigned own) {
            for (uint64_t i = 0; i < in.size(); i++)
                if (in.shard_at(i) == own)
                    shards[own].emplace(in.key_at(i), in.value_at(i));
        });
    }
    void find(answers<typename input::value> &found) override
    {
        in_parallel(thread_count(), [&](unsigned own) {
            for_range(in.size(), own, thread_count(), [&](uint64_t i) {
                const map &shard = shards[in.query_shard_at(i)];
                const auto at = shard.find(in.query_at(i));
                const bool there = at != shard.end();
                found.set(i, there, there ? at->second : 0);
            });
        });
    }

  private:
    const input &in;
    std::vector<map> shards;
};

#ifdef HAVE_TBB
template <class input> class tbb_map : public contestant<typename input::value>
{
    typedef tbb::concurrent_hash_map<typename input::key, typename input::value> map;

  public:
    explicit tbb_map(const input &of) : in(of), m(of.size()) {}
    void build() override
    {
        in_parallel(thread_count(), [&](unsigned own) {
            for_range(in.size(), own, thread_count(),
                      [&](uint64_t i) { m.insert(std::make_pair(in.key_at(i), in.value_at(i))); });
        });
    }
    void find(answers<typename input::value> &found) override
    {
        in_parallel(thread_count(), [&](unsigned own) {
            for_range(in.size(), own, thread_count(), [&](uint64_t i) {
                typename map::const_accessor at;
                const bool there = m.find(at, in.query_at(i));
                found.set(i, there, there ? at->second : 0);
            });
        });
    }

  private:
    const input &in;
    map m;
};
#endif

#ifdef HAVE_CUCKOO
template <class input> class cuckoo_map : public contestant<typename input::value>
{
  public:
    explicit cuckoo_map(const input &of) : in(of), m(of.size()) {}
    void build() override
    {
        in_parallel(thread_count(), [&](unsigned own) {
            for_range(in.size(), own, thread_count(), [&](uint64_t i) { m.insert(in.key_at(i), in.value_at(i)); });
        });
    }
    void find(answers<typename input::value> &found) override
    {
        in_parallel(thread_count(), [&](unsigned own) {
            for_range(in.size(), own, thread_count(), [&](uint64_t i) {
                typename input::value value = 0;
                const bool there = m.find(in.query_at(i), value);
                found.set(i, there, value);
            });
        });
    }

  private:
    const input &in;
    libcuckoo::cuckoohash_map<typename input::key, typename input::value> m;
};
#endif

/* Rates of one side in one round, in M a second. */
struct rates {
    double build, find;
};

inline double median(std::vector<double> of)
{
    std::sort(of.begin(), of.end());
    return of[of.size() / 2];
}

/* The rows of one printed table, and the least ratios among them. */
template <class input> class contest
{
    typedef typename input::value value;

  public:
    explicit contest(const input &of) : in(of), found(of.size())
    {
        std::printf("%-47s %-7s %9s %9s %6s  %-7s %9s %9s %6s\n", "", "build", "", "", "", "find", "", "", "");
        std::printf("%-47s %-7s %9s %9s %6s  %-7s %9s %9s %6s\n", "container", "threads", "M/s", "hashloom", "ratio",
                    "threads", "M/s", "hashloom", "ratio");
    }

    /* `building` and `finding`: the container's threads. */
    void run(const std::string &name, unsigned building, unsigned finding, const maker<value> &ours,
             const maker<value> &theirs)
    {
        std::vector<double> builds, our_builds, build_ratios, finds, our_finds, find_ratios;
        for (int round = 0; round < REPEATS; round++) {
            const rates us = measure("hashloom", ours), them = measure(name, theirs);
            builds.push_back(them.build);
            our_builds.push_back(us.build);
            build_ratios.push_back(us.build / them.build);
            finds.push_back(them.find);
            our_finds.push_back(us.find);
            find_ratios.push_back(us.find / them.find);
        }
        std::printf("%-47s %-7u %9.1f %9.1f %6.2f  %-7u %9.1f %9.1f %6.2f\n", name.c_str(), building, median(builds),
                    median(our_builds), median(build_ratios), finding, median(finds), median(our_finds),
                    median(find_ratios));
        std::fflush(stdout);
        least_build = std::min(least_build, median(build_ratios));
        least_find = std::min(least_find, median(find_ratios));
    }

    void conclude() const
    {
        if (least_build < NONE)
            std::printf("hashloom builds %.2f and finds %.2f times as fast as the fastest of them\n\n", least_build,
                        least_find);
    }

  private:
    static constexpr double NONE = 1e300;

    /* Both sides do everything once per round. Three lookups of all keys, the median of which counts. */
    rates measure(const std::string &name, const maker<value> &make)
    {
        const double millions = (double)in.size() * 1e-6;
        auto side = make();
        rates rate;
        double begin = seconds();
        side->build();
        rate.build = millions / (seconds() - begin);
        std::vector<double> finds;
        for (int repeat = 0; repeat < REPEATS; repeat++) {
            std::fill(found.status.begin(), found.status.end(), (uint8_t)0xa5);
            begin = seconds();
            side->find(found);
            finds.push_back(millions / (seconds() - begin));
            if (!(found == in.expected)) {
                std::fprintf(stderr, "%s: a key or a value is missing or wrong\n", name.c_str());
                std::exit(1);
            }
        }
        rate.find = median(finds);
        return rate;
    }

    const input &in;
    answers<value> found;
    double least_build = NONE, least_find = NONE;
};

#endif
