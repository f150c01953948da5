# IBD_VERBS: libibverbs with ibv_reg_dmabuf_mr (rdma-core 34).
AC_DEFUN([IBD_VERBS],
  [AC_CHECK_HEADER([infiniband/verbs.h], [],
     [AC_MSG_ERROR([no infiniband/verbs.h: install rdma-core's headers (libibverbs-dev)])])
   save_LIBS="$LIBS"
   AC_CHECK_LIB([ibverbs], [ibv_reg_dmabuf_mr], [VERBS_LIBS="-libverbs"],
     [AC_MSG_ERROR([libibverbs has no ibv_reg_dmabuf_mr: rdma-core 34 or later is needed])])
   LIBS="$save_LIBS"
   AC_SUBST([VERBS_LIBS])])
