// SPDX-License-Identifier: BSD-3-Clause
#include "model.h"
#include <gtest/gtest.h>
#include <random>

namespace {

class random_source : public model::source {
public:
    explicit random_source(uint64_t seed) : random_(seed) {}
    uint32_t below(uint32_t bound) override
    {
        return static_cast<uint32_t>((random_() >> 32) * bound >> 32);
    }

private:
    std::mt19937_64 random_;
};

uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *value = getenv(name);
    return value == nullptr ? otherwise : strtoull(value, nullptr, 0);
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint64_t usual_steps = 300'000;
#else
constexpr uint64_t usual_steps = 10'000'000;
#endif

// CACHE_MODEL_SEED repeats a run; CACHE_MODEL_STEPS sets its length.
TEST(model_test, cache_does_what_the_model_says)
{
    uint64_t seed  = setting("CACHE_MODEL_SEED", std::random_device()());
    uint64_t steps = setting("CACHE_MODEL_STEPS", usual_steps);
    printf("CACHE_MODEL_SEED=%zu CACHE_MODEL_STEPS=%zu\n",
           static_cast<size_t>(seed), static_cast<size_t>(steps));
    fflush(stdout);
    random_source source(seed);
    model both(source);
    both.origin = "CACHE_MODEL_SEED=" + std::to_string(seed);
    while (both.steps < steps) {
        both.step();
    }
}

} // namespace
