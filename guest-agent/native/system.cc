// The one-time tasks of PID 1: mounts, host name, clock, entropy, loopback, limits.
#include <fcntl.h>
#include <linux/random.h>
#include <malloc.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include <vector>

#include "napi.h"

namespace {

// From the kernel's fs/ext4/ext4.h, which is not a UAPI header.
constexpr unsigned long EXT4_IOC_RESIZE_FS = _IOW('f', 16, uint64_t);

// mount(source, target, type, flags, options)
METHOD(mount_file_system) {
  ARGUMENTS(5);
  std::string source, target, type, options;
  int32_t flags;
  CHECK(read_string(env, arguments[0], &source));
  CHECK(read_string(env, arguments[1], &target));
  CHECK(read_string(env, arguments[2], &type));
  CHECK(read_int(env, arguments[3], &flags));
  CHECK(read_string(env, arguments[4], &options));
  if (mount(source.c_str(), target.c_str(), type.c_str(), static_cast<unsigned long>(flags), options.c_str()) < 0)
    return throw_errno(env, "mount", errno, target.c_str());
  return undefined(env);
}

// unmount(target, flags)
METHOD(unmount) {
  ARGUMENTS(2);
  std::string target;
  int32_t flags;
  CHECK(read_string(env, arguments[0], &target));
  CHECK(read_int(env, arguments[1], &flags));
  if (umount2(target.c_str(), flags) < 0) return throw_errno(env, "umount2", errno, target.c_str());
  return undefined(env);
}

// makeDevice(path, mode, major, minor): `mode` includes the type; an existing file is kept
METHOD(make_device) {
  ARGUMENTS(4);
  std::string path;
  int32_t mode, major_number, minor_number;
  CHECK(read_string(env, arguments[0], &path));
  CHECK(read_int(env, arguments[1], &mode));
  CHECK(read_int(env, arguments[2], &major_number));
  CHECK(read_int(env, arguments[3], &minor_number));
  dev_t device = makedev(static_cast<unsigned>(major_number), static_cast<unsigned>(minor_number));
  mode_t mask = umask(0);
  int error = mknod(path.c_str(), static_cast<mode_t>(mode), device) < 0 ? errno : 0;
  umask(mask);
  if (error && error != EEXIST) return throw_errno(env, "mknod", error, path.c_str());
  return undefined(env);
}

// setHostname(name)
METHOD(set_hostname) {
  ARGUMENTS(1);
  std::string name;
  CHECK(read_string(env, arguments[0], &name));
  if (sethostname(name.data(), name.size()) < 0) return throw_errno(env, "sethostname", errno, name.c_str());
  return undefined(env);
}

// setClock(unixTimeUs)
METHOD(set_clock) {
  ARGUMENTS(1);
  double time_us;
  CHECK(read_double(env, arguments[0], &time_us));
  uint64_t total_us = static_cast<uint64_t>(time_us);
  timespec time = {static_cast<time_t>(total_us / 1000000), static_cast<long>(total_us % 1000000 * 1000)};
  if (clock_settime(CLOCK_REALTIME, &time) < 0) return throw_errno(env, "clock_settime", errno);
  return undefined(env);
}

// sync(): writes the cached data of all file systems to their disks
METHOD(sync_disks) {
  ARGUMENTS(0);
  sync();
  return undefined(env);
}

struct BackgroundSync {
  napi_async_work work;
  napi_deferred deferred;
};

void run_sync(napi_env, void*) { sync(); }

void end_sync(napi_env env, napi_status, void* data) {
  auto* self = static_cast<BackgroundSync*>(data);
  napi_resolve_deferred(env, self->deferred, undefined(env));
  napi_delete_async_work(env, self->work);
  delete self;
}

// syncInBackground(): the same, in another thread; returns a promise
METHOD(sync_in_background) {
  ARGUMENTS(0);
  napi_value promise, name;
  auto* self = new BackgroundSync();
  TRY(napi_create_promise(env, &self->deferred, &promise));
  TRY(napi_create_string_utf8(env, "sync", NAPI_AUTO_LENGTH, &name));
  TRY(napi_create_async_work(env, nullptr, name, run_sync, end_sync, self, &self->work));
  TRY(napi_queue_async_work(env, self->work));
  return promise;
}

// shiftClock(us): shifts the clock by `us` unless it is 0; returns the resulting time, in microseconds since 1970
METHOD(shift_clock) {
  ARGUMENTS(1);
  double requested_us;
  CHECK(read_double(env, arguments[0], &requested_us));
  int64_t shift_us = static_cast<int64_t>(requested_us);
  if (shift_us != 0) {
    timex change = {};
    change.modes = ADJ_SETOFFSET;
    // The microseconds must not be negative.
    change.time.tv_sec = shift_us / 1000000 - (shift_us % 1000000 < 0);
    change.time.tv_usec = (shift_us % 1000000 + 1000000) % 1000000;
    if (clock_adjtime(CLOCK_REALTIME, &change) < 0) return throw_errno(env, "clock_adjtime", errno);
  }
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return to_number(env, static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec / 1000));
}

