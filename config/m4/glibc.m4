# IBD_GLIBC: --with-glibc=VERSION has the libraries run on that glibc, too, which may be
# older than the one they are built with (src/glibc).
AC_DEFUN([IBD_GLIBC],
  [AC_ARG_WITH([glibc],
     [AS_HELP_STRING([--with-glibc=VERSION],
        [run on that glibc, 2.28 or later, too @<:@as they are built@:>@])],
     [], [with_glibc=no])
   AS_CASE([$with_glibc],
     [no], [],
     [2.2[[89]]|2.[[3-9]][[0-9]]],
       [AS_CASE([$host_cpu-$cxx_runtime],
          [x86_64-yes | aarch64-yes], [],
          [AC_MSG_ERROR([--with-glibc is for x86_64 and aarch64, with libstdc++ as an archive])])],
     [AC_MSG_ERROR([--with-glibc=$with_glibc: give a version from 2.28 on, as 2.28])])
   # Libraries of their own in that one, which the process may not have yet.
   AS_IF([test "$with_glibc" = no], [OLD_GLIBC_DL= OLD_GLIBC_LIBS=],
     [OLD_GLIBC_DL=-Wl,--push-state,--no-as-needed,-ldl,--pop-state
      OLD_GLIBC_LIBS=-Wl,--push-state,--no-as-needed,-ldl,-lpthread,--pop-state])
   AC_SUBST([OLD_GLIBC_DL])
   AC_SUBST([OLD_GLIBC_LIBS])
   AC_SUBST([GLIBC_VERSION], [$with_glibc])
   AM_CONDITIONAL([WITH_GLIBC], [test "$with_glibc" != no])])
