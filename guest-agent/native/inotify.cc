// Watches of directories for changes (inotify), for watches of files; see tree.h.
#include <stdio.h>
#include <sys/inotify.h>

#include "tree.h"

namespace {

// openInotify(): a descriptor whose reads do not block, or -errno
napi_value open_inotify(napi_env env, napi_callback_info) {
  return outcome(env, inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
}

// watchDirectory(inotify, place, mask): of the directory that a descriptor names; the kernel checks that the acting
// user may read it. The watch's number, which is the same for the same directory, or -errno
METHOD(watch_directory) {
  ARGUMENTS(3);
  int32_t inotify, place, mask;
  CHECK(read_int(env, arguments[0], &inotify));
  CHECK(read_int(env, arguments[1], &place));
  CHECK(read_int(env, arguments[2], &mask));
  char self[40];
  snprintf(self, sizeof self, "/proc/self/fd/%d", place);
  return outcome(env, inotify_add_watch(inotify, self, static_cast<uint32_t>(static_cast<int64_t>(mask))));
}

// unwatchDirectory(inotify, number): 0 or -errno
METHOD(unwatch_directory) {
  ARGUMENTS(2);
  int32_t inotify, number;
  CHECK(read_int(env, arguments[0], &inotify));
  CHECK(read_int(env, arguments[1], &number));
  return outcome(env, inotify_rm_watch(inotify, number));
}

}  // namespace

bool add_inotify(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"openInotify", open_inotify},
      {"watchDirectory", watch_directory},
      {"unwatchDirectory", unwatch_directory},
  };
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
