# IBD_BENCHMARK: Google Benchmark, for test/bench only.
AC_DEFUN([IBD_BENCHMARK],
  [AC_CHECK_HEADER([benchmark/benchmark.h], [have_benchmark=yes],
     [have_benchmark=no])
   BENCHMARK_LIBS="-lbenchmark -lpthread"
   AC_SUBST([BENCHMARK_LIBS])
   AM_CONDITIONAL([HAVE_BENCHMARK], [test $have_benchmark = yes])])
