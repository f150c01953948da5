# IBD_UCX: an installed UCX, 1.16 or later, for the tests only: the plug-in is built
# without any. Its public headers are enough.
AC_DEFUN([IBD_UCX],
  [AC_ARG_WITH([ucx],
     [AS_HELP_STRING([--with-ucx=PREFIX],
        [an installed UCX 1.16 or later with its headers, for the tests that need one])],
     [], [with_ucx=no])

   AS_IF([test "x$with_ucx" = xno],
     [ucx_version="none: no tests with UCX" UCX_PREFIX=],
     [IBD_UCX_CHECK])
   AM_CONDITIONAL([HAVE_UCX], [test "x$UCX_PREFIX" != x])
   AC_SUBST([UCX_PREFIX])
   AC_SUBST([UCX_CPPFLAGS])
   AC_SUBST([UCX_LDFLAGS])])

AC_DEFUN([IBD_UCX_CHECK],
  [ibd_header="$with_ucx/include/uct/api/version.h"
   AS_IF([test -r "$ibd_header"], [],
     [AC_MSG_ERROR([no include/uct/api/version.h in $with_ucx: give --with-ucx=PREFIX, where UCX and its headers are installed])])
   ucx_minor=$(sed -n 's/^#define UCT_VERNO_MINOR  *\([0-9]*\).*/\1/p' "$ibd_header")
   ucx_version="1.$ucx_minor (headers)"
   AS_IF([test "${ucx_minor:-0}" -ge 16], [],
     [AC_MSG_ERROR([the UCX in $with_ucx is 1.$ucx_minor: the tests need 1.16 or later])])

   UCX_CPPFLAGS="-isystem $with_ucx/include"
   dnl What is linked with it is to find it, whether or not it calls it.
   UCX_LDFLAGS="-L$with_ucx/lib -Wl,-rpath-link,$with_ucx/lib -Wl,--no-as-needed"
   save_LDFLAGS="$LDFLAGS" save_LIBS="$LIBS"
   LDFLAGS="$LDFLAGS $UCX_LDFLAGS"
   AC_CHECK_LIB([ucs], [ucs_load_modules], [],
     [AC_MSG_ERROR([no usable libucs in $with_ucx/lib: give --with-ucx=PREFIX])],
     [-lucm])
   AC_CHECK_LIB([ucm], [ucm_event_dispatch], [],
     [AC_MSG_ERROR([no usable libucm in $with_ucx/lib: give --with-ucx=PREFIX])])
   LDFLAGS="$save_LDFLAGS" LIBS="$save_LIBS"
   IBD_UCX_MODULE([ib], [was built without verbs: it has no memory domain for RDMA])
   IBD_UCX_MODULE([cuda], [was built without CUDA (--with-cuda): its cuda_copy transport moves small messages])
   UCX_PREFIX="$with_ucx"])

# IBD_UCX_MODULE(NAME, PROBLEM): libuct_NAME is among its modules, which a wheel
# names in a way of its own.
AC_DEFUN([IBD_UCX_MODULE],
  [AS_IF([ls "$with_ucx/lib/ucx" 2>/dev/null | grep -q '^libuct_$1[[-.]]'], [],
     [AC_MSG_ERROR([no libuct_$1 in $with_ucx/lib/ucx: this UCX $2])])])
