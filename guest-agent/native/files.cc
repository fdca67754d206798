// Small files of /proc and /sys relative to a directory descriptor: one open, one read, one close, without Node's
// overhead.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "napi.h"

namespace {

constexpr size_t kMaxTextBytes = 65536;

// openDirectory(directoryFd, name): a descriptor for the calls below and for spawn's cgroup
METHOD(open_directory) {
  ARGUMENTS(2);
  int32_t directory;
  std::string name;
  CHECK(read_int(env, arguments[0], &directory));
  CHECK(read_string(env, arguments[1], &name));
  int fd = openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return throw_errno(env, "openat", errno, name.c_str());
  return to_number(env, fd);
}

// makeDirectory(directoryFd, name, mode)
METHOD(make_directory) {
  ARGUMENTS(3);
  int32_t directory, mode;
  std::string name;
  CHECK(read_int(env, arguments[0], &directory));
  CHECK(read_string(env, arguments[1], &name));
  CHECK(read_int(env, arguments[2], &mode));
  if (mkdirat(directory, name.c_str(), static_cast<mode_t>(mode)) < 0)
    return throw_errno(env, "mkdirat", errno, name.c_str());
  return undefined(env);
}

// removeDirectory(directoryFd, name): 0, or -errno (a cgroup that is in use gives -EBUSY)
METHOD(remove_directory) {
  ARGUMENTS(2);
  int32_t directory;
  std::string name;
  CHECK(read_int(env, arguments[0], &directory));
  CHECK(read_string(env, arguments[1], &name));
  return to_number(env, unlinkat(directory, name.c_str(), AT_REMOVEDIR) < 0 ? -errno : 0);
}

// For files of /proc/sys, the kernel clears as many bytes as a read requests, and each copy of a guest would own those
// pages.
constexpr size_t kReadBytes = 4095;

// readText(directoryFd, name): at most 64 KiB; "" when the file cannot be read
METHOD(read_text) {
  ARGUMENTS(2);
  int32_t directory;
  std::string name;
  CHECK(read_int(env, arguments[0], &directory));
  CHECK(read_string(env, arguments[1], &name));
  static char text[kMaxTextBytes];
  size_t size = 0;
  // A FIFO in place of a file is not waited for.
  int fd = openat(directory, name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd >= 0) {
    ssize_t got;
    while (size < sizeof text && (got = read(fd, text + size, std::min(kReadBytes, sizeof text - size))) > 0) {
      size += static_cast<size_t>(got);
    }
    close(fd);
  }
  return to_string(env, text, size);
}

// writeText(directoryFd, name, text): 0, or -errno; one write to an existing file
METHOD(write_text) {
  ARGUMENTS(3);
  int32_t directory;
  std::string name, text;
  CHECK(read_int(env, arguments[0], &directory));
  CHECK(read_string(env, arguments[1], &name));
  CHECK(read_string(env, arguments[2], &text));
  int fd = openat(directory, name.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return to_number(env, -errno);
  int error = write(fd, text.data(), text.size()) < 0 ? errno : 0;
  close(fd);
  return to_number(env, -error);
}

// replaceText(path, text): replaces the file's content, mode 0644 when it is new; 0 or -errno. Does not truncate first:
// freeing and allocating blocks is most of the work when the new text has the same length.
METHOD(replace_text) {
  ARGUMENTS(2);
  std::string path, text;
  CHECK(read_string(env, arguments[0], &path));
  CHECK(read_string(env, arguments[1], &text));
  int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return to_number(env, -errno);
  struct stat status;
  bool ok = write(fd, text.data(), text.size()) >= 0 && fstat(fd, &status) == 0 &&
            (status.st_size == static_cast<off_t>(text.size()) || ftruncate(fd, text.size()) == 0);
  int error = ok ? 0 : errno;
  close(fd);
  return to_number(env, -error);
}

}  // namespace

bool add_files(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"openDirectory", open_directory}, {"makeDirectory", make_directory}, {"removeDirectory", remove_directory},
      {"readText", read_text},           {"writeText", write_text},
      {"replaceText", replace_text},
  };
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
