# IBD_VERBS: libibverbs' headers. The plug-in uses the library that UCX uses;
# tests are linked with one.
AC_DEFUN([IBD_VERBS],
  [AC_CHECK_HEADER([infiniband/verbs.h], [],
     [AC_MSG_ERROR([no infiniband/verbs.h: install rdma-core's headers (libibverbs-dev)])])
   AC_CHECK_DECL([IBV_ACCESS_RELAXED_ORDERING], [],
     [AC_MSG_ERROR([infiniband/verbs.h is too old: rdma-core 28 or later is needed])],
     [[#include <infiniband/verbs.h>]])
   VERBS_LIBS="-libverbs"
   AC_SUBST([VERBS_LIBS])])
