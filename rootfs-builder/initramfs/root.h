/* The root file system: the disks, their overlay, and the switch of the root. */
#pragma once
#include "modules.h"

#define DISK_TIMEOUT_MS 5000
#define DISK_POLL_MS 2

static const char *message_of(const char *path) {
  static const char *messages[] = {"/dev/vda (root image) did not appear", "/dev/vdb (writable layer) did not appear",
                                   "/dev/vdc (agent's image) did not appear"};
  return messages[path[7] - 'a'];
}

static void wait_for_disk(const char *path) {
  struct timespec pause = {0, DISK_POLL_MS * 1000000L};
  for (int waited_ms = 0; access(path, F_OK) < 0; waited_ms += DISK_POLL_MS) {
    if (waited_ms >= DISK_TIMEOUT_MS) fail("disk", message_of(path));
    nanosleep(&pause, NULL);
  }
}

/* Detected by the superblock. Container images use EROFS, which needs a module of its own; profile images use ext4. */
static const char *type_of_root(void) {
  static const unsigned char erofs_magic[4] = {0xe2, 0xe1, 0xf5, 0xe0};
  unsigned char found[4] = {0};
  int fd = open("/dev/vda", O_RDONLY | O_CLOEXEC);
  if (fd < 0 || pread(fd, found, sizeof found, 1024) != sizeof found) fail_errno("disk", "/dev/vda");
  close(fd);
  return memcmp(found, erofs_magic, sizeof found) ? "ext4" : "erofs";
}

static void mount_root_image(void) {
  const char *type = type_of_root();
  int is_erofs = !strcmp(type, "erofs");
  if (is_erofs) load_modules(type);
  mount_or_fail("/dev/vda", "/lower", type, MS_RDONLY | MS_NOATIME, is_erofs ? NULL : "noload");
}

/* The guest sees the writable layer's root directory as `/`, so it gets the image's attributes. */
static void make_upper(void) {
  struct stat root;
  if (mkdir("/layer/upper", 0755) < 0) {
    if (errno != EEXIST) fail_errno("layer", "/layer/upper");
    return;
  }
  if (stat("/lower", &root) < 0) fail_errno("layer", "/lower");
  if (chown("/layer/upper", root.st_uid, root.st_gid) < 0) fail_errno("layer", "/layer/upper");
  if (chmod("/layer/upper", root.st_mode & 07777) < 0) fail_errno("layer", "/layer/upper");
}

static void mount_disks(void) {
  wait_for_disk("/dev/vda");
  wait_for_disk("/dev/vdb");
  mount_root_image();
  mark("root image mounted");
  /* noinit_itable: no background zeroing, which would fill the sparse layer that forks must copy.
     nobarrier: this disk never outlives a crash of its VM, so flushes protect nothing.
     commit: for the same reason the journal need not be written each 5 s; most copies of a guest end before.
     nodelalloc: after an error that aborted its journal, Linux 6.1 continues to accept delayed-allocation writes,
     cannot complete them, and blocks later writers forever. Without delayed allocation, each write fails at once. */
  mount_or_fail("/dev/vdb", "/layer", "ext4", MS_NOATIME,
                parameter("sandbox.disk-errors") ? "nobarrier,noinit_itable,commit=60,nodelalloc"
                                               : "nobarrier,noinit_itable,commit=60");
  mark("layer mounted");
}

/* Unbinds the driver from a disk: a copy of this guest has another disk in its place. */
static void release_disk(const char *name) {
  char path[64], device[256];
  snprintf(path, sizeof path, "/sys/block/%s/device", name);
  ssize_t length = readlink(path, device, sizeof device - 1);
  if (length < 0) fail_errno("release", path);
  device[length] = 0;
  const char *slash = strrchr(device, '/');
  const char *bus_name = slash ? slash + 1 : device;
  int fd = open("/sys/bus/virtio/drivers/virtio_blk/unbind", O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, bus_name, strlen(bus_name)) < 0) fail_errno("release", bus_name);
  close(fd);
}

