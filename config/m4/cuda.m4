# IBD_CUDA: CUDA's headers. Nothing is linked with CUDA: the plug-in opens
# libcuda at run time.
AC_DEFUN([IBD_CUDA],
  [AC_ARG_WITH([cuda],
     [AS_HELP_STRING([--with-cuda=DIR],
        [the CUDA toolkit; its headers are enough (default: CUDA_HOME, /usr/local/cuda)])],
     [], [with_cuda="${CUDA_HOME:-/usr/local/cuda}"])
   cuda_include="$with_cuda/include"
   CUDA_CPPFLAGS="-isystem $cuda_include"
   save_CPPFLAGS="$CPPFLAGS"
   CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
   AC_CHECK_HEADER([cuda.h], [],
     [AC_MSG_ERROR([no cuda.h in $cuda_include: give --with-cuda=DIR, a folder with include/cuda.h])])
   AC_MSG_CHECKING([whether cuda.h knows dma-bufs])
   AC_COMPILE_IFELSE(
     [AC_LANG_PROGRAM([[#include <cuda.h>]],
        [[return CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD + CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED;]])],
     [AC_MSG_RESULT([yes])],
     [AC_MSG_RESULT([no])
      AC_MSG_ERROR([the CUDA headers in $cuda_include are too old to export dma-bufs: 11.7 or later is needed])])
   CPPFLAGS="$save_CPPFLAGS"
   CUDA_DIR="$with_cuda"
   AC_SUBST([CUDA_DIR])
   AC_SUBST([CUDA_CPPFLAGS])])
