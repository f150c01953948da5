// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>
#include <mutex>
#include <set>
#include <uct/ib_dmabuf/ucx/verbs.h>
#include <utility>

// Simulated mlx5 NICs that register dma-bufs: libibverbs, libmlx5, the kernel
// and the part of NVIDIA's driver that maps a dma-buf for a NIC. They check
// arguments as the real ones do, and transfer nothing.
//
// A dma-buf is a real one or a memory file (memfd), as the simulated GPU
// exports. The simulated GPU sets O_NONBLOCK on the open file of a PCIe
// mapping.
namespace verbs_sim {

// The software under a NIC, and the NIC's distance from the GPU. The default is
// a NIC without Data Direct and today's software.
struct platform {
    bool mlx5             = true;
    unsigned rdma_core    = 60;   // at least 34
    unsigned kernel       = 618;  // 512 means Linux 5.12
    bool imports          = true; // the NIC's driver imports dma-bufs
    bool data_direct      = false;
    bool data_direct_gone = false; // its device has been unbound

    // NVIDIA's driver. Up to 575 it checks the topology only when it maps: it
    // returns ENOMEM and leaves the dma-buf locked. Each later map or unmap of
    // that dma-buf hangs.
    unsigned nvidia = 595;
    // The GPU has a coherent link, which the standard mapping uses.
    bool coherent_gpu = false;
    // Devices in the coherent GPU's IOMMU group, as PCIe mappings require.
    bool data_direct_beside_gpu = true;
    bool nic_beside_gpu         = false;
    // The driver allows the standard mapping. NVIDIA's drivers up to 595 refuse
    // it on chipsets without peer-to-peer, but never for a coherent GPU.
    bool peer_to_peer = true;
    // Reports leave open whether ibv_reg_dmabuf_mr refuses a PCIe mapping that
    // the NIC cannot reach, or registers it although transfers fail.
    bool refuses_unreachable = true;

    // Bytes of BAR1. The link of a coherent GPU does not use BAR1.
    size_t room = SIZE_MAX;
};

// The usual platforms.
platform connectx7();                      // beside a GPU without coherent link
platform gb300(unsigned nvidia = 595);     // Data Direct beside the GPU
platform gb300_far(unsigned nvidia = 595); // Data Direct beside another GPU

struct registration {
    bool data_direct;
    bool pcie;      // in PCIe mapping
    bool reachable; // whether transfers would work
    size_t length;
    uint64_t iova;
    std::pair<uint64_t, uint64_t> dmabuf; // device and inode of its file
};

// An open device with a protection domain. Thread-safe.
class nic {
public:
    nic(const char *name, const platform &on);

    // With the functions that this rdma-core has.
    ucx_ib_dmabuf::protection_domain pd() { return {&pd_, &functions_, mlx5_}; }
    // ibv_reg_dmabuf_mr(), or mlx5dv_reg_dmabuf_mr() with Data Direct.
    ibv_mr *reg_dmabuf_mr(uint64_t offset, size_t length, uint64_t iova, int fd,
                          int access, bool data_direct = false);
    // Registers as uct_ib does from UCX 1.20 on (uct_ib_mlx5_devx_reg_mr()): by
    // mlx5dv_reg_dmabuf_mr() if mlx5dv reports Data Direct, and by
    // ibv_reg_dmabuf_mr() of the same dma-buf if that fails. Earlier versions,
    // and UCX_IB_DIRECT_NIC=n, use the latter only.
    ibv_mr *uct_ib_reg(int fd, uint64_t iova, size_t length,
                       bool tries_data_direct);
    // Changes the platform for later calls.
    void become(const platform &on);

    // Registrations not yet deregistered.
    size_t live() const;
    registration of(const ibv_mr *mr) const;
    // Calls to any NIC that would have hung on real hardware.
    static unsigned hangs();

private:
    struct sim_mr : ibv_mr {
        registration what;
    };
    template <typename T>
    struct owned : T {
        nic *owner;
    };

    template <typename T>
    static nic &owner(T *of)
    {
        return *static_cast<owned<T> *>(of)->owner;
    }
    static bool is_mlx5(ibv_device *device);
    static int get_data_direct_path(ibv_context *context, char *path,
                                    size_t size);
    static int dereg_mr(ibv_mr *mr);

    int check_arguments(uint64_t offset, uint64_t iova, int access,
                        bool data_direct) const;
    int import(int fd, uint64_t end, registration *what) const;
    int map(registration *what) const;
    size_t bytes() const;

    mutable std::mutex mutex_;
    platform on_;
    ucx_ib_dmabuf::verbs_functions functions_{};
    ucx_ib_dmabuf::mlx5_functions mlx5_{};
    owned<ibv_device> device_{};
    owned<ibv_context> context_{};
    owned<ibv_pd> pd_{};
    std::set<sim_mr *> all_;
};

} // namespace verbs_sim
