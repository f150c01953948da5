// SPDX-License-Identifier: BSD-3-Clause
//
// Whether a NIC offers GPU memory, by probes of GPUs: some are not in use, some
// work with the NIC, and some do not.
#include "fake_nic.h"
#include "path_gpu.h"
#include <uct/ib_dmabuf/path/reg_methods.h>

using namespace path_test;

namespace {

constexpr int fails = EINVAL;

// GPUs, and a NIC that fails with a preset errno for each.
class scene {
public:
    scene(std::vector<bool> in_use, std::vector<int> errors,
          reg_methods::path_checker check = {})
        : errors_(std::move(errors)),
          methods_(nic_.pd(), true, by, table_, std::move(check))
    {
        gpus.in_use = std::move(in_use);
        by.error    = [this] {
            EXPECT_EQ(1, gpus.live);
            return (fail_first-- > 0)
                          ? ENOMEM
                          : errors_.at(static_cast<size_t>(gpus.probed));
        };
    }
    ~scene()
    {
        EXPECT_EQ(0, gpus.live);
        EXPECT_EQ(0, by.live);
    }
    bool offered()
    {
        return registers_gpu_memory(gpus, methods_, [] { return false; });
    }

    path_gpu gpus;
    fake_importer by;
    int fail_first = 0;

private:
    std::vector<int> errors_;
    fake_nic nic_;
    path_table table_;
    reg_methods methods_;
};

TEST(test_probe, a_nic_is_offered_unless_all_that_can_be_tried_fails)
{
    const struct {
        std::vector<bool> in_use;
        std::vector<int> errors;
        bool offered;
    } all[] = {{{}, {}, true},
               {{false, false}, {fails, fails}, true},
               {{true, false}, {0, fails}, true},
               {{true, true}, {fails, 0}, true},
               {{true, true}, {0, fails}, true},
               {{true, false}, {fails, 0}, false},
               {{true, true}, {fails, fails}, false},
               {{true}, {EBUSY}, true}};
    for (const auto &[in_use, errors, offered] : all) {
        EXPECT_EQ(offered, scene(in_use, errors).offered());
    }
}

// Those that are in use now, though another one failed before.
TEST(test_probe, each_offer_is_of_the_gpus_in_use)
{
    scene one({true, false}, {fails, 0});

    EXPECT_FALSE(one.offered());
    EXPECT_EQ(1u, one.gpus.allocated);
    one.gpus.in_use[1] = true;
    EXPECT_TRUE(one.offered());
    EXPECT_EQ(3u, one.gpus.allocated);
}

TEST(test_probe, a_lack_of_room_that_passes_is_no_failure)
{
    scene one({true}, {0});

    one.fail_first = 4; // no room this time
    EXPECT_FALSE(one.offered());
    EXPECT_EQ(4u, one.by.asked);
    one.fail_first = 3;
    EXPECT_TRUE(one.offered());
    EXPECT_EQ(8u, one.by.asked);
}

// The check of the path needs no other memory.
TEST(test_probe, a_probe_is_registered_and_checked_at_once)
{
    unsigned checked = 0;
    scene one({true}, {0},
              [&](int gpu, reg_method, const registered_buffer *probe) {
                  ++checked;
                  EXPECT_EQ(0, gpu);
                  EXPECT_NE(nullptr, probe);
                  return check_result{path_state::broken, "a test"};
              });

    EXPECT_FALSE(one.offered());
    EXPECT_EQ(2u, checked) << "both mappings";
    EXPECT_EQ(1u, one.gpus.allocated);
}

} // namespace
