# IBD_GTEST: GoogleTest, for "make check" only.
AC_DEFUN([IBD_GTEST],
  [AC_CHECK_HEADER([gtest/gtest.h], [have_gtest=yes], [have_gtest=no])
   GTEST_LIBS="-lgtest -lpthread"
   AC_SUBST([GTEST_LIBS])
   AM_CONDITIONAL([HAVE_GTEST], [test $have_gtest = yes])])