/* Mounts the same kinds of file systems at the same places, so that the kernel's code and caches are warm in copies. */
static void mount_agent_image(void) {
  wait_for_disk("/dev/vda");
  wait_for_disk("/dev/vdb");
  wait_for_disk("/dev/vdc");
  mount_or_fail("/dev/vdb", "/layer", "ext4", MS_NOATIME, "nobarrier,noinit_itable");
  if (umount("/layer") < 0) fail_errno("release", "/layer");
  mount_or_fail("/dev/vdc", "/lower", "ext4", MS_RDONLY | MS_NOATIME, "noload");
  mount_or_fail("tmpfs", "/layer", "tmpfs", MS_NOATIME, "mode=0755");
  load_modules("erofs"); /* a copy's root may be a container image */
  release_disk("vda");
  release_disk("vdb");
}

static void assemble_root(void) {
  int is_bare = parameter("sandbox.bare") != NULL;
  if (is_bare) mount_agent_image();
  else mount_disks();
  make_upper();
  if (mkdir("/layer/work", 0755) < 0 && errno != EEXIST) fail_errno("layer", "/layer/work");
  /* A volatile mount leaves this marker. A layer that is mounted again belongs to a snapshot without its memory. Writes
     that its guest had not flushed are lost, and the caller accepts that. */
  unlink("/layer/work/work/incompat/volatile/dirty");
  rmdir("/layer/work/work/incompat/volatile");
  rmdir("/layer/work/work/incompat");
  /* redirect_dir=on  rename(2) of a directory of the image works instead of failing with EXDEV
     xino=on          one st_dev for the whole root, so that find -xdev, tar and rsync see one file system
     metacopy=off     a file of the layer is always whole: it can be read without its lower file
     index=off        the layer stays valid when it is copied for a fork; hard links of the image break on write
     volatile         fsync costs nothing: a layer is kept only together with the guest's memory */
  int has_agent_disk = !is_bare && parameter("sandbox.agent-disk") != NULL;
  if (has_agent_disk) {
    wait_for_disk("/dev/vdc");
    mount_or_fail("/dev/vdc", "/agent", "ext4", MS_RDONLY | MS_NOATIME, "noload");
  }
  char options[256];
  snprintf(options, sizeof options,
           "lowerdir=%s/lower,upperdir=/layer/upper,workdir=/layer/work,"
           "redirect_dir=on,xino=on,metacopy=off,index=off,volatile",
           has_agent_disk ? "/agent:" : "");
  mount_or_fail("overlay", "/root", "overlay", MS_NOATIME, options);
  mark("overlay mounted");
}

static void relocate_mount(const char *from, const char *to) {
  unlink(to); /* removes a file or a link of the image; a directory stays */
  if (mkdir(to, 0755) < 0 && errno != EEXIST) fail_errno("switch root", to); /* an empty image has no mount points */
  if (mount(from, to, NULL, MS_MOVE, NULL) < 0) fail_errno("switch root", to);
}

/* Frees the memory of the unpacked initramfs: its files are unreachable once the root is switched. */
static void remove_initramfs_files(void) {
  DIR *modules = opendir("/modules");
  struct dirent *entry;
  while (modules && (entry = readdir(modules)))
    if (entry->d_name[0] != '.') unlinkat(dirfd(modules), entry->d_name, 0);
  if (modules) closedir(modules);
  unlink("/init");
}

static void switch_root(void) {
  relocate_mount("/dev", "/root/dev");
  relocate_mount("/proc", "/root/proc");
  relocate_mount("/sys", "/root/sys");
  remove_initramfs_files();
  if (chdir("/root") < 0) fail_errno("switch root", "/root");
  if (mount(".", "/", NULL, MS_MOVE, NULL) < 0) fail_errno("switch root", "/");
  if (chroot(".") < 0 || chdir("/") < 0) fail_errno("switch root", "chroot");
  mark("root switched");
}
