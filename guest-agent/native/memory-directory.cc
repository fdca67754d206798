// Moves a directory of the root to memory: copies its content to a tmpfs and mounts that over it. No process of the
// image runs yet, so a name refers to the same file in every call. The image may still have too much or unusual
// content there.
#include <dirent.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <map>
#include <vector>

#include "napi.h"

namespace {

constexpr int kMaxDepth = 32;
constexpr size_t kMaxNamesBytes = 64 * 1024;
constexpr size_t kBlockBytes = 64 * 1024;

class Descriptor {
 public:
  explicit Descriptor(long fd) : fd_(static_cast<int>(fd)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

// A file and its copy, each as a directory descriptor and a name in that directory.
struct Pair {
  int from;
  int to;
  const char* name;
};

// The calls for extended attributes take no directory descriptor. With such a path they follow no link.
std::string path_of(int directory, const char* name) {
  return "/proc/self/fd/" + std::to_string(directory) + "/" + name;
}

// Copies a tree. Each step returns 0 or an errno; E2BIG when a limit is exceeded.
class Copy {
 public:
  // `left_out`: a name in the top directory that is not copied.
  Copy(int target, dev_t device, double entries, double bytes, const char* left_out)
      : target_(target), device_(device), entries_(entries), bytes_(bytes), left_out_(left_out) {}

  int directory(int from, int to, const std::string& path, int depth) {
    if (depth > kMaxDepth) return E2BIG;
    DIR* listing = fdopendir(openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!listing) return errno;
    int error = 0;
    while (!error) {
      errno = 0;
      dirent* entry = readdir(listing);
      if (!entry) {
        error = errno;
        break;
      }
      const char* name = entry->d_name;
      if (!strcmp(name, ".") || !strcmp(name, "..") || (depth == 0 && !strcmp(name, left_out_))) continue;
      error = any({from, to, name}, path.empty() ? name : path + "/" + name, depth);
    }
    closedir(listing);
    return error;
  }

  int metadata(const Pair& pair, const struct stat& status) {
    if (fchownat(pair.to, pair.name, status.st_uid, status.st_gid, AT_SYMLINK_NOFOLLOW) < 0) return errno;
    // After chown, which clears the set-user-ID bits and capabilities.
    if (!S_ISLNK(status.st_mode) && fchmodat(pair.to, pair.name, status.st_mode & 07777, 0) < 0) return errno;
    if (int error = attributes(pair)) return error;
    const struct timespec times[2] = {status.st_atim, status.st_mtim};
    return utimensat(pair.to, pair.name, times, AT_SYMLINK_NOFOLLOW) < 0 ? errno : 0;
  }

 private:
  int any(const Pair& pair, const std::string& path, int depth) {
    struct stat status;
    if (--entries_ < 0) return E2BIG;
    if (fstatat(pair.from, pair.name, &status, AT_SYMLINK_NOFOLLOW) < 0) return errno;
    bool is_directory = S_ISDIR(status.st_mode);
    // This is a mount point.
    if (is_directory && status.st_dev != device_) return 0;
    if (!is_directory && status.st_nlink > 1) {
      auto known = links_.find(status.st_ino);
      if (known != links_.end())
        return linkat(target_, known->second.c_str(), pair.to, pair.name, 0) < 0 ? errno : 0;
      links_[status.st_ino] = path;
    }
    int error = is_directory            ? nested(pair, path, depth)
                : S_ISREG(status.st_mode) ? file(pair, status.st_size)
                : S_ISLNK(status.st_mode) ? link(pair)
                                          : node(pair, status);
    return error ? error : metadata(pair, status);
  }

  int nested(const Pair& pair, const std::string& path, int depth) {
    constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    if (mkdirat(pair.to, pair.name, 0700) < 0) return errno;
    Descriptor from(openat(pair.from, pair.name, flags)), to(openat(pair.to, pair.name, flags));
    if (!from.is_open() || !to.is_open()) return errno;
    return directory(from.get(), to.get(), path, depth + 1);
  }

  int file(const Pair& pair, off_t size) {
    // Counts the apparent size: reading a hole allocates memory too.
    if (static_cast<double>(size) > bytes_) return E2BIG;
    Descriptor from(openat(pair.from, pair.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    Descriptor to(openat(pair.to, pair.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!from.is_open() || !to.is_open()) return errno;
    static char block[kBlockBytes];
    for (;;) {
      ssize_t got = read(from.get(), block, sizeof block);
      if (got <= 0) return got < 0 ? errno : 0;
      if ((bytes_ -= static_cast<double>(got)) < 0) return E2BIG;
      for (ssize_t done = 0; done < got;) {
        ssize_t put = write(to.get(), block + done, static_cast<size_t>(got - done));
        if (put < 0) return errno;
        done += put;
      }
    }
  }

  // Copies the link's text without resolving it; only the guest follows the link.
  int link(const Pair& pair) {
    char text[4096];
    ssize_t length = readlinkat(pair.from, pair.name, text, sizeof text - 1);
    if (length < 0) return errno;
    if ((bytes_ -= static_cast<double>(length)) < 0) return E2BIG;
    text[length] = 0;
    return symlinkat(text, pair.to, pair.name) < 0 ? errno : 0;
  }

  // The device node is copied, but the mount options prevent opening it.
  int node(const Pair& pair, const struct stat& status) {
    return mknodat(pair.to, pair.name, (status.st_mode & S_IFMT) | 0600, status.st_rdev) < 0 ? errno : 0;
  }

  int attributes(const Pair& pair) {
    static char names[kMaxNamesBytes];
    static char value[kBlockBytes];
    std::string from = path_of(pair.from, pair.name), to = path_of(pair.to, pair.name);
    ssize_t length = llistxattr(from.c_str(), names, sizeof names);
    if (length < 0) return errno == EOPNOTSUPP ? 0 : errno;
    for (const char* name = names; name < names + length; name += strlen(name) + 1) {
      ssize_t size = lgetxattr(from.c_str(), name, value, sizeof value);
      if (size < 0) return errno;
      if ((bytes_ -= static_cast<double>(size)) < 0) return E2BIG;
      // Some kernels do not support user attributes on tmpfs.
      if (lsetxattr(to.c_str(), name, value, static_cast<size_t>(size), 0) < 0 && errno != EOPNOTSUPP) return errno;
    }
    return 0;
  }

  const int target_;
  const dev_t device_;
  double entries_;
  double bytes_;
  const char* left_out_;
  std::map<ino_t, std::string> links_;  // first name of each inode with several names
};

// Creates a tmpfs that is not mounted yet.
long make_memory() {
  Descriptor context(syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC));
  if (!context.is_open()) return -1;
  if (syscall(SYS_fsconfig, context.get(), FSCONFIG_SET_STRING, "mode", "0755", 0) < 0) return -1;
  // Every user may write to /run/lock. A larger limit would let one user take the memory of all commands.
  if (syscall(SYS_fsconfig, context.get(), FSCONFIG_SET_STRING, "size", "10%", 0) < 0) return -1;
  if (syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) < 0) return -1;
  return syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

int show(const Descriptor& memory, const char* path) {
  return syscall(SYS_move_mount, memory.get(), "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? errno : 0;
}

// Opens the directory that a link leads to, unless it is on another file system, such as /proc.
long open_behind_link(const std::string& path) {
  size_t slash = path.rfind('/');
  Descriptor parent(open(slash == 0 ? "/" : path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct open_how how = {};
  how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS;
  return syscall(SYS_openat2, parent.get(), path.c_str() + slash + 1, &how, sizeof how);
}

int copy_into(const Descriptor& memory, const Descriptor& source, double entries, double bytes, const char* left_out) {
  struct stat status;
  if (fstat(source.get(), &status) < 0) return errno;
  Copy copy(memory.get(), status.st_dev, entries, bytes, left_out);
  if (int error = copy.directory(source.get(), memory.get(), "", 0)) return error;
  return copy.metadata({source.get(), memory.get(), "."}, status);
}

int move_to_memory(const std::string& path, double entries, double bytes, const char* left_out) {
  struct stat status;
  bool exists = lstat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    Descriptor memory(make_memory()), source(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!memory.is_open() || !source.is_open()) return errno;
    int error = copy_into(memory, source, entries, bytes, left_out);
    return error ? error : show(memory, path.c_str());
  }
  if (exists && S_ISLNK(status.st_mode)) {
    Descriptor memory(make_memory()), source(open_behind_link(path));
    if (memory.is_open() && source.is_open() && !copy_into(memory, source, entries, bytes, left_out)) {
      if (unlink(path.c_str()) < 0 || mkdir(path.c_str(), 0755) < 0) return errno;
      return show(memory, path.c_str());
    }
  }
  if ((exists && unlink(path.c_str()) < 0) || mkdir(path.c_str(), 0755) < 0) return errno;
  Descriptor memory(make_memory());
  return memory.is_open() ? show(memory, path.c_str()) : errno;
}

// moveToMemory(path, entries, bytes, leftOut): 0, or -errno with the directory unchanged; -E2BIG when it has more
// entries or bytes. The entry `leftOut` is not moved. A file that is not a directory is replaced by a directory.
METHOD(move_directory) {
  ARGUMENTS(4);
  std::string path, left_out;
  double entries, bytes;
  CHECK(read_string(env, arguments[0], &path));
  CHECK(read_double(env, arguments[1], &entries));
  CHECK(read_double(env, arguments[2], &bytes));
  CHECK(read_string(env, arguments[3], &left_out));
  mode_t mask = umask(0);
  int error = move_to_memory(path, entries, bytes, left_out.c_str());
  umask(mask);
  return to_number(env, -error);
}

}  // namespace

bool add_memory_directory(napi_env env, napi_value exports) {
  const Method methods[] = {{"moveToMemory", move_directory}};
  return add_methods(env, exports, methods, 1);
}
