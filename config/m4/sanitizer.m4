# IBD_SANITIZER: --enable-sanitizer=address,undefined or =thread.
AC_DEFUN([IBD_SANITIZER],
  [AC_ARG_ENABLE([sanitizer],
     [AS_HELP_STRING([--enable-sanitizer=LIST],
        [build with these sanitizers: "address,undefined" or "thread"])],
     [], [enable_sanitizer=no])
   AS_IF([test "x$enable_sanitizer" != xno],
     [SANITIZER_FLAGS="-fsanitize=$enable_sanitizer -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
      AC_LANG_PUSH([C++])
      save_CXXFLAGS="$CXXFLAGS"
      CXXFLAGS="$CXXFLAGS $SANITIZER_FLAGS"
      AC_LINK_IFELSE([AC_LANG_PROGRAM()], [],
        [AC_MSG_ERROR([the compiler cannot link with -fsanitize=$enable_sanitizer])])
      CXXFLAGS="$save_CXXFLAGS"
      AC_LANG_POP([C++])])
   AC_SUBST([SANITIZER_FLAGS])
   AM_CONDITIONAL([SANITIZER], [test "x$enable_sanitizer" != xno])])
