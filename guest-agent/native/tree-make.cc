// Writes files into a tree for pushes; see tree.h.
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tree.h"

namespace {

// Creates a file in place of any file or link with that name; an existing directory gives -EISDIR.
int create_file(int parent, const char* leaf) {
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  for (int attempt = 0;; attempt++) {
    int fd = openat(parent, leaf, flags, 0600);
    if (fd >= 0 || errno != EEXIST || attempt == 8) return fd;
    if (unlinkat(parent, leaf, 0) < 0 && errno != ENOENT) return -1;
  }
}

int write_all(int fd, const uint8_t* data, size_t size, off_t position) {
  while (size > 0) {
    ssize_t put = pwrite(fd, data, size, position);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return -1;
    data += put;
    position += put;
    size -= static_cast<size_t>(put);
  }
  return 0;
}

int set_mode_and_time(int fd, int mode, double seconds, double nanos) {
  struct timespec times[2] = {{0, UTIME_NOW}, {static_cast<time_t>(seconds), static_cast<long>(nanos)}};
  if (fchmod(fd, static_cast<mode_t>(mode)) < 0) return -1;
  return futimens(fd, times);
}

// createFile(parent, leaf)
METHOD(create_file_at) {
  ARGUMENTS(2);
  int32_t parent;
  Name leaf;
  CHECK(read_int(env, arguments[0], &parent));
  CHECK(leaf.read(env, arguments[1]));
  return outcome(env, create_file(parent, leaf.get()));
}

// writeAt(fd, buffer, offset, length, position)
METHOD(write_at) {
  ARGUMENTS(5);
  int32_t fd;
  uint8_t* data;
  size_t size;
  double position;
  CHECK(read_int(env, arguments[0], &fd));
  CHECK(read_range(env, arguments + 1, &data, &size));
  CHECK(read_double(env, arguments[4], &position));
  return outcome(env, write_all(fd, data, size, static_cast<off_t>(position)));
}

// finishFile(fd, sizeBytes, mode, seconds, nanos): always closes the descriptor; a negative size keeps the file's size
METHOD(finish_file) {
  ARGUMENTS(5);
  int32_t fd, mode;
  double size, seconds, nanos;
  CHECK(read_int(env, arguments[0], &fd));
  CHECK(read_double(env, arguments[1], &size));
  CHECK(read_int(env, arguments[2], &mode));
  CHECK(read_double(env, arguments[3], &seconds));
  CHECK(read_double(env, arguments[4], &nanos));
  int result = size < 0 ? 0 : ftruncate(fd, static_cast<off_t>(size));
  if (result == 0) result = set_mode_and_time(fd, mode, seconds, nanos);
  return outcome(env, close_keeping_errno(fd, result));
}

// putFile(parent, leaf, buffer, offset, length, mode, seconds, nanos): a whole small file in one call
METHOD(put_file) {
  ARGUMENTS(8);
  int32_t parent, mode;
  uint8_t* data;
  size_t size;
  double seconds, nanos;
  Name leaf;
  CHECK(read_int(env, arguments[0], &parent));
  CHECK(leaf.read(env, arguments[1]));
  CHECK(read_range(env, arguments + 2, &data, &size));
  CHECK(read_int(env, arguments[5], &mode));
  CHECK(read_double(env, arguments[6], &seconds));
  CHECK(read_double(env, arguments[7], &nanos));
  int fd = create_file(parent, leaf.get());
  if (fd < 0) return outcome(env, fd);
  int result = write_all(fd, data, size, 0);
  if (result == 0) result = set_mode_and_time(fd, mode, seconds, nanos);
  result = close_keeping_errno(fd, result);
  if (result < 0) {
    int error = errno;
    unlinkat(parent, leaf.get(), 0);
    errno = error;
  }
  return outcome(env, result);
}

// addDirectory(parent, leaf): -EEXIST for any existing file with that name
METHOD(add_directory) {
  ARGUMENTS(2);
  int32_t parent;
  Name leaf;
  CHECK(read_int(env, arguments[0], &parent));
  CHECK(leaf.read(env, arguments[1]));
  return outcome(env, mkdirat(parent, leaf.get(), 0755));
}

// addSymlink(parent, leaf, target, seconds, nanos): replaces any file or link with that name
METHOD(add_symlink) {
  ARGUMENTS(5);
  int32_t parent;
  double seconds, nanos;
  Name leaf, target;
  CHECK(read_int(env, arguments[0], &parent));
  CHECK(leaf.read(env, arguments[1]));
  CHECK(target.read(env, arguments[2]));
  CHECK(read_double(env, arguments[3], &seconds));
  CHECK(read_double(env, arguments[4], &nanos));
  int result = symlinkat(target.get(), parent, leaf.get());
  for (int attempt = 0; result < 0 && errno == EEXIST && attempt < 8; attempt++) {
    if (unlinkat(parent, leaf.get(), 0) < 0 && errno != ENOENT) return outcome(env, -1);
    result = symlinkat(target.get(), parent, leaf.get());
  }
  if (result < 0) return outcome(env, result);
  struct timespec times[2] = {{0, UTIME_NOW}, {static_cast<time_t>(seconds), static_cast<long>(nanos)}};
  return outcome(env, utimensat(parent, leaf.get(), times, AT_SYMLINK_NOFOLLOW));
}

// addLink(fromParent, fromLeaf, parent, leaf): replaces any other file or link with that name; never follows a link
METHOD(add_link) {
  ARGUMENTS(4);
  int32_t from_parent, parent;
  Name from_leaf, leaf;
  CHECK(read_int(env, arguments[0], &from_parent));
  CHECK(from_leaf.read(env, arguments[1]));
  CHECK(read_int(env, arguments[2], &parent));
  CHECK(leaf.read(env, arguments[3]));
  struct stat from, to;
  if (fstatat(from_parent, from_leaf.get(), &from, AT_SYMLINK_NOFOLLOW) < 0) return outcome(env, -1);
  int result = linkat(from_parent, from_leaf.get(), parent, leaf.get(), 0);
  for (int attempt = 0; result < 0 && errno == EEXIST && attempt < 8; attempt++) {
    bool exists = fstatat(parent, leaf.get(), &to, AT_SYMLINK_NOFOLLOW) == 0;
    if (exists && from.st_dev == to.st_dev && from.st_ino == to.st_ino) return outcome(env, 0);
    if (unlinkat(parent, leaf.get(), 0) < 0 && errno != ENOENT) return outcome(env, -1);
    result = linkat(from_parent, from_leaf.get(), parent, leaf.get(), 0);
  }
  return outcome(env, result);
}

// removeFile(parent, leaf)
METHOD(remove_file) {
  ARGUMENTS(2);
  int32_t parent;
  Name leaf;
  CHECK(read_int(env, arguments[0], &parent));
  CHECK(leaf.read(env, arguments[1]));
  return outcome(env, unlinkat(parent, leaf.get(), 0));
}

}  // namespace

bool add_tree_making(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"createFile", create_file_at}, {"writeAt", write_at},       {"finishFile", finish_file},
      {"putFile", put_file},          {"addDirectory", add_directory}, {"addSymlink", add_symlink},
      {"addLink", add_link},          {"removeFile", remove_file},
  };
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
