# IBD_FUZZER: clang++ with libFuzzer, for the fuzz targets only.
AC_DEFUN([IBD_FUZZER],
  [AC_CHECK_PROGS([CLANGXX], [clang++])
   have_fuzzer=no
   AS_IF([test "x$CLANGXX" != x],
     [echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char *, unsigned long) { return 0; }' >conftest.cc
      AS_IF([$CLANGXX -fsanitize=fuzzer conftest.cc -o conftest.fuzz >/dev/null 2>&1],
        [have_fuzzer=yes])
      rm -f conftest.cc conftest.fuzz])
   AM_CONDITIONAL([HAVE_FUZZER], [test $have_fuzzer = yes])])
