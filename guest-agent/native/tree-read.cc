// Resolves names in a tree and reads files for pulls; see tree.h.
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tree.h"

namespace {

// Result of openFile and openEntry for a file that is neither regular nor a directory.
constexpr int kSpecial = -4096;

// out: Float64Array of mode, size, mtime s, mtime ns, links, device, inode / 2^32, inode % 2^32, user, group, ctime s,
// ctime ns
constexpr size_t kStatFields = 12;

bool read_stat_out(napi_env env, napi_value value, double** out) {
  napi_typedarray_type type;
  size_t length;
  void* data = nullptr;
  if (napi_get_typedarray_info(env, value, &type, &length, &data, nullptr, nullptr) != napi_ok) {
    rejected(env);
    return false;
  }
  if (type != napi_float64_array || length < kStatFields) {
    napi_throw_type_error(env, nullptr, "a Float64Array of 12 was expected");
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
  out[10] = static_cast<double>(info.st_ctim.tv_sec);
  out[11] = static_cast<double>(info.st_ctim.tv_nsec);
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
  // EAGAIN: after a concurrent rename, the kernel could not determine whether `..` stayed inside.
  do fd = syscall(SYS_openat2, directory, name.get(), &how, sizeof how);
  while (fd < 0 && (errno == EAGAIN || errno == EINTR) && ++attempt < 64);
  return outcome(env, static_cast<int>(fd));
}

// openFile(path, out): opens for reading, through any link; kSpecial for a FIFO, socket or device, which is not opened
METHOD(open_file_for_reading) {
  ARGUMENTS(2);
  Name path;
  double* out;
  CHECK(path.read(env, arguments[0]));
  CHECK(read_stat_out(env, arguments[1], &out));
  // O_PATH first: opening some devices and FIFOs has side effects or blocks.
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

// openEntry(directory, leaf, out): opens a regular file or directory for reading, never through a link; kSpecial for
// other files, which `out` describes
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

// statusOf(fd, out): status of an open descriptor, which may name a link; 0 or -errno
METHOD(status_of) {
  ARGUMENTS(2);
  int32_t fd;
  double* out;
  CHECK(read_int(env, arguments[0], &fd));
  CHECK(read_stat_out(env, arguments[1], &out));
  struct stat status;
  int result = fstat(fd, &status);
  if (result == 0) put_stat(status, out);
  return outcome(env, result);
}

// statusAt(directory, leaf, out): status of an entry, never through a link; 0 or -errno
METHOD(status_at) {
  ARGUMENTS(3);
  int32_t directory;
  Name leaf;
  double* out;
  CHECK(read_int(env, arguments[0], &directory));
  CHECK(leaf.read(env, arguments[1]));
  CHECK(read_stat_out(env, arguments[2], &out));
  struct stat status;
  int result = fstatat(directory, leaf.get(), &status, AT_SYMLINK_NOFOLLOW);
  if (result == 0) put_stat(status, out);
  return outcome(env, result);
}

// readLink(directory, leaf): the target, or -errno; with "" the target of the link that the descriptor itself names
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

// nextEntries(directory): the next names, each followed by a slash; "" at the end; or -errno
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

bool add_tree_reading(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"openBeneath", open_beneath}, {"openFile", open_file_for_reading}, {"openEntry", open_entry},
      {"statusOf", status_of},       {"statusAt", status_at},       {"readLink", read_link},     {"nextEntries", next_entries},
  };
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
