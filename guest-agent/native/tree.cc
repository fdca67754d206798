// File trees relative to held directory descriptors: what pushing and pulling files does. Names are bytes (JavaScript
// strings of code units below 256), results are numbers: a descriptor or count, or -errno. No path is resolved twice,
// and none but by openat2 with the caller's RESOLVE flags.
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "napi.h"

namespace {

// What openFile and openEntry give instead of a descriptor for what is neither a regular file nor a directory.
constexpr int kSpecial = -4096;

class Name {
 public:
  bool read(napi_env env, napi_value value) {
    size_t size = 0;
    if (napi_get_value_string_latin1(env, value, text_, sizeof text_, &size) != napi_ok) {
      rejected(env);
      return false;
    }
    // A longer one was cut; the kernel takes 4095 bytes and says so itself.
    return true;
  }
  const char* get() const { return text_; }

 private:
  char text_[4160];
};

napi_value outcome(napi_env env, int result) { return to_number(env, result < 0 ? -errno : result); }

// out: Float64Array of mode, size, mtime seconds, mtime nanoseconds, links, device, inode / 2^32, inode % 2^32, user, group
constexpr size_t kStatFields = 10;

bool read_stat_out(napi_env env, napi_value value, double** out) {
  napi_typedarray_type type;
  size_t length;
  void* data = nullptr;
  if (napi_get_typedarray_info(env, value, &type, &length, &data, nullptr, nullptr) != napi_ok) {
    rejected(env);
    return false;
  }
  if (type != napi_float64_array || length < kStatFields) {
    napi_throw_type_error(env, nullptr, "a Float64Array of 10 was expected");
    return false;
  }
  *out = static_cast<double*>(data);
  return true;
}

void put_stat(const struct stat& info, double* out) {
  out[0] = info.st_mode;
  out[1] = static_cast<double>(info.st_size);
  out[2] = static_cast<double>(info.st_mtim.tv_sec);
  out[3] = static_cast<double>(info.st_mtim.tv_nsec);
  out[4] = static_cast<double>(info.st_nlink);
  out[5] = static_cast<double>(info.st_dev);
  out[6] = static_cast<double>(info.st_ino >> 32);
  out[7] = static_cast<double>(info.st_ino & 0xffffffff);
  out[8] = info.st_uid;
  out[9] = info.st_gid;
}

// Creates, in place of any file or link that has the name; a directory stays and is -EISDIR.
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

int close_keeping_errno(int fd, int result) {
  int error = errno;
  close(fd);
  errno = error;
  return result;
}

// openBeneath(directory, name, flags, resolve)
METHOD(open_beneath) {
  ARGUMENTS(4);
  int32_t directory, flags, resolve;
  Name name;
  CHECK(read_int(env, arguments[0], &directory));
  CHECK(name.read(env, arguments[1]));
  CHECK(read_int(env, arguments[2], &flags));
  CHECK(read_int(env, arguments[3], &resolve));
  struct open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = static_cast<uint64_t>(resolve);
  long fd;
  int attempt = 0;
  // EAGAIN: something was renamed meanwhile, and the kernel could not tell whether `..` stayed inside.
  do fd = syscall(SYS_openat2, directory, name.get(), &how, sizeof how);
  while (fd < 0 && (errno == EAGAIN || errno == EINTR) && ++attempt < 64);
  return outcome(env, static_cast<int>(fd));
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

// finishFile(fd, sizeBytes, mode, seconds, nanos): closes the descriptor in any case; a negative size leaves it alone
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

// addDirectory(parent, leaf): -EEXIST for anything that has the name
METHOD(add_directory) {
  ARGUMENTS(2);
  int32_t parent;
  Name leaf;
  CHECK(read_int(env, arguments[0], &parent));
  CHECK(leaf.read(env, arguments[1]));
  return outcome(env, mkdirat(parent, leaf.get(), 0755));
}

// addSymlink(parent, leaf, target, seconds, nanos): in place of any file or link that has the name
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

// addLink(fromParent, fromLeaf, parent, leaf): in place of any other file or link that has the name; never follows one
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
    if (fstatat(parent, leaf.get(), &to, AT_SYMLINK_NOFOLLOW) == 0 && from.st_dev == to.st_dev && from.st_ino == to.st_ino)
      return outcome(env, 0);
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

// openFile(path, out): for reading, through any link; kSpecial for a FIFO, socket or device, which is not opened
METHOD(open_file_for_reading) {
  ARGUMENTS(2);
  Name path;
  double* out;
  CHECK(path.read(env, arguments[0]));
  CHECK(read_stat_out(env, arguments[1], &out));
  // A descriptor that only names it: opening some devices and FIFOs does something, or waits.
  int place = open(path.get(), O_PATH | O_CLOEXEC);
  if (place < 0) return outcome(env, place);
  struct stat status;
  int result = fstat(place, &status);
  if (result == 0) {
    put_stat(status, out);
    char self[40];
    snprintf(self, sizeof self, "/proc/self/fd/%d", place);
    int kind = S_ISDIR(status.st_mode) ? O_DIRECTORY : 0;
    if (S_ISREG(status.st_mode) || kind) result = open(self, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | kind);
    else result = kSpecial;
  }
  result = close_keeping_errno(place, result);
  return result == kSpecial ? to_number(env, kSpecial) : outcome(env, result);
}

// openEntry(directory, leaf, out): a regular file or directory for reading, never through a link; kSpecial for the
// rest, of which `out` tells
METHOD(open_entry) {
  ARGUMENTS(3);
  int32_t directory;
  Name leaf;
  double* out;
  CHECK(read_int(env, arguments[0], &directory));
  CHECK(leaf.read(env, arguments[1]));
  CHECK(read_stat_out(env, arguments[2], &out));
  struct stat status;
  if (fstatat(directory, leaf.get(), &status, AT_SYMLINK_NOFOLLOW) < 0) return outcome(env, -1);
  put_stat(status, out);
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return to_number(env, kSpecial);
  int kind = S_ISDIR(status.st_mode) ? O_DIRECTORY : 0;
  int fd = openat(directory, leaf.get(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC | kind);
  if (fd < 0) return outcome(env, fd);
  if (fstat(fd, &status) < 0) return outcome(env, close_keeping_errno(fd, -1));
  put_stat(status, out);
  if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) return to_number(env, fd);
  close(fd);
  return to_number(env, kSpecial);
}

// readLink(directory, leaf): the target, or -errno
METHOD(read_link) {
  ARGUMENTS(2);
  int32_t directory;
  Name leaf;
  CHECK(read_int(env, arguments[0], &directory));
  CHECK(leaf.read(env, arguments[1]));
  char target[4096];
  ssize_t size = readlinkat(directory, leaf.get(), target, sizeof target);
  if (size < 0) return outcome(env, -1);
  napi_value text;
  TRY(napi_create_string_latin1(env, target, static_cast<size_t>(size), &text));
  return text;
}

// nextEntries(directory): some more names, each followed by a slash; "" at the end; or -errno
METHOD(next_entries) {
  ARGUMENTS(1);
  int32_t directory;
  CHECK(read_int(env, arguments[0], &directory));
  alignas(dirent64) static char batch[32768];
  static char names[32768];
  size_t size = 0;
  while (size == 0) {
    ssize_t got = getdents64(directory, batch, sizeof batch);
    if (got < 0) return outcome(env, -1);
    if (got == 0) break;
    for (ssize_t at = 0; at < got;) {
      const dirent64* entry = reinterpret_cast<const dirent64*>(batch + at);
      at += entry->d_reclen;
      const char* name = entry->d_name;
      if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
      size_t length = strlen(name);
      memcpy(names + size, name, length);
      names[size + length] = '/';
      size += length + 1;
    }
  }
  napi_value text;
  TRY(napi_create_string_latin1(env, names, size, &text));
  return text;
}

}  // namespace

bool add_tree(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"openBeneath", open_beneath},  {"createFile", create_file_at},      {"writeAt", write_at},
      {"finishFile", finish_file},    {"putFile", put_file},               {"addDirectory", add_directory},
      {"addSymlink", add_symlink},    {"addLink", add_link},               {"removeFile", remove_file},
      {"openFile", open_file_for_reading}, {"openEntry", open_entry},      {"readLink", read_link},
      {"nextEntries", next_entries},
  };
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
