# IBD_HARDENING: what distributions compile their packages with, for what is installed, as
# it is loaded into others' programs. --disable-hardening leaves it out.
AC_DEFUN([IBD_HARDENING],
  [AC_ARG_ENABLE([hardening],
     [AS_HELP_STRING([--disable-hardening],
        [build without checks of the stack and of buffers, and with lazy binding])],
     [], [enable_hardening=yes])
   AS_IF([test "x$enable_hardening" = xyes && test "x$enable_sanitizer" = xno],
     [AC_LANG_PUSH([C++])
      save_CXXFLAGS="$CXXFLAGS"
      for flag in -fstack-protector-strong -fstack-clash-protection -fcf-protection \
                  -mbranch-protection=standard; do
        CXXFLAGS="$save_CXXFLAGS -Werror $flag"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM()],
          [HARDENING_CFLAGS="$HARDENING_CFLAGS $flag"])
      done
      CXXFLAGS="$save_CXXFLAGS"
      # It wants an optimising compiler, and distributions set their own.
      AS_CASE([" $CPPFLAGS $CXXFLAGS "], [*_FORTIFY_SOURCE*], [],
        [*" -O"@<:@1-9s@:>@*],
        [HARDENING_CFLAGS="$HARDENING_CFLAGS -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2"])
      HARDENING_LDFLAGS="-Wl,-z,relro -Wl,-z,now"
      AC_LANG_POP([C++])])
   AC_SUBST([HARDENING_CFLAGS])
   AC_SUBST([HARDENING_LDFLAGS])])
