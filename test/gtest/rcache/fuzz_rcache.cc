// SPDX-License-Identifier: BSD-3-Clause
#include "model.h"

namespace {

// Choices from the fuzzer's bytes; 0 once they are used up.
class bytes : public model::source {
public:
    bytes(const uint8_t *data, size_t size) : next_(data), end_(data + size) {}

    bool ended() const { return next_ == end_; }

    uint32_t below(uint32_t bound) override
    {
        uint32_t value = 0;
        for (uint32_t rest = bound - 1; rest != 0 && !ended(); rest >>= 8) {
            value = value << 8 | *next_++;
        }
        return bound == 0 ? 0 : value % bound;
    }

private:
    const uint8_t *next_;
    const uint8_t *const end_;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bytes choices(data, size);
    model both(choices);
    both.origin = "fuzzer";
    both.forks  = false;
    while (!choices.ended()) {
        both.step();
    }
    return 0;
}
