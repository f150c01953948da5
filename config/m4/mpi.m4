# IBD_MPI: an MPI compiler, for the programs in test/mpi only.
AC_DEFUN([IBD_MPI],
  [AC_CHECK_PROGS([MPICXX], [mpicxx mpic++])
   AS_IF([test "x$MPICXX" != x], [have_mpi=yes], [have_mpi=no])
   AS_IF([test $have_mpi = yes],
     [MPI_CPPFLAGS="$($MPICXX --showme:compile 2>/dev/null | sed 's/-I/-isystem /g') -DOMPI_SKIP_MPICXX"
      MPI_LIBS="$($MPICXX --showme:link 2>/dev/null | sed 's/-lmpi_cxx//')"])
   AC_SUBST([MPI_CPPFLAGS])
   AC_SUBST([MPI_LIBS])
   AM_CONDITIONAL([HAVE_MPI], [test $have_mpi = yes])])
