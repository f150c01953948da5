# IBD_CXX20: the compiler must take C++20.
AC_DEFUN([IBD_CXX20],
  [CXX="$CXX -std=gnu++20"
   AC_MSG_CHECKING([whether $CXX takes C++20])
   AC_COMPILE_IFELSE(
     [AC_LANG_PROGRAM([[#include <concepts>
                        #include <span>
                        template <std::integral T> T one() { return 1; }]],
                      [[std::span<int> s; (void)s; return one<int>();]])],
     [AC_MSG_RESULT([yes])],
     [AC_MSG_RESULT([no])
      AC_MSG_ERROR([a C++20 compiler is needed: g++ 11 or clang++ 14 and later])])])
