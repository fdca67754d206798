/*
 * The first process of every sandbox: loads the virtio drivers, joins the read-only root (/dev/vda)
 * and the writable layer (/dev/vdb) with overlayfs, switches root and executes the guest agent.
 * It runs on each cold boot, often under emulation, so it does nothing that the agent could do later.
 *
 * Kernel command line:
 *   sandbox.init=<path>      execute this instead of the agent (looked up in the initramfs, then in the root)
 *   sandbox.modules=<a,b>    also load these optional modules of /modules/list
 *   sandbox.disk-errors      writes that the host cannot take come back as errors of the layer's disk
 *   sandbox.debug            print the time of each stage
 *   sandbox.probe=<nonce>    start no sandbox: show signs of life that only this program can give, until the VM is ended
 *
 * /modules/list has one module file per line in load order, followed by its conditions: none = always,
 * a number = only when a virtio device with that id is present, a name = only when sandbox.modules names it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define DISK_TIMEOUT_MS 5000
#define DISK_POLL_MS 2
#define PROBE_PAUSE_MS 20
#define AGENT_DIR "/.sandbox"
#define AGENT_LOADER AGENT_DIR "/lib/ld-linux-x86-64.so.2"

static char command_line[4096];
static int debugging;

/* ---- reporting ---------------------------------------------------------------------------------- */

static void say(const char *format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  if (length > (int)sizeof line - 2) length = sizeof line - 2;
  line[length++] = '\n';
  if (write(STDERR_FILENO, line, length) < 0) return;
}

/* The engine recognises this line on the console; powering off ends the VMM, so it need not wait for a timeout. */
static void fail(const char *stage, const char *detail) {
  say("sandbox-init: %s: %s", stage, detail);
  tcdrain(STDERR_FILENO); /* a power-off would cut the line short */
  sync();
  reboot(RB_POWER_OFF);
  reboot(RB_AUTOBOOT); /* no ACPI power-off: a reset ends a VMM that was told not to reboot */
  _exit(1);            /* and a kernel panic if even that failed */
}

static void fail_errno(const char *stage, const char *subject) {
  char detail[384];
  snprintf(detail, sizeof detail, "%s: %s", subject, strerror(errno));
  fail(stage, detail);
}

static void mark(const char *stage) {
  if (!debugging) return;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  say("sandbox-init: %ld.%03ld ms %s", now.tv_sec * 1000 + now.tv_nsec / 1000000, now.tv_nsec / 1000 % 1000, stage);
}

/* ---- small helpers ------------------------------------------------------------------------------ */

/* Reads at most size - 1 bytes and ends them with a zero byte; -1 when the file cannot be opened. */
static ssize_t read_text(const char *path, char *text, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t total = 0, got;
  while ((size_t)total < size - 1 && (got = read(fd, text + total, size - 1 - total)) > 0) total += got;
  close(fd);
  text[total] = 0;
  return total;
}

/* The value of a `name=value` (or bare `name`) word of the command line, copied; NULL when absent. */
static char *parameter(const char *name) {
  size_t length = strlen(name);
  const char *word = command_line;
  char *found = NULL;
  while (*word) {
    word += strspn(word, " \n");
    size_t size = strcspn(word, " \n");
    if (size >= length && !strncmp(word, name, length) && (size == length || word[length] == '=')) {
      free(found); /* the last one wins, as with the kernel's own parameters */
      found = size == length ? strdup("") : strndup(word + length + 1, size - length - 1);
    }
    word += size;
  }
  return found;
}

static int list_contains(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *item = list; item && *item; item += strspn(item, ",")) {
    size_t size = strcspn(item, ",");
    if (size == length && !strncmp(item, name, size)) return 1;
    item += size;
  }
  return 0;
}

static void mount_or_fail(const char *source, const char *target, const char *type, unsigned long flags,
                          const char *options) {
  if (mkdir(target, 0755) < 0 && errno != EEXIST) fail_errno("mount", target);
  if (mount(source, target, type, flags, options) < 0) {
    char subject[256];
    snprintf(subject, sizeof subject, "%s (%s) on %s", source, type, target);
    fail_errno("mount", subject);
  }
}

