// Reads and changes single files for the calls of files, with the rights of a user; see tree.h.
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tree.h"

namespace {

constexpr size_t kMaxGroups = 4096;

struct Proc {
  explicit Proc(int fd) { snprintf(path, sizeof path, "/proc/self/fd/%d", fd); }
  char path[40];
};

// actAs(uid, gid, groups): the effective user of this thread only, by the system calls themselves: the C library's
// functions change all threads. Root keeps its real and saved ids, so that it can be root again. 0 or -errno.
METHOD(act_as) {
  ARGUMENTS(3);
  double uid, gid;
  CHECK(read_double(env, arguments[0], &uid));
  CHECK(read_double(env, arguments[1], &gid));
  uint32_t count = 0;
  TRY(napi_get_array_length(env, arguments[2], &count));
  std::vector<gid_t> groups;
  for (uint32_t at = 0; at < count && at < kMaxGroups; at++) {
    napi_value item;
    double group;
    TRY(napi_get_element(env, arguments[2], at, &item));
    CHECK(read_double(env, item, &group));
    groups.push_back(static_cast<gid_t>(group));
  }
  const uid_t same = static_cast<uid_t>(-1);
  // Root first: only root may choose groups.
  long result = syscall(SYS_setresuid, same, 0, same);
  if (result == 0) result = syscall(SYS_setgroups, groups.size(), groups.data());
  if (result == 0) result = syscall(SYS_setresgid, same, static_cast<gid_t>(gid), same);
  if (result == 0) result = syscall(SYS_setresuid, same, static_cast<uid_t>(uid), same);
  return outcome(env, static_cast<int>(result));
}

// ownAs(uid, gid): what this thread creates belongs to them, with root's rights; `ownAs(0, 0)` ends it. 0 or -errno.
// The kernel gives an entry its owner as it makes it, so no name is resolved again for that.
METHOD(own_as) {
  ARGUMENTS(2);
  double uid, gid;
  CHECK(read_double(env, arguments[0], &uid));
  CHECK(read_double(env, arguments[1], &gid));
  // These calls return the id from before, and no error.
  syscall(SYS_setfsgid, static_cast<gid_t>(gid));
  syscall(SYS_setfsuid, static_cast<uid_t>(uid));
  const gid_t now_gid = static_cast<gid_t>(syscall(SYS_setfsgid, static_cast<gid_t>(-1)));
  const uid_t now_uid = static_cast<uid_t>(syscall(SYS_setfsuid, static_cast<uid_t>(-1)));
  if (now_uid != static_cast<uid_t>(uid) || now_gid != static_cast<gid_t>(gid)) return to_number(env, -EPERM);
  // Another user than root lost root's capabilities for files: they are effective again.
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) < 0) return outcome(env, -1);
  for (auto& word : data) word.effective = word.permitted;
  return outcome(env, static_cast<int>(syscall(SYS_capset, &header, data)));
}

