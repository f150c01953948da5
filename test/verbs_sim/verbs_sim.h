// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>
#include <mutex>
#include <set>
#include <uct/ib_dmabuf/host/verbs.h>
#include <utility>

// Simulated mlx5 NICs, as far as registering dma-bufs goes: libibverbs,
// libmlx5, the kernel and the part of NVIDIA's driver that maps a dma-buf for a
// NIC. Arguments are checked as they check them; nothing is ever transferred.
//
// A dma-buf is a real one or a memory file (memfd), as the simulated GPU's
// stand-ins are; it is in PCIe mapping if its open file has O_NONBLOCK, which
// is how the simulated GPU marks that.
namespace verbs_sim {

// What a NIC runs on, and how far it is from the GPU. The default is a NIC
// without Data Direct and today's software.
struct platform {
    bool mlx5             = true;
    unsigned rdma_core    = 60;
    unsigned kernel       = 618;  // Linux 5.12 is 512
    bool imports          = true; // the NIC's driver imports dma-bufs
    bool data_direct      = false;
    bool data_direct_gone = false; // its device was unbound since

    // NVIDIA's driver. Up to 575 it finds out about the topology when it maps,
    // says ENOMEM, and leaves the dma-buf locked: who maps or unmaps it then
    // hangs.
    unsigned nvidia = 595;
    // The GPU has a coherent link, which the standard mapping uses.
    bool coherent_gpu = false;
    // What is in the IOMMU group of the coherent GPU, as PCIe mappings need it.
    bool data_direct_beside_gpu = true;
    bool nic_beside_gpu         = false;
    // The standard mapping is allowed. NVIDIA's drivers up to 595 refuse it on
    // chipsets without peer-to-peer, never where the GPU is coherent.
    bool peer_to_peer = true;
    // Reports leave open what ibv_reg_dmabuf_mr does with a PCIe mapping that
    // the NIC cannot reach: it is refused, or registered and of no use.
    bool refuses_unreachable = true;

    // Bytes of BAR1, which the link of a coherent GPU does not need.
    size_t room = SIZE_MAX;
};

// The usual ones.
platform connectx7();                      // beside a GPU without coherent link
platform gb300(unsigned nvidia = 595);     // Data Direct beside the GPU
platform gb300_far(unsigned nvidia = 595); // Data Direct beside another GPU

struct registration {
    bool data_direct;
    bool pcie;      // in PCIe mapping
    bool reachable; // transfers would work
    size_t length;
    uint64_t iova;
    std::pair<uint64_t, uint64_t> dmabuf; // its file
};

// A device that is open, with a protection domain. Thread-safe.
class nic {
public:
    nic(const char *name, const platform &on);

    // With what this rdma-core has.
    ucx_ib_dmabuf::protection_domain pd() { return {&pd_, &functions_, mlx5_}; }
    // libibverbs' and libmlx5's, as far as this rdma-core has them.
    ibv_mr *reg_dmabuf_mr(uint64_t offset, size_t length, uint64_t iova, int fd,
                          int access);
    ibv_mr *mlx5_reg_dmabuf_mr(uint64_t offset, size_t length, uint64_t iova,
                               int fd, int access, int mlx5_access);
    // As uct_ib from UCX 1.20 on: by mlx5dv_reg_dmabuf_mr() where mlx5dv tells
    // of Data Direct, and by ibv_reg_dmabuf_mr() of the same dma-buf if that
    // fails (uct_ib_mlx5_devx_reg_mr()). Before, and with UCX_IB_DIRECT_NIC=n:
    // by the latter.
    ibv_mr *uct_ib_reg(int fd, uint64_t iova, size_t length, int access,
                       bool tries_data_direct = true);
    // From now on.
    void become(const platform &on);

    // Registrations that there are.
    size_t live() const;
    registration of(const ibv_mr *mr) const;
    // How many registrations were tried with Data Direct.
    unsigned tried_data_direct() const { return tried_data_direct_; }
    // Calls that would never have returned, of any NIC.
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

    ibv_mr *reg(uint64_t offset, size_t length, uint64_t iova, int fd,
                int access, bool data_direct);
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
    unsigned tried_data_direct_ = 0;
};

} // namespace verbs_sim
