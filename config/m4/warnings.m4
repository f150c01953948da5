# IBD_WARNINGS: many warnings; --enable-werror makes them errors.
AC_DEFUN([IBD_WARNINGS],
  [AC_ARG_ENABLE([werror],
     [AS_HELP_STRING([--enable-werror], [treat warnings as errors])],
     [], [enable_werror=no])
   WARN_CFLAGS="-Wall -Wextra -Wshadow -Wpointer-arith -Wno-unused-parameter"
   AS_IF([test "x$enable_werror" = xyes],
     [WARN_CFLAGS="$WARN_CFLAGS -Werror"])
   AC_SUBST([WARN_CFLAGS])])
