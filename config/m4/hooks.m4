# IBD_HOOKS: whether src/ucm can hook the functions of this architecture's CUDA driver.
AC_DEFUN([IBD_HOOKS],
  [AS_CASE([$host_cpu],
     [x86_64 | aarch64],
     [hooks="yes, for $host_cpu"
      HOOKS_CPPFLAGS=-DCAN_PATCH],
     [hooks="no, not for $host_cpu: each use of memory asks the driver whether it is the same"])
   AC_SUBST([HOOKS_CPPFLAGS])
   AM_CONDITIONAL([HOST_AARCH64], [test "$host_cpu" = aarch64])])
