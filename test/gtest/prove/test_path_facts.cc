// SPDX-License-Identifier: BSD-3-Clause
//
// What a finding depends on, as it is asked of a NIC and of sysfs.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/utsname.h>
#include <uct/ib_dmabuf/prove/path_facts.h>

using namespace ucx_ib_dmabuf;

namespace {

int answer = 0; // of the device

int query_device(ibv_context *, ibv_device_attr *attr)
{
    strcpy(attr->fw_ver, "28.39.1002");
    attr->node_guid = 0x0123456789abcdef;
    return answer;
}

template <class Function>
void never(Function **out)
{
    *out = reinterpret_cast<Function *>(abort);
}

class test_path_facts : public ::testing::Test {
protected:
    void SetUp() override
    {
        connection_functions &calls = verbs_.connection;
        never(&calls.query_port);
        never(&calls.query_gid);
        never(&calls.query_pkey);
        never(&calls.create_cq);
        never(&calls.destroy_cq);
        never(&calls.create_qp);
        never(&calls.modify_qp);
        never(&calls.destroy_qp);
        calls.query_device = query_device;
        answer             = 0;

        char name[] = "/tmp/test_path_facts.XXXXXX";
        ASSERT_NE(nullptr, mkdtemp(name));
        folder_ = name;
        std::filesystem::create_directories(folder_ +
                                            "/pci/nic0/driver/module");
        std::filesystem::create_directories(folder_ + "/infiniband/nic0");
        std::filesystem::create_directory_symlink(
            folder_ + "/pci/nic0", folder_ + "/infiniband/nic0/device");
        write("version", "24.10");
        write("srcversion", "ABCDEF");
        strcpy(device_.name, "nic0");
        strcpy(device_.ibdev_path, (folder_ + "/infiniband/nic0").c_str());
        context_.device = &device_;
        pd_.context     = &context_;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    void write(const char *file, const char *what)
    {
        std::ofstream(folder_ + "/pci/nic0/driver/module/" + file) << what;
    }
    path_facts facts(const std::string &gpu = "gpu0",
                     ladder_step step       = ladder_step::standard,
                     const std::string &how = "how")
    {
        return facts_of({&pd_, &verbs_}, gpu, step, how);
    }

    std::string folder_;
    ibv_device device_{};
    ibv_context context_{};
    ibv_pd pd_{};
    verbs_functions verbs_{};
};

TEST_F(test_path_facts, all_that_is_there_is_found)
{
    const path_facts found = facts();
    utsname name{};
    ASSERT_EQ(0, uname(&name));

    EXPECT_EQ(36u, found.boot.size());
    EXPECT_EQ(0u, found.kernel.find(name.release));
    EXPECT_EQ("gpu0", found.gpu);
    EXPECT_EQ("nic0", found.nic);
    EXPECT_EQ("28.39.1002 24.10 ABCDEF", found.firmware);
    EXPECT_EQ("0123456789abcdef", found.node_guid);
    EXPECT_EQ(folder_ + "/pci/nic0", found.nic_place);
    EXPECT_EQ("step1,how", found.how);
    EXPECT_FALSE(found.key().empty());
    EXPECT_EQ(found.key(), facts().key());
}

TEST_F(test_path_facts, what_differs_has_another_key)
{
    const std::string key = facts().key();

    EXPECT_NE(key, facts("gpu1").key());
    EXPECT_NE(key, facts("gpu0", ladder_step::pcie).key());
    EXPECT_NE(key, facts("gpu0", ladder_step::standard, "another").key());
    write("srcversion", "ABCDE0"); // another driver of the same version
    EXPECT_NE(key, facts().key());
}

TEST_F(test_path_facts, without_a_key_where_something_is_not_known)
{
    EXPECT_TRUE(facts("").key().empty());
    answer = EIO;
    EXPECT_TRUE(facts().key().empty());
    answer = 0;
    EXPECT_FALSE(facts().key().empty());
    strcat(device_.ibdev_path, "/none");
    EXPECT_TRUE(facts().key().empty());
    verbs_.connection.query_gid = nullptr;
    EXPECT_TRUE(facts().key().empty());
}

// Soft-RoCE's: no device of PCI's, and no module of its own.
TEST_F(test_path_facts, a_nic_in_software_has_no_place)
{
    std::filesystem::remove(folder_ + "/infiniband/nic0/device");
    EXPECT_EQ("", facts().nic_place);
    EXPECT_FALSE(facts().key().empty());
}

} // namespace
