// Shared by writing and reading file trees. Both work relative to open directory descriptors. Names are byte strings
// (JavaScript strings of code units below 256). Results are numbers: a descriptor, a count, or -errno. No path is
// resolved twice, and every path is resolved by openat2 with the caller's RESOLVE flags.
#pragma once

#include <errno.h>
#include <unistd.h>

#include "napi.h"

class Name {
 public:
  bool read(napi_env env, napi_value value) {
    size_t size = 0;
    if (napi_get_value_string_latin1(env, value, text_, sizeof text_, &size) != napi_ok) {
      rejected(env);
      return false;
    }
    // A longer name was truncated; the kernel accepts 4095 bytes and returns its own error.
    return true;
  }
  const char* get() const { return text_; }

 private:
  char text_[4160];
};

inline napi_value outcome(napi_env env, int result) { return to_number(env, result < 0 ? -errno : result); }

inline int close_keeping_errno(int fd, int result) {
  int error = errno;
  close(fd);
  errno = error;
  return result;
}
