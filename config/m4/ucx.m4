# IBD_UCX: an installed UCX, and the configured sources it was built from: the
# decorated memory domain needs UCX's internal headers.
AC_DEFUN([IBD_UCX],
  [AC_ARG_WITH([ucx],
     [AS_HELP_STRING([--with-ucx=PREFIX], [an installed UCX (default: /usr)])],
     [], [with_ucx=/usr])
   AC_ARG_WITH([ucx-src],
     [AS_HELP_STRING([--with-ucx-src=DIR],
        [the configured sources of the same UCX (needed: it installs no internal headers)])],
     [], [with_ucx_src=])

   AS_IF([test "x$with_ucx_src" = x],
     [AC_MSG_ERROR([give --with-ucx-src=DIR: the configured sources of the UCX in $with_ucx])])
   AS_IF([test -r "$with_ucx_src/src/uct/ib/base/ib_md.h"], [],
     [AC_MSG_ERROR([$with_ucx_src has no src/uct/ib/base/ib_md.h: not the sources of UCX])])
   AS_IF([test -r "$with_ucx_src/config.h"], [],
     [AC_MSG_ERROR([$with_ucx_src is not configured: it has no config.h. Run its configure script, with CUDA and verbs])])
   AS_IF([grep -q "^#define HAVE_CUDA 1" "$with_ucx_src/config.h"], [],
     [AC_MSG_ERROR([the UCX in $with_ucx_src was configured without CUDA (--with-cuda): its cuda_copy transport moves small messages; see $with_ucx_src/config.log])])
   AS_IF([grep -q "^#define HAVE_IB 1" "$with_ucx_src/config.h"], [],
     [AC_MSG_ERROR([the UCX in $with_ucx_src was configured without verbs (--with-verbs): it has no InfiniBand memory domain; see $with_ucx_src/config.log])])

   UCX_CPPFLAGS="-isystem $with_ucx/include"
   UCX_SRC_CPPFLAGS="-isystem $with_ucx_src/src -isystem $with_ucx_src"
   UCX_LDFLAGS="-L$with_ucx/lib -Wl,-rpath-link,$with_ucx/lib"
   save_CPPFLAGS="$CPPFLAGS"
   CPPFLAGS="$CPPFLAGS $UCX_SRC_CPPFLAGS $UCX_CPPFLAGS $CUDA_CPPFLAGS"
   AC_LANG_PUSH([C])
   AC_MSG_CHECKING([which generation of UCX's internals this is])
   AC_COMPILE_IFELSE(
     [AC_LANG_PROGRAM([[
        #include <config.h>
        #include <uct/ib/base/ib_md.h>
        static ucs_status_t reg(uct_md_h md, void *address, size_t length,
                                unsigned flags, uct_mem_h *memh_p);
        static uct_md_ops_t ops = {.mem_reg = reg};
        static ucs_status_t reg(uct_md_h md, void *address, size_t length,
                                unsigned flags, uct_mem_h *memh_p)
        { return UCS_OK; }]],
        [[uct_md_attr_t attr; uct_ib_mem_t memh;
          attr.cap.reg_mem_types = 0; memh.lkey = 0;
          return (ops.mem_reg == 0) + attr.cap.reg_mem_types + memh.lkey;]])],
     [ucx_generation=1.13],
     [ucx_generation=unknown])
   AC_MSG_RESULT([$ucx_generation])
   AC_LANG_POP([C])
   AS_IF([test $ucx_generation = unknown],
     [AC_MSG_ERROR([the internals of the UCX in $with_ucx_src are of no known generation (UCX 1.13 is known); too old, or newer than this plug-in. See config.log])])
   CPPFLAGS="$save_CPPFLAGS"

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

   ucx_version=$(sed -n 's/^#define PACKAGE_VERSION "\(.*\)"/\1/p' "$with_ucx_src/config.h")
   ucx_src="$with_ucx_src"
   UCX_PREFIX="$with_ucx"
   UCX_SRC="$with_ucx_src"
   AC_SUBST([UCX_PREFIX])
   AC_SUBST([UCX_SRC])
   AC_SUBST([UCX_CPPFLAGS])
   AC_SUBST([UCX_SRC_CPPFLAGS])
   AC_SUBST([UCX_LDFLAGS])])