/* ---- modules ------------------------------------------------------------------------------------ */

static int has_virtio_device(unsigned long id) {
  static unsigned long present; /* bit set of device ids, filled on first use (after virtio_pci is loaded) */
  static int is_known;
  if (!is_known) {
    DIR *devices = opendir("/sys/bus/virtio/devices");
    struct dirent *entry;
    while (devices && (entry = readdir(devices))) {
      char path[320], text[16];
      snprintf(path, sizeof path, "/sys/bus/virtio/devices/%s/device", entry->d_name);
      if (entry->d_name[0] == '.' || read_text(path, text, sizeof text) < 0) continue;
      unsigned long number = strtoul(text, NULL, 16);
      if (number < 64) present |= 1UL << number;
    }
    if (devices) closedir(devices);
    is_known = 1;
  }
  return id < 64 && (present >> id & 1);
}

static void load_module(const char *file) {
  char path[256];
  snprintf(path, sizeof path, "/modules/%s", file);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_errno("module", path);
  if (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST) fail_errno("module", path);
  close(fd);
  mark(file);
}

static void load_modules(void) {
  static char list[4096];
  if (read_text("/modules/list", list, sizeof list) < 0) return; /* a kernel with everything built in */
  char *wanted = parameter("sandbox.modules");
  char *line_state = NULL, *word_state = NULL;
  for (char *line = strtok_r(list, "\n", &line_state); line; line = strtok_r(NULL, "\n", &line_state)) {
    char *file = strtok_r(line, " ", &word_state);
    char *condition = strtok_r(NULL, " ", &word_state);
    int is_needed = file && !condition;
    for (; condition && !is_needed; condition = strtok_r(NULL, " ", &word_state)) {
      char *end;
      unsigned long id = strtoul(condition, &end, 10);
      is_needed = *end ? list_contains(wanted, condition) : has_virtio_device(id);
    }
    if (is_needed) load_module(file);
  }
}

/* ---- root file system --------------------------------------------------------------------------- */

static void wait_for_disk(const char *path) {
  struct timespec pause = {0, DISK_POLL_MS * 1000000L};
  for (int waited_ms = 0; access(path, F_OK) < 0; waited_ms += DISK_POLL_MS) {
    if (waited_ms >= DISK_TIMEOUT_MS) fail("disk", path[7] == 'a' ? "/dev/vda (root image) did not appear" : "/dev/vdb (writable layer) did not appear");
    nanosleep(&pause, NULL);
  }
}

static void assemble_root(void) {
  wait_for_disk("/dev/vda");
  wait_for_disk("/dev/vdb");
  mount_or_fail("/dev/vda", "/lower", "ext4", MS_RDONLY | MS_NOATIME, "noload");
  mark("root image mounted");
  /* noinit_itable: no background zeroing, which would fill the sparse layer that forks must copy.
     nobarrier: this disk never outlives a crash of its VM, so flushes protect nothing.
     nodelalloc: after an error that ended its journal, Linux 6.1 goes on taking writes that are to get their blocks later,
     never gets rid of them, and makes everyone who writes more wait for that, for good. Without, each write fails at once. */
  mount_or_fail("/dev/vdb", "/layer", "ext4", MS_NOATIME,
                parameter("sandbox.disk-errors") ? "nobarrier,noinit_itable,nodelalloc" : "nobarrier,noinit_itable");
  mark("layer mounted");
  if (mkdir("/layer/upper", 0755) < 0 && errno != EEXIST) fail_errno("layer", "/layer/upper");
  if (mkdir("/layer/work", 0755) < 0 && errno != EEXIST) fail_errno("layer", "/layer/work");
  /* A volatile mount leaves this marker. A layer that comes back was saved from a stopped, synced guest. */
  rmdir("/layer/work/work/incompat/volatile");
  rmdir("/layer/work/work/incompat");
  /* redirect_dir=on  rename(2) of a directory of the image works instead of failing with EXDEV
     xino=on          one st_dev for the whole root, so that find -xdev, tar and rsync see one file system
     metacopy=off     a file of the layer is always whole: it can be read without its lower file
     index=off        the layer stays valid when it is copied for a fork; hard links of the image break on write
     volatile         fsync costs nothing: a layer is kept only together with the guest's memory */
  mount_or_fail("overlay", "/root", "overlay", MS_NOATIME,
                "lowerdir=/lower,upperdir=/layer/upper,workdir=/layer/work,"
                "redirect_dir=on,xino=on,metacopy=off,index=off,volatile");
  mark("overlay mounted");
}

