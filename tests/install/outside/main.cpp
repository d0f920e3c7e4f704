// An outside program in C++11: a map of 4 + 8 byte pairs; exits 0 if every answer is right.
#include <loom/loom.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{
void check(loom_status status)
{
    if (status != LOOM_OK)
        throw std::runtime_error(std::string(loom_status_name(status)) + ": " + loom_last_error());
}

void expect(bool condition, const char *what)
{
    if (!condition)
        throw std::runtime_error(what);
}

struct deleter {
    void operator()(loom_context *context) const
    {
        loom_context_destroy(context);
    }
    void operator()(loom_map *map) const
    {
        loom_map_destroy(map);
    }
};

void run()
{
    const std::uint32_t n = 1000;
    std::vector<std::uint32_t> keys(2 * n); // the second half is never inserted
    std::vector<std::uint64_t> values(n), found(2 * n);
    std::vector<std::uint8_t> status(2 * n);
    for (std::uint32_t i = 0; i < 2 * n; i++)
        keys[i] = i * 2654435769u - 1; // begins with all ones
    for (std::uint32_t i = 0; i < n; i++)
        values[i] = ~std::uint64_t(i);

    expect(loom_version() == LOOM_VERSION, "header and library differ in version");
    loom_context_config context_config = LOOM_CONTEXT_CONFIG_INIT;
    loom_context *raw_context = nullptr;
    check(loom_context_create(&context_config, &raw_context));
    std::unique_ptr<loom_context, deleter> context(raw_context);

    loom_map_config config = LOOM_MAP_CONFIG_INIT;
    config.key_bytes = 4;
    config.value_bytes = 8;
    config.capacity = n;
    loom_map *raw_map = nullptr;
    check(loom_map_create(context.get(), &config, &raw_map));
    std::unique_ptr<loom_map, deleter> map(raw_map);

    check(loom_map_build(map.get(), keys.data(), values.data(), n, LOOM_OVERWRITE, nullptr, nullptr, nullptr));
    loom_result result;
    check(loom_map_find(map.get(), keys.data(), 2 * n, found.data(), nullptr, status.data(), &result, nullptr));
    expect(result.ok == n && result.not_found == n, "wrong counts");
    for (std::uint32_t i = 0; i < 2 * n; i++)
        expect(i < n ? status[i] == LOOM_OK && found[i] == values[i] : status[i] == LOOM_NOT_FOUND, "a wrong answer");
    std::printf("%u keys found\n", static_cast<unsigned>(n));
}
} // namespace

int main()
{
    try {
        run();
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