// reopen(place, flags): opens the file that an O_PATH descriptor names; a FIFO or device is not waited for
METHOD(reopen) {
  ARGUMENTS(2);
  int32_t place, flags;
  CHECK(read_int(env, arguments[0], &place));
  CHECK(read_int(env, arguments[1], &flags));
  return outcome(env, open(Proc(place).path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

// changeMode(fd, mode): of any descriptor that names no symbolic link
METHOD(change_mode) {
  ARGUMENTS(2);
  int32_t fd, mode;
  CHECK(read_int(env, arguments[0], &fd));
  CHECK(read_int(env, arguments[1], &mode));
  return outcome(env, chmod(Proc(fd).path, static_cast<mode_t>(mode)));
}

// changeOwner(fd, uid, gid)
METHOD(change_owner) {
  ARGUMENTS(3);
  int32_t fd;
  double uid, gid;
  CHECK(read_int(env, arguments[0], &fd));
  CHECK(read_double(env, arguments[1], &uid));
  CHECK(read_double(env, arguments[2], &gid));
  return outcome(env, fchownat(fd, "", static_cast<uid_t>(uid), static_cast<gid_t>(gid), AT_EMPTY_PATH));
}

// changeTime(fd, seconds, nanos): the modification time
METHOD(change_time) {
  ARGUMENTS(3);
  int32_t fd;
  double seconds, nanos;
  CHECK(read_int(env, arguments[0], &fd));
  CHECK(read_double(env, arguments[1], &seconds));
  CHECK(read_double(env, arguments[2], &nanos));
  struct timespec times[2] = {{0, UTIME_OMIT}, {static_cast<time_t>(seconds), static_cast<long>(nanos)}};
  return outcome(env, utimensat(AT_FDCWD, Proc(fd).path, times, 0));
}

// Extended attributes of the namespace `user`; their names are without it.
constexpr char kUser[] = "user.";
constexpr size_t kUserSize = sizeof kUser - 1;
constexpr size_t kMaxAttributeBytes = 65536;

// attributesOf(directory, leaf): names and values in turn, of a file that is not a link; with "" of the file that the
// descriptor itself names; or -errno. Left out: what the effective user may not read, and what is beyond 64 KiB.
METHOD(attributes_of) {
  ARGUMENTS(2);
  int32_t directory;
  Name leaf;
  CHECK(read_int(env, arguments[0], &directory));
  CHECK(leaf.read(env, arguments[1]));
  const bool is_itself = *leaf.get() == '\0';
  std::string path = Proc(directory).path;
  if (!is_itself) path.append("/").append(leaf.get());
  static char names[kMaxAttributeBytes];
  static char value[kMaxAttributeBytes];
  ssize_t size = is_itself ? listxattr(path.c_str(), names, sizeof names) : llistxattr(path.c_str(), names, sizeof names);
  if (size < 0 && errno != ENOTSUP) return outcome(env, -1);
  napi_value list;
  TRY(napi_create_array(env, &list));
  uint32_t count = 0;
  size_t total = 0;
  for (ssize_t at = 0; at < size; at += static_cast<ssize_t>(strlen(names + at)) + 1) {
    const char* name = names + at;
    if (strncmp(name, kUser, kUserSize) != 0) continue;
    ssize_t got = is_itself ? getxattr(path.c_str(), name, value, sizeof value)
                            : lgetxattr(path.c_str(), name, value, sizeof value);
    if (got < 0) continue;
    const size_t name_size = strlen(name) - kUserSize;
    total += name_size + static_cast<size_t>(got);
    if (total > kMaxAttributeBytes) break;
    napi_value text;
    TRY(napi_create_string_latin1(env, name + kUserSize, name_size, &text));
    TRY(napi_set_element(env, list, count++, text));
    TRY(napi_create_string_latin1(env, value, static_cast<size_t>(got), &text));
    TRY(napi_set_element(env, list, count++, text));
  }
  return list;
}

// setAttribute(fd, name, value): 0 or -errno
METHOD(set_attribute) {
  ARGUMENTS(3);
  int32_t fd;
  Name name;
  uint8_t* value;
  size_t size;
  CHECK(read_int(env, arguments[0], &fd));
  CHECK(name.read(env, arguments[1]));
  CHECK(read_bytes(env, arguments[2], &value, &size));
  const std::string full = std::string(kUser) + name.get();
  return outcome(env, setxattr(Proc(fd).path, full.c_str(), value, size, 0));
}

// removeAttribute(fd, name): 0, also without such an attribute, or -errno
METHOD(remove_attribute) {
  ARGUMENTS(2);
  int32_t fd;
  Name name;
  CHECK(read_int(env, arguments[0], &fd));
  CHECK(name.read(env, arguments[1]));
  const std::string full = std::string(kUser) + name.get();
  const int result = removexattr(Proc(fd).path, full.c_str());
  return outcome(env, result < 0 && errno == ENODATA ? 0 : result);
}

// renameEntry(fromParent, fromLeaf, toParent, toLeaf, replaces): without `replaces`, -EEXIST for an existing target
METHOD(rename_entry) {
  ARGUMENTS(5);
  int32_t from_parent, to_parent, replaces;
  Name from, to;
  CHECK(read_int(env, arguments[0], &from_parent));
  CHECK(from.read(env, arguments[1]));
  CHECK(read_int(env, arguments[2], &to_parent));
  CHECK(to.read(env, arguments[3]));
  CHECK(read_int(env, arguments[4], &replaces));
  unsigned flags = replaces != 0 ? 0 : RENAME_NOREPLACE;
  return outcome(env, renameat2(from_parent, from.get(), to_parent, to.get(), flags));
}

// removeEmpty(parent, leaf): an empty directory
METHOD(remove_empty) {
  ARGUMENTS(2);
  int32_t parent;
  Name leaf;
  CHECK(read_int(env, arguments[0], &parent));
  CHECK(leaf.read(env, arguments[1]));
  return outcome(env, unlinkat(parent, leaf.get(), AT_REMOVEDIR));
}

// mayWrite(parent, leaf): 0 if the effective user may write to the file, or -errno; never through a link. To open it
// would tell as well, but an overlay then copies the file up, so that it has another inode and another time of change.
METHOD(may_write) {
  ARGUMENTS(2);
  int32_t parent;
  Name leaf;
  CHECK(read_int(env, arguments[0], &parent));
  CHECK(leaf.read(env, arguments[1]));
  long result = syscall(SYS_faccessat2, parent, leaf.get(), W_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW);
  return outcome(env, static_cast<int>(result));
}

// Moves both positions over a hole of `from`, which `to` gets as well. Returns the bytes of data that follow, at most
// `length`; 0 at the end.
size_t skip_hole(int from, int to, size_t length) {
  off_t at = lseek(from, 0, SEEK_CUR);
  off_t data = lseek(from, at, SEEK_DATA);
  if (data >= 0) {
    off_t hole = lseek(from, data, SEEK_HOLE);
    lseek(from, data, SEEK_SET);
    if (data > at) lseek(to, data, SEEK_SET);
    return hole > data ? std::min(length, static_cast<size_t>(hole - data)) : length;
  }
  struct stat status;
  // ENXIO: only a hole is left. Other errors: this file system knows no holes.
  bool is_hole = errno == ENXIO && fstat(from, &status) == 0 && status.st_size > at;
  if (is_hole && ftruncate(to, status.st_size) == 0) return 0;
  lseek(from, at, SEEK_SET);
  return length;
}

// copyBytes(from, to, length): from and to the descriptors' own positions, which are the same; holes stay holes. The
// number copied, 0 at the end, or -errno
METHOD(copy_bytes) {
  ARGUMENTS(3);
  int32_t from, to;
  double length;
  CHECK(read_int(env, arguments[0], &from));
  CHECK(read_int(env, arguments[1], &to));
  CHECK(read_double(env, arguments[2], &length));
  size_t wanted = skip_hole(from, to, static_cast<size_t>(length));
  if (wanted == 0) return to_number(env, 0);
  ssize_t copied = copy_file_range(from, nullptr, to, nullptr, wanted, 0);
  // Files of /proc give 0, other file systems errors, where a plain copy works.
  if (copied > 0) return to_number(env, static_cast<double>(copied));
  static char bytes[65536];
  ssize_t got = read(from, bytes, std::min(wanted, sizeof bytes));
  if (got <= 0) return outcome(env, static_cast<int>(got));
  for (ssize_t at = 0; at < got;) {
    ssize_t put = write(to, bytes + at, static_cast<size_t>(got - at));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return outcome(env, -1);
    at += put;
  }
  return to_number(env, static_cast<double>(got));
}

// seek(fd, position): 0 or -errno
METHOD(seek) {
  ARGUMENTS(2);
  int32_t fd;
  double position;
  CHECK(read_int(env, arguments[0], &fd));
  CHECK(read_double(env, arguments[1], &position));
  return outcome(env, lseek(fd, static_cast<off_t>(position), SEEK_SET) < 0 ? -1 : 0);
}

// coarseClock(): microseconds since 1970 of the clock with which the kernel stamps changes of files
napi_value coarse_clock(napi_env env, napi_callback_info) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return to_number(env, static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec / 1000));
}

}  // namespace

bool add_tree_changing(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"actAs", act_as},           {"reopen", reopen},           {"changeMode", change_mode},
      {"changeOwner", change_owner}, {"changeTime", change_time}, {"renameEntry", rename_entry},
      {"removeEmpty", remove_empty}, {"copyBytes", copy_bytes},   {"seek", seek},
      {"coarseClock", coarse_clock}, {"mayWrite", may_write},   {"ownAs", own_as},
      {"attributesOf", attributes_of}, {"setAttribute", set_attribute}, {"removeAttribute", remove_attribute},
  };
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
