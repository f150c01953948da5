# IBD_CXX20: the compiler must take C++20, with the library that IBD_CXX_RUNTIME
# links and that the tests have seen. (libc++ has no std::atomic_ref before 19.)
AC_DEFUN([IBD_CXX20],
  [CXX="$CXX -std=gnu++20"
   AC_MSG_CHECKING([whether $CXX takes C++20])
   AC_COMPILE_IFELSE(
     [AC_LANG_PROGRAM([[#include <concepts>
                        #include <span>
                        #ifdef _LIBCPP_VERSION
                        #error libc++
                        #endif
                        template <std::integral T> T one() { return 1; }]],
                      [[std::span<int> s; (void)s; return one<int>();]])],
     [AC_MSG_RESULT([yes])],
     [AC_MSG_RESULT([no])
      AC_MSG_ERROR([a C++20 compiler with libstdc++ is needed: g++ 11 or clang++ 14 and later, without -stdlib=libc++])])])
