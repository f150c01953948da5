#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Build the conformance program anywhere: it wants a C++20 compiler and CUDA's
# headers, and of this tree nothing but test/cuda_sim and test/common.
# usage: build.sh [CUDA_DIR]      makes ./cuda-conformance
set -e
here=$(cd "$(dirname "$0")" && pwd)
cuda=${1:-${CUDA_HOME:-/usr/local/cuda}}
exec "${CXX:-g++}" -std=c++20 -O2 -Wall -Wextra -isystem "$cuda/include" \
    -I"$here/../.." -o cuda-conformance "$here"/*.cc -ldl -lpthread
