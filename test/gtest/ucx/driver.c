/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A NIC's driver as libibverbs loads it. local.mk compiles three: without
 * mlx5's functions, as before rdma-core 54, and as since rdma-core 54.
 */
int poll_cq(void)
{
    return 0;
}

#if defined(MLX5)
int mlx5dv_is_supported(void)
{
    return 1;
}
#if defined(DATA_DIRECT)
int mlx5dv_get_data_direct_sysfs_path(void)
{
    return 1;
}
#endif
#endif
