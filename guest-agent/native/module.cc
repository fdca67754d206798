// The module's entry point: registers the exports of the other files.
#include "napi.h"

bool add_poll(napi_env env, napi_value exports);
bool add_io(napi_env env, napi_value exports);
bool add_frames(napi_env env, napi_value exports);
bool add_direct_file(napi_env env, napi_value exports);
bool add_link_write(napi_env env, napi_value exports);
bool add_files(napi_env env, napi_value exports);
bool add_tree_making(napi_env env, napi_value exports);
bool add_tree_reading(napi_env env, napi_value exports);
bool add_tree_changing(napi_env env, napi_value exports);
bool add_inotify(napi_env env, napi_value exports);
bool add_spawn(napi_env env, napi_value exports);
bool add_children(napi_env env, napi_value exports);
bool add_system(napi_env env, napi_value exports);
bool add_root(napi_env env, napi_value exports);
bool add_memory_directory(napi_env env, napi_value exports);
bool add_network(napi_env env, napi_value exports);
bool add_connections(napi_env env, napi_value exports);
bool add_ports(napi_env env, napi_value exports);
bool add_tty(napi_env env, napi_value exports);
bool add_vsock(napi_env env, napi_value exports);

NAPI_MODULE_INIT() {
  bool (*const parts[])(napi_env, napi_value) = {
      add_poll,        add_io,    add_frames,   add_direct_file, add_link_write, add_files, add_tree_making,
      add_tree_reading, add_tree_changing, add_spawn, add_children, add_system,      add_network, add_connections,
      add_tty,         add_vsock, add_root,     add_memory_directory, add_inotify,
      add_ports,
  };
  bool ok = true;
  for (auto add : parts) ok = ok && add(env, exports);
  return ok ? exports : rejected(env);
}
