# IBD_UCX: an installed UCX 1.13, and the configured sources it was built from,
# for the tests only: the plug-in is built without any.
AC_DEFUN([IBD_UCX],
  [AC_ARG_WITH([ucx],
     [AS_HELP_STRING([--with-ucx=PREFIX],
        [an installed UCX 1.13, for the tests that need one])],
     [], [with_ucx=no])
   AC_ARG_WITH([ucx-src],
     [AS_HELP_STRING([--with-ucx-src=DIR],
        [the configured sources of the same UCX])],
     [], [with_ucx_src=no])

   AS_IF([test "x$with_ucx" = xno && test "x$with_ucx_src" = xno],
     [ucx_version="none: no tests with UCX" UCX_PREFIX= UCX_SRC=],
     [IBD_UCX_CHECK])
   AM_CONDITIONAL([HAVE_UCX], [test "x$UCX_PREFIX" != x])
   AC_SUBST([UCX_PREFIX])
   AC_SUBST([UCX_SRC])
   AC_SUBST([UCX_CPPFLAGS])
   AC_SUBST([UCX_SRC_CPPFLAGS])
   AC_SUBST([UCX_LDFLAGS])])

AC_DEFUN([IBD_UCX_CHECK],
  [AS_IF([test "x$with_ucx" = xno || test "x$with_ucx_src" = xno],
     [AC_MSG_ERROR([give both --with-ucx=PREFIX and --with-ucx-src=DIR, the configured sources of the same UCX, or none of them])])
   AS_IF([test -r "$with_ucx_src/src/uct/ib/base/ib_md.h"], [],
     [AC_MSG_ERROR([$with_ucx_src has no src/uct/ib/base/ib_md.h: not the sources of UCX])])
   AS_IF([test -r "$with_ucx_src/config.h"], [],
     [AC_MSG_ERROR([$with_ucx_src is not configured: it has no config.h. Run its configure script, with CUDA and verbs])])
   AS_IF([grep -q "^#define HAVE_CUDA 1" "$with_ucx_src/config.h"], [],
     [AC_MSG_ERROR([the UCX in $with_ucx_src was configured without CUDA (--with-cuda): its cuda_copy transport moves small messages; see $with_ucx_src/config.log])])
   AS_IF([grep -q "^#define HAVE_IB 1" "$with_ucx_src/config.h"], [],
     [AC_MSG_ERROR([the UCX in $with_ucx_src was configured without verbs (--with-verbs): it has no InfiniBand memory domain; see $with_ucx_src/config.log])])
   ucx_version=$(sed -n 's/^#define PACKAGE_VERSION "\(.*\)"/\1/p' "$with_ucx_src/config.h")
   AS_CASE([$ucx_version], [1.13*], [],
     [AC_MSG_ERROR([the sources in $with_ucx_src are of UCX $ucx_version: the tests are linked with UCX 1.13])])

   UCX_CPPFLAGS="-isystem $with_ucx/include"
   UCX_SRC_CPPFLAGS="-isystem $with_ucx_src/src -isystem $with_ucx_src"
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
   AS_IF([test -r "$with_ucx/lib/ucx/libuct_ib.so"], [],
     [AC_MSG_ERROR([no $with_ucx/lib/ucx/libuct_ib.so: this UCX was built without verbs])])
   UCX_PREFIX="$with_ucx"
   UCX_SRC="$with_ucx_src"])
