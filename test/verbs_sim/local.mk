# SPDX-License-Identifier: BSD-3-Clause
# Simulated mlx5 NICs.
verbs_sim_sources = test/verbs_sim/verbs_sim.cc
