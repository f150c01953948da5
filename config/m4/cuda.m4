# IBD_CUDA: CUDA's headers, for the tests only. The plug-in declares what it calls
# (src/ucm/cuda_api.h) and opens libcuda at run time.
AC_DEFUN([IBD_CUDA],
  [AC_ARG_WITH([cuda],
     [AS_HELP_STRING([--with-cuda=DIR],
        [a CUDA toolkit for the tests; its headers are enough (default: CUDA_HOME or /usr/local/cuda, if there is one)])],
     [],
     [with_cuda="${CUDA_HOME:-/usr/local/cuda}"
      AS_IF([test -r "$with_cuda/include/cuda.h"], [], [with_cuda=no])])
   AS_IF([test "x$with_cuda" = xno],
     [cuda_include="none: no tests with CUDA" CUDA_DIR= CUDA_CPPFLAGS=],
     [IBD_CUDA_CHECK])
   AM_CONDITIONAL([HAVE_CUDA], [test "x$CUDA_DIR" != x])
   AC_SUBST([CUDA_DIR])
   AC_SUBST([CUDA_CPPFLAGS])])

AC_DEFUN([IBD_CUDA_CHECK],
  [cuda_include="$with_cuda/include"
   CUDA_CPPFLAGS="-isystem $cuda_include"
   save_CPPFLAGS="$CPPFLAGS"
   CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
   AC_CHECK_HEADER([cuda.h], [],
     [AC_MSG_ERROR([no cuda.h in $cuda_include: give --with-cuda=DIR, a folder with include/cuda.h, or --without-cuda, which leaves out the tests])])
   AC_MSG_CHECKING([whether cuda.h knows dma-bufs])
   AC_COMPILE_IFELSE(
     [AC_LANG_PROGRAM([[#include <cuda.h>]],
        [[return CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD + CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED;]])],
     [AC_MSG_RESULT([yes])],
     [AC_MSG_RESULT([no])
      AC_MSG_ERROR([the CUDA headers in $cuda_include are too old to export dma-bufs: the tests need 11.7 or later; --without-cuda leaves them out])])
   CPPFLAGS="$save_CPPFLAGS"
   CUDA_DIR="$with_cuda"])
