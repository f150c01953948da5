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

# IBD_STOCK_MPIS: MPIs that others built without CUDA, for the tests only;
# test/setup/mpi_wheel.sh lays them out. Programs that are linked with Open MPI 4
# run on 5, too; MPICH wants them compiled with its own mpi.h.
AC_DEFUN([IBD_STOCK_MPIS],
  [AC_ARG_WITH([openmpi5],
     [AS_HELP_STRING([--with-openmpi5=PREFIX],
       [an Open MPI 5 with its own UCX, for tests])],
     [], [with_openmpi5=no])
   AC_ARG_WITH([mpich],
     [AS_HELP_STRING([--with-mpich=PREFIX],
       [an MPICH with its own UCX, for tests])],
     [], [with_mpich=no])
   AS_IF([test "x$with_openmpi5" != xno],
     [AS_IF([test -x "$with_openmpi5/bin/mpirun"], [],
        [AC_MSG_ERROR([no bin/mpirun in $with_openmpi5 (--with-openmpi5)])])
      AC_SUBST([OPENMPI5_PREFIX], [$with_openmpi5])])
   AS_IF([test "x$with_mpich" != xno],
     [AS_IF([test -r "$with_mpich/include/mpi.h"], [],
        [AC_MSG_ERROR([no include/mpi.h in $with_mpich (--with-mpich)])])
      AC_SUBST([MPICH_PREFIX], [$with_mpich])
      MPICH_CPPFLAGS="-isystem $with_mpich/include -DMPICH_SKIP_MPICXX"
      MPICH_LIBS="-L$with_mpich/lib -lmpi"])
   AC_SUBST([MPICH_CPPFLAGS])
   AC_SUBST([MPICH_LIBS])
   AM_CONDITIONAL([HAVE_MPICH], [test "x$with_mpich" != xno])])
