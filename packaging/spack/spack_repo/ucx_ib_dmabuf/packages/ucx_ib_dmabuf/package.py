# SPDX-License-Identifier: BSD-3-Clause
import os

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class UcxIbDmabuf(AutotoolsPackage):
    """GPUDirect RDMA over Linux dma-bufs, a plug-in for UCX. Whichever UCX a
    program loads, 1.16 to 1.23, gets it when the program is started by
    ucx-dmabuf-run."""

    # The tarball of "make dist", in the folder that Spack is started in. It has this file
    # in it, which so cannot have its hash.
    manual_download = True
    url = f"file://{os.getcwd()}/ucx-ib-dmabuf-0.1.0.tar.xz"

    license("BSD-3-Clause")

    version("0.1.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("rdma-core")

    requires("platform=linux")
    conflicts("%gcc@:10", msg="a compiler with C++20 is needed")
    conflicts("%clang@:13", msg="a compiler with C++20 is needed")

    sanity_check_is_file = [
        join_path("bin", "ucx-dmabuf-run"),
        join_path("lib", "ucx", "libuct_ib_dmabuf.so.0"),
    ]

    # Both are for tests only.
    def configure_args(self):
        return ["--without-cuda", "--without-ucx"]
