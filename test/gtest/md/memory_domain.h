// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <lab/soft_roce.h>
#include <stdexcept>
#include <string>
#include <uct/api/uct.h>
#include <uct/ib_dmabuf/ucx/abi.h>
#include <vector>

// The memory domain of the lab's first device, opened through UCT.
class memory_domain {
public:
    memory_domain()
    {
        const uct_component_h component = find_ib();
        uct_md_config_t *config         = nullptr;

        check(uct_md_config_read(component, nullptr, nullptr, &config));
        ucs_status_t status = uct_md_open(component, "rxe0", config, &md_);
        uct_config_release(config);
        check(status);
        check(uct_md_query(md_, &attr_));
    }
    ~memory_domain() { uct_md_close(md_); }
    memory_domain(const memory_domain &)            = delete;
    memory_domain &operator=(const memory_domain &) = delete;

    uct_md_h get() const { return md_; }
    ibv_pd *pd() const
    {
        ibv_pd *found = nullptr;
        memcpy(&found, reinterpret_cast<char *>(md_) + ucx_ib_dmabuf::pd_offset,
               sizeof(found));
        return found;
    }
    const uct_md_attr_t &attr() const { return attr_; }

    ucs_status_t reg(void *address, size_t length, unsigned flags,
                     uct_mem_h *memh)
    {
        return uct_md_mem_reg(md_, address, length, flags, memh);
    }
    // The same, but throws on failure.
    uct_mem_h reg(uintptr_t address, size_t length,
                  unsigned flags = UCT_MD_MEM_ACCESS_RMA)
    {
        uct_mem_h memh = nullptr;
        check(reg(reinterpret_cast<void *>(address), length, flags, &memh));
        return memh;
    }
    void dereg(uct_mem_h memh) { check(uct_md_mem_dereg(md_, memh)); }

    uint64_t pack(uct_mem_h memh)
    {
        uint64_t key = 0;

        if (attr_.rkey_packed_size != sizeof(key)) {
            throw std::runtime_error("packed keys have another size");
        }
        check(uct_md_mkey_pack(md_, memh, &key));
        return key;
    }
    // Packs a key for `length` bytes at the address.
    ucs_status_t pack(uct_mem_h memh, void *address, size_t length,
                      const ucx_ib_dmabuf::uct_md_mkey_pack_params_t &params,
                      uint64_t *key)
    {
        using function = ucs_status_t(
            uct_md_h, uct_mem_h, void *, size_t,
            const ucx_ib_dmabuf::uct_md_mkey_pack_params_t *, void *);
        return v2<function>("uct_md_mkey_pack_v2")(md_, memh, address, length,
                                                   &params, key);
    }
    ucs_status_t dereg(const ucx_ib_dmabuf::uct_md_mem_dereg_params_t &params)
    {
        using function = ucs_status_t(
            uct_md_h, const ucx_ib_dmabuf::uct_md_mem_dereg_params_t *);
        return v2<function>("uct_md_mem_dereg_v2")(md_, &params);
    }

private:
    // No installed header declares these functions.
    template <class Function>
    static Function *v2(const char *name)
    {
        return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
    }
    static void check(ucs_status_t status)
    {
        if (status != UCS_OK) {
            throw std::runtime_error(ucs_status_string(status));
        }
    }

    static uct_component_h find_ib()
    {
        uct_component_h *all  = nullptr;
        uct_component_h found = nullptr;
        unsigned count        = 0;

        check(uct_query_components(&all, &count));
        for (unsigned i = 0; i < count; ++i) {
            uct_component_attr_t attr{};
            attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
            check(uct_component_query(all[i], &attr));
            if (strcmp(attr.name, "ib") == 0) {
                found = all[i];
            }
        }
        uct_release_component_list(all);
        if (found == nullptr) {
            throw std::runtime_error("UCX has no component ib");
        }
        return found;
    }

    uct_md_h md_ = nullptr;
    uct_md_attr_t attr_{};
};

// The keys that uct_ib's transports read from a handle (uct_ib_mem_t).
struct memory_keys {
    uint32_t lkey;
    uint32_t rkey;
};

inline memory_keys keys_of(uct_mem_h memh)
{
    return *static_cast<const memory_keys *>(memh);
}

// RDMA operations with the keys of a domain, in its own protection domain.
class rdma_peer {
public:
    static constexpr size_t length = 10000;

    explicit rdma_peer(const memory_domain &md) : nic_(md.pd()) {}

    // Writes 'n' to the address. Returns the completion's status.
    ibv_wc_status write(uintptr_t address, uint64_t key)
    {
        return nic_.transfer(IBV_WR_RDMA_WRITE, host_.data(), host_mr_->lkey,
                             address, static_cast<uint32_t>(key), length);
    }

private:
    ucx_ib_dmabuf::test::nic nic_;
    std::vector<uint8_t> host_           = std::vector<uint8_t>(length, 'n');
    ucx_ib_dmabuf::test::region host_mr_ = nic_.reg(host_);
};

// Returns the number of memory regions in the kernel, of all processes.
inline int count_regions()
{
    FILE *pipe =
        popen("env -u LD_PRELOAD rdma resource show mr 2>/dev/null", "r");
    char line[512];
    int count = 0;

    while (fgets(line, sizeof(line), pipe) != nullptr) {
        ++count;
    }
    if (pclose(pipe) != 0) {
        throw std::runtime_error("'rdma resource show mr' failed");
    }
    return count;
}