// addEntropy(bytes): adds and credits them (RNDADDENTROPY), and reseeds the kernel's generator at once
METHOD(add_entropy) {
  ARGUMENTS(1);
  uint8_t* data;
  size_t size;
  CHECK(read_bytes(env, arguments[0], &data, &size));
  int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return throw_errno(env, "open", errno, "/dev/urandom");
  std::vector<uint8_t> block(sizeof(rand_pool_info) + size);
  rand_pool_info* pool = reinterpret_cast<rand_pool_info*>(block.data());
  pool->entropy_count = static_cast<int>(size * 8);
  pool->buf_size = static_cast<int>(size);
  memcpy(pool->buf, data, size);
  int error = ioctl(fd, RNDADDENTROPY, pool) < 0 || ioctl(fd, RNDRESEEDCRNG) < 0 ? errno : 0;
  close(fd);
  if (error) return throw_errno(env, "ioctl RNDADDENTROPY", error);
  return undefined(env);
}

// bringUp(interface)
METHOD(bring_up) {
  ARGUMENTS(1);
  std::string name;
  CHECK(read_string(env, arguments[0], &name));
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return throw_errno(env, "socket", errno);
  ifreq request = {};
  strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
  int error = ioctl(fd, SIOCGIFFLAGS, &request) < 0 ? errno : 0;
  request.ifr_flags |= IFF_UP | IFF_RUNNING;
  if (!error && ioctl(fd, SIOCSIFFLAGS, &request) < 0) error = errno;
  close(fd);
  if (error) return throw_errno(env, "ioctl SIOCSIFFLAGS", error, name.c_str());
  return undefined(env);
}

// runInBatches(): SCHED_BATCH, so that this thread does not preempt a running command on each wake-up. Children are
// scheduled normally. The delay is a few milliseconds at most.
METHOD(run_in_batches) {
  (void)info;
  sched_param none = {};
  if (sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none) < 0)
    return throw_errno(env, "sched_setscheduler", errno);
  return undefined(env);
}

// limitFiles(count): soft and hard limit of the agent's open files
METHOD(limit_files) {
  ARGUMENTS(1);
  double count;
  CHECK(read_double(env, arguments[0], &count));
  rlimit limit = {static_cast<rlim_t>(count), static_cast<rlim_t>(count)};
  if (setrlimit(RLIMIT_NOFILE, &limit) < 0) return throw_errno(env, "setrlimit", errno);
  return undefined(env);
}

// growFileSystem(directory, blocks): grows the mounted ext4 file system of `directory` online
METHOD(grow_file_system) {
  ARGUMENTS(2);
  std::string directory;
  double requested;
  CHECK(read_string(env, arguments[0], &directory));
  CHECK(read_double(env, arguments[1], &requested));
  uint64_t blocks = static_cast<uint64_t>(requested);
  int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return throw_errno(env, "open", errno, directory.c_str());
  int error = ioctl(fd, EXT4_IOC_RESIZE_FS, &blocks) < 0 ? errno : 0;
  close(fd);
  if (error) return throw_errno(env, "ioctl EXT4_IOC_RESIZE_FS", error, directory.c_str());
  return undefined(env);
}

// Calls `use` for each file mapping of this process without write permission: code and constants.
template <typename Use>
void for_each_mapping(Use use) {
  FILE* maps = fopen("/proc/self/maps", "re");
  if (!maps) return;
  char line[512];
  while (fgets(line, sizeof line, maps)) {
    uintptr_t start, end;
    char access[5], path[2];
    if (sscanf(line, "%zx-%zx %4s %*s %*s %*s %1s", &start, &end, access, path) != 4) continue;
    if (access[0] == 'r' && access[1] == '-' && path[0] == '/')
      use(reinterpret_cast<void*>(start), end - start, access[2] == 'x');
  }
  fclose(maps);
}

// holdCode(): locks the agent's code in memory once it is loaded. Otherwise commands that use up the memory would
// evict it, and the agent would wait for the disk on each page.
METHOD(hold_code) {
  (void)info;
  for_each_mapping([](void* start, size_t size, bool) { mlock2(start, size, MLOCK_ONFAULT); });
  return undefined(env);
}

// trimMemory(): returns the allocator's free memory to the kernel, and deactivates code that did not run since the
// last call: most of that is used only at start. The page cache provides it again on demand.
METHOD(trim_memory) {
  (void)info;
  malloc_trim(0);
  for_each_mapping([](void* start, size_t size, bool is_code) {
    // Only mappings that no process can have written to.
    if (!is_code) return;
    munlock(start, size);
    madvise(start, size, MADV_DONTNEED);
    mlock2(start, size, MLOCK_ONFAULT);
  });
  return undefined(env);
}

}  // namespace

bool add_system(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"mount", mount_file_system}, {"unmount", unmount},      {"makeDevice", make_device},
      {"setHostname", set_hostname},
      {"setClock", set_clock},      {"shiftClock", shift_clock},  {"addEntropy", add_entropy}, {"bringUp", bring_up},
      {"sync", sync_disks},
      {"syncInBackground", sync_in_background},
      {"runInBatches", run_in_batches}, {"limitFiles", limit_files},
      {"growFileSystem", grow_file_system}, {"holdCode", hold_code},
      {"trimMemory", trim_memory},
  };
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
