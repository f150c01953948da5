# IBD_CXX_RUNTIME: libstdc++ and libgcc for the plug-in. They are linked into it where
# that can be done: the process may have an older libstdc++ than this compiler's,
# of conda or of the system, and the dynamic linker takes the one that is there. The
# same for programs that are installed.
AC_DEFUN([IBD_CXX_RUNTIME],
  [AC_MSG_CHECKING([whether libstdc++ can be linked into a library])
   cxx_archive=$($CXX -print-file-name=libstdc++.a)
   CXX_RUNTIME="-static-libgcc -Wl,$cxx_archive"
   save_LDFLAGS="$LDFLAGS" save_LIBS="$LIBS"
   LDFLAGS="$LDFLAGS -shared -fPIC -Wl,-z,defs" LIBS="$CXX_RUNTIME $LIBS"
   AS_IF([test "x$enable_sanitizer" != xno],
     [cxx_runtime=no],
     [AC_LINK_IFELSE(
        [AC_LANG_SOURCE([[#include <condition_variable>
                          #include <string>
                          std::string text(std::condition_variable &one)
                          {
                              one.notify_all();
                              return std::to_string(sizeof(one));
                          }]])],
        [cxx_runtime=yes], [cxx_runtime=no])])
   LDFLAGS="$save_LDFLAGS" LIBS="$save_LIBS"
   CXX_PROGRAM_RUNTIME="-static-libstdc++ -static-libgcc"
   AS_IF([test $cxx_runtime = no], [CXX_RUNTIME=-lstdc++ CXX_PROGRAM_RUNTIME=])
   AC_MSG_RESULT([$cxx_runtime])
   AC_SUBST([CXX_RUNTIME])
   AC_SUBST([CXX_PROGRAM_RUNTIME])])
