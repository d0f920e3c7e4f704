#include "bench_case.h"
#include "bench_options.h"
#include "tool.h"

static int run_bench(int argc, char **argv)
{
    bench_options options;
    char error[256];
    if (!bench_options_parse(&options, argc, argv, error))
        return tool_wrong_use("%s", error);
    const int code = bench_run(&options, error);
    return error[0] ? tool_failed("%s", error) : code;
}

const tool_command tool_bench = {
    "bench",
    "CASE... [OPTIONS]",
    "measure speed, check the answers, and hold it against what the hardware can do",
    "Cases:\n"
    "  limits              copy bandwidth, random reads and compare-and-swap over arrays of several sizes\n"
    "  map                 build, insert, find_or_insert, accumulate, count, update, overwrite, find and erase;\n"
    "                      if --ops names it, churn: ten times all keys are replaced, a tenth at a time, then\n"
    "                      find_churned looks keys up as find does (--ops find,churn compares them); grow: into a\n"
    "                      table of twice the capacity; extend: more keys (--more), directly and by partition;\n"
    "                      insert_more: likewise, the way the library chooses; build_ways: builds with little memory,\n"
    "                      in order, and with statuses\n"
    "  perfect             tables of the perfect engine: build, insert and find; what they took, refused and stashed.\n"
    "                      With --sweep the figures of the paper on GPH and some more: find by size of the table, "
    "number\n"
    "                      of keys, share of hits and lanes; insert by size of the table; 1 % more keys, and build, "
    "by\n"
    "                      load; all three by bytes of key and value; insert and find by skew\n"
    "  filter              insert (directly), bulk (by partition) and contains; the rate of false positives as "
    "measured, "
    "by\n"
    "                      theory and from the filter's bits\n"
    "\n"
    "Options (several values are parted by spaces or commas, at most 32; numbers may be 2^24, 1M, 16Mi):\n"
    "  --sweep             perfect: figure by figure; --ops may leave operations out\n"
    "  --type T            map, set (build, insert, find, erase, churn) or counter; map\n"
    "  --n N               keys in the table, 1 to 2^40; 2^24, on a GPU of filters 2^27, of perfect 10^8\n"
    "  --bits-per-key B .. filter: bits of memory for each key, 1 to 512; 4 8 12 16 20 24\n"
    "  --bytes B           filter: its size, instead of these\n"
    "  --absent A          filter: absent keys that false positives are counted with; 2^24, on a GPU 10^8\n"
    "  --load L ...        keys / slots, 0.001 to 0.95; 0.53 0.8 0.9 0.95\n"
    "  --hit PERCENT ...   lookups that find their key, 0 to 100; 0 50 100\n"
    "  --skew S            draw keys by Zipf's law with this exponent, 0 to 100; 0: each key once\n"
    "  --hot SHARE         so many of the keys, from 0 to 1, are one and the same, evenly spread; 0\n"
    "  --more SHARE        extend, insert_more: keys that are added, as a share of all keys, up to 1; 0.09\n"
    "  --queries Q         keys that are looked up; as many as the table has\n"
    "  --batch B           keys per call; all\n"
    "  --wait W            each: every call is waited for; last: only the last one (calls are given a loom_result); "
    "each\n"
    "  --concurrent-reads  yes or no: whether lookups may run beside writers; no\n"
    "  --key-bytes K       4 or 8; 4\n"
    "  --value-bytes V     4 or 8; 4; not for sets\n"
    "  --ops A,B           which operations; all but churn, grow, extend, insert_more, build_ways\n"
    "  --repeat R          times each operation is repeated, 1 to 1000, the median counts; 5\n"
    "  --machine M         best, cpu or cuda; best\n"
    "  --engine E          default, or one of those below that has the case's tables; default\n"
    "  --threads T         host threads, up to 1024; 0: one per core\n"
    "  --lanes L           cuda: lanes of a group: 1, 2, 4 or 8; 0: chosen by the library\n"
    "  --csv FILE          write the rows as CSV too\n"
    "  --json FILE         write the rows as JSON too\n"
    "\n"
    "limit: what the hardware did in the same run over as many bytes as the table has, in M accesses/s (GB/s for "
    "copy).\n"
    "Where an operation reads and swaps, the limit is that of such a mixture.\n"
    "find of 4 + 4 bytes on a GPU also notes its share of reads with a key and an answer (answered_read_64).\n"
    "share: rate * accesses / limit; for build the bytes that must move / time / limit. With --skew or --hot only "
    "builds have\na limit and a share.\n"
    "core_share, in the files alone: on the cpu machine, processor time / (wall time * threads) of the timed "
    "repetitions.\nBelow 0.9 the printed row has a note.\n"
    "An option that nothing in the run uses is refused.\n"
    "limits takes only --machine, --threads, --csv and --json, which every case takes.\n"
    "map takes all but --bits-per-key, --bytes, --absent and --sweep; --more is for extend and insert_more, --hit and\n"
    "--queries are for find and churn.\n"
    "perfect takes what map takes, and --sweep. With --sweep each figure sets its own loads, hit rates and --more: "
    "--load,\n--hit and --more are refused.\n"
    "filter takes --n, --queries, --hit, --batch, --wait, --key-bytes, --ops, --repeat, --lanes, and its own. Its "
    "limits: contains\nrandom reads of 64 bytes, insert compare-and-swap, bulk copy, of the keys once to read and to "
    "write "
    "in each pass of splitting\n(one up to 64 MiB, else two), once more to read, and of the filter to read and to "
    "write.\n",
    run_bench,
    tool_print_engines};
