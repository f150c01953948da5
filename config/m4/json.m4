# IBD_JSON: nlohmann's header, with which ucx_dmabuf_info writes and reads JSON.
AC_DEFUN([IBD_JSON],
  [AC_CHECK_HEADER([nlohmann/json.hpp], [],
     [AC_MSG_ERROR([no nlohmann/json.hpp: install it (nlohmann-json3-dev, json-devel), or give its folder with CPPFLAGS=-I...])])])