static void relocate_mount(const char *from, const char *to) {
  if (mkdir(to, 0755) < 0 && errno != EEXIST) fail_errno("switch root", to); /* an empty image has no mount points */
  if (mount(from, to, NULL, MS_MOVE, NULL) < 0) fail_errno("switch root", to);
}

/* Gives the memory of the unpacked initramfs back: its files have no other name once root is switched. */
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

/* ---- probe -------------------------------------------------------------------------------------- */

/* FNV-1a: the kernel prints its command line, so the nonce itself would prove nothing. */
static uint64_t hash_text(const char *text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
  return hash;
}

/* Counts for ever, each time after a sleep and a write to the layer's disk: a copy that goes on has its memory, timer,
   interrupts and disk. The engine looks for these lines. */
static void show_life(const char *nonce) {
  static char block[4096] __attribute__((aligned(4096)));
  wait_for_disk("/dev/vda");
  wait_for_disk("/dev/vdb");
  int root = open("/dev/vda", O_RDONLY | O_CLOEXEC);
  int layer = open("/dev/vdb", O_RDWR | O_DIRECT | O_CLOEXEC);
  if (root < 0 || pread(root, block, sizeof block, 0) != sizeof block) fail_errno("probe", "/dev/vda");
  if (layer < 0) fail_errno("probe", "/dev/vdb");
  struct timespec pause = {0, PROBE_PAUSE_MS * 1000000L};
  for (unsigned long count = 1;; count++) {
    memcpy(block, &count, sizeof count);
    if (pwrite(layer, block, sizeof block, 0) != sizeof block) fail_errno("probe", "/dev/vdb");
    say("sandbox-probe: %016llx %lu.", (unsigned long long)hash_text(nonce), count);
    nanosleep(&pause, NULL);
  }
}

/* ---- hand over ---------------------------------------------------------------------------------- */

static void execute_agent(void) {
  char *arguments[] = {AGENT_LOADER,    "--library-path",           AGENT_DIR "/lib", "--argv0",
                       "sandbox-agent", AGENT_DIR "/sandbox-agent", NULL};
  char *environment[] = {"SANDBOX_AGENT_DIR=" AGENT_DIR,
                         "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", NULL};
  execve(AGENT_LOADER, arguments, environment);
  fail_errno("exec", AGENT_LOADER);
}

static void execute_instead(char *path, int initramfs_fd) {
  char *arguments[] = {path, NULL};
  char *environment[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", NULL};
  if (initramfs_fd >= 0) syscall(SYS_execveat, initramfs_fd, "", arguments, environment, AT_EMPTY_PATH);
  else execve(path, arguments, environment);
  fail_errno("exec", path);
}

int main(void) {
  umask(022);
  mount_or_fail("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
  if (read_text("/proc/cmdline", command_line, sizeof command_line) < 0) fail_errno("command line", "/proc/cmdline");
  debugging = parameter("sandbox.debug") != NULL;
  mark("init started");
  mount_or_fail("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
  mount_or_fail("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, "mode=0755");
  mark("kernel file systems mounted");
  load_modules();
  char *nonce = parameter("sandbox.probe");
  if (nonce) show_life(nonce);
  assemble_root();

  char *instead = parameter("sandbox.init");
  int instead_fd = instead ? open(instead, O_PATH | O_CLOEXEC) : -1;
  switch_root();
  if (instead) execute_instead(instead, instead_fd);
  execute_agent();
  return 1;
}
