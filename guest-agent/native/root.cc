// Switches the agent of a generic template to a sandbox's root: binds the disks to their driver, joins them as init.c
// does on a cold boot (rootfs-builder/initramfs/init.c, which explains the mount options), and makes them the root.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "napi.h"

namespace {

constexpr const char* DEVICES = "/sys/bus/virtio/devices/";
constexpr const char* BIND = "/sys/bus/virtio/drivers/virtio_blk/bind";
// Virtio specification, section 5.
constexpr unsigned BLOCK_DEVICE = 2;

// Container images are EROFS, recognized by the superblock; profile images are ext4.
constexpr unsigned char EROFS_MAGIC[4] = {0xe2, 0xe1, 0xf5, 0xe0};
constexpr off_t SUPER_BLOCK = 1024;

// Bus numbers of the disks without a driver, in the order of their slots.
std::vector<int> find_unbound() {
  std::vector<int> numbers;
  DIR* devices = opendir(DEVICES);
  if (!devices) return numbers;
  while (dirent* entry = readdir(devices)) {
    int number;
    unsigned id = 0;
    if (sscanf(entry->d_name, "virtio%d", &number) != 1) continue;
    std::string path = std::string(DEVICES) + entry->d_name;
    FILE* file = fopen((path + "/device").c_str(), "re");
    bool is_disk = file && fscanf(file, "%x", &id) == 1 && id == BLOCK_DEVICE;
    if (file) fclose(file);
    if (is_disk && access((path + "/driver").c_str(), F_OK) < 0) numbers.push_back(number);
  }
  closedir(devices);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

struct Step {
  const char* what;
  std::string subject;
  int error;
};

Step bind_disks() {
  for (int number : find_unbound()) {
    std::string name = "virtio" + std::to_string(number);
    int fd = open(BIND, O_WRONLY | O_CLOEXEC);
    int error = fd < 0 || write(fd, name.data(), name.size()) < 0 ? errno : 0;
    if (fd >= 0) close(fd);
    if (error) return {"bind", name, error};
  }
  return {nullptr, "", 0};
}

Step make(const char* path, mode_t mode) {
  if (mkdir(path, mode) < 0 && errno != EEXIST) return {"mkdir", path, errno};
  return {nullptr, "", 0};
}

Step mount_at(const char* source, const char* target, const char* type, unsigned long flags, const char* options) {
  Step made = make(target, 0755);
  if (made.what) return made;
  if (mount(source, target, type, flags, options) < 0) return {"mount", std::string(source) + " on " + target, errno};
  return {nullptr, "", 0};
}

Step call(const char* what, int result) {
  return result < 0 ? Step{what, "/", errno} : Step{nullptr, "", 0};
}

Step mount_root_image() {
  unsigned char found[sizeof EROFS_MAGIC] = {};
  int fd = open("/dev/vda", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {"open", "/dev/vda", errno};
  ssize_t length = pread(fd, found, sizeof found, SUPER_BLOCK);
  int error = length < 0 ? errno : 0;
  close(fd);
  if (error) return {"read", "/dev/vda", error};
  bool is_erofs = !memcmp(found, EROFS_MAGIC, sizeof found);
  return mount_at("/dev/vda", "/.lower", is_erofs ? "erofs" : "ext4", MS_RDONLY | MS_NOATIME, is_erofs ? "" : "noload");
}

// The guest sees the writable layer's root directory as `/`, so it gets the image's attributes.
Step make_upper() {
  struct stat root;
  Step made = make("/.layer/upper", 0755);
  if (made.what) return made;
  if (stat("/.lower", &root) < 0) return {"stat", "/.lower", errno};
  if (chown("/.layer/upper", root.st_uid, root.st_gid) < 0) return {"chown", "/.layer/upper", errno};
  return call("chmod", chmod("/.layer/upper", root.st_mode & 07777));
}

Step enter(const char* layer_options) {
  Step step = bind_disks();
  auto then = [&step](auto next) {
    if (!step.what) step = next();
  };
  then(mount_root_image);
  then([=] { return mount_at("/dev/vdb", "/.layer", "ext4", MS_NOATIME, layer_options); });
  then(make_upper);
  then([] { return make("/.layer/work", 0755); });
  then([] { return mount_at("/dev/vdc", "/.agent", "ext4", MS_RDONLY | MS_NOATIME, "noload"); });
  std::string options = "lowerdir=/.agent:/.lower,upperdir=/.layer/upper,workdir=/.layer/work,"
                        "redirect_dir=on,xino=on,metacopy=off,index=off,volatile";
  then([&] { return mount_at("overlay", "/.root", "overlay", MS_NOATIME, options.c_str()); });
  // These in-memory mounts belong to the guest without a root; they may be absent.
  for (const char* path : {"/proc/sys/kernel/random/boot_id", "/run"}) umount2(path, MNT_DETACH);
  for (const char* path : {"/dev", "/proc", "/sys"})
    then([=] {
      std::string target = std::string("/.root") + path;
      unlink(target.c_str());  // removes a file or a link of the image; a directory stays
      return mount_at(path, target.c_str(), "", MS_MOVE, "");
    });
  then([] { return call("chdir", chdir("/.root")); });
  then([] { return call("mount", mount(".", "/", nullptr, MS_MOVE, nullptr)); });
  then([] { return call("chroot", chroot(".")); });
  then([] { return call("chdir", chdir("/")); });
  return step;
}

// enterRoot(layerOptions): afterwards all threads of the process are in the new root
METHOD(enter_root) {
  ARGUMENTS(1);
  std::string layer_options;
  CHECK(read_string(env, arguments[0], &layer_options));
  mode_t mask = umask(022);
  Step step = enter(layer_options.c_str());
  umask(mask);
  if (step.what) return throw_errno(env, step.what, step.error, step.subject.c_str());
  return undefined(env);
}

}  // namespace

bool add_root(napi_env env, napi_value exports) {
  const Method methods[] = {{"enterRoot", enter_root}};
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
