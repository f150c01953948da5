# SPDX-License-Identifier: BSD-3-Clause
include test/gtest/cache/local.mk
