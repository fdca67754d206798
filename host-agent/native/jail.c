// Executes a program in a jail: its own user id, namespaces and root directory, no capabilities, and a seccomp filter.
// The pid stays the same. If a part fails, it exits with code 125 and a line that names the part.
//
// usage: jail OPTION VALUE… -- ARGV0 PROGRAM ARGUMENT…
//   root DIR     mount point of the new root, invisible to other processes
//   uid N        user and group id; no supplementary groups
//   fds N        number of descriptors that the program inherits, the standard three included
//   files N, file-bytes N, threads N    limits
//   cgroup DIR   cgroup (version 2) to enter
//   net FILE     network namespace to enter, whose taps it may open; default: a new, empty one
//   rx PATH      visible, read-only: programs and libraries
//   ro PATH      visible, read-only
//   rw PATH      visible; owner and mode decide who may write
//   dev PATH     a copy of a device of the host, for this user only
//   try 1        exit with 0 instead of executing the program
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "jail-filter.h"

enum { FAILED = 125 };

static const unsigned long CLOSED = MS_NOSUID | MS_NODEV | MS_NOEXEC;

static _Noreturn void fail(const char *format, ...) {
  int error = errno;
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "jail: cannot ");
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, ": %s\n", strerror(error));
  exit(FAILED);
}

static char *below(const char *root, const char *path) {
  char *joined;
  if (asprintf(&joined, "%s%s", root, path) < 0) fail("join paths");
  return joined;
}

/** Creates all parent directories of the path. */
static void make_parents(const char *path) {
  char *copy = strdup(path);
  for (char *at = strchr(copy + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
    *at = '\0';
    if (mkdir(copy, 0755) < 0 && errno != EEXIST) fail("make directory %s", copy);
    *at = '/';
  }
  free(copy);
}

/** Bind-mounts a file or directory of the host at the same path beneath the root. */
static void show(const char *root, const char *path, unsigned long flags) {
  struct stat source;
  char *target = below(root, path);
  if (stat(path, &source) < 0) fail("find %s", path);
  make_parents(target);
  if (S_ISDIR(source.st_mode)) {
    if (mkdir(target, 0755) < 0 && errno != EEXIST) fail("make directory %s", target);
  } else {
    int file = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 && errno != EEXIST) fail("make file %s", target);
    if (file >= 0) close(file);
  }
  if (mount(path, target, NULL, MS_BIND, NULL) < 0) fail("mount %s", path);
  if (mount(NULL, target, NULL, MS_BIND | MS_REMOUNT | flags, NULL) < 0) fail("restrict the mount of %s", path);
  free(target);
}

static void make_device(const char *root, const char *path, uid_t uid) {
  struct stat source;
  char *target = below(root, path);
  if (stat(path, &source) < 0 || !S_ISCHR(source.st_mode)) fail("find the device %s", path);
  make_parents(target);
  if (mknod(target, S_IFCHR | 0600, source.st_rdev) < 0) fail("make the device %s", path);
  if (chown(target, uid, uid) < 0) fail("own the device %s", path);
  free(target);
}

static void make_tmpfs(const char *target, unsigned long flags, const char *options) {
  if (mount("jail", target, "tmpfs", flags, options) < 0) fail("mount a tmpfs on %s", target);
}

static void write_file(const char *path, const char *text) {
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0 || write(file, text, strlen(text)) < 0) fail("write to %s", path);
  close(file);
}

static void limit(int resource, const char *name, rlim_t value) {
  struct rlimit limit = {value, value};
  if (setrlimit(resource, &limit) < 0) fail("limit %s", name);
}

static void enter_root(const char *root) {
  // pivot_root stacks the old root on the new one; then it is unmounted.
  if (chdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0) fail("change the root directory");
  if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) fail("leave the host's root directory");
}

static void enter_network(const char *path) {
  if (path == NULL) {
    if (unshare(CLONE_NEWNET) < 0) fail("have a network namespace");
    return;
  }
  int namespace = open(path, O_RDONLY | O_CLOEXEC);
  if (namespace < 0 || setns(namespace, CLONE_NEWNET) < 0) fail("enter the network namespace %s", path);
  close(namespace);
}

static void drop_privileges(uid_t uid) {
  for (int capability = 0; prctl(PR_CAPBSET_DROP, capability) == 0; capability++) continue;
  if (errno != EINVAL) fail("drop capabilities");
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0) fail("clear ambient capabilities");
  if (setgroups(0, NULL) < 0) fail("leave all groups");
  if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0) fail("become user %u", uid);
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {0};
  if (syscall(SYS_capset, &header, none) < 0) fail("give up capabilities");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) fail("rule out new privileges");
}

static unsigned long long number(const char *text) {
  char *end;
  unsigned long long value = strtoull(text, &end, 10);
  if (*text == '\0' || *end != '\0') {
    errno = EINVAL;
    fail("read the number %s", text);
  }
  return value;
}

static const char *option(char **arguments, const char *name) {
  for (; strcmp(*arguments, "--") != 0; arguments += 2)
    if (strcmp(*arguments, name) == 0) return arguments[1];
  return NULL;
}

static const char *needed(char **arguments, const char *name) {
  const char *value = option(arguments, name);
  errno = EINVAL;
  if (value == NULL) fail("do without option %s", name);
  return value;
}

static void build_root(const char *root, char **arguments, uid_t uid) {
  make_tmpfs(root, CLOSED, "mode=755,size=1m,nr_inodes=4096");
  char *dev = below(root, "/dev");
  if (mkdir(dev, 0755) < 0) fail("make directory %s", dev);
  make_tmpfs(dev, MS_NOSUID | MS_NOEXEC, "mode=755,size=64k,nr_inodes=64");
  for (char **at = arguments; strcmp(*at, "--") != 0; at += 2) {
    if (strcmp(*at, "rx") == 0) show(root, at[1], MS_RDONLY | MS_NOSUID | MS_NODEV);
    if (strcmp(*at, "ro") == 0) show(root, at[1], MS_RDONLY | CLOSED);
    if (strcmp(*at, "rw") == 0) show(root, at[1], CLOSED);
    if (strcmp(*at, "dev") == 0) make_device(root, at[1], uid);
  }
  // Only these links of /proc are visible, and none of other processes: they are the only way to reopen a descriptor.
  show(root, "/proc/self/fd", MS_RDONLY | CLOSED);
  if (symlink("/proc/self/fd", below(dev, "/fd")) < 0) fail("make %s/fd", dev);
  if (mount(NULL, dev, NULL, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NOEXEC, NULL) < 0) fail("restrict /dev");
  if (mount(NULL, root, NULL, MS_REMOUNT | MS_RDONLY | CLOSED, NULL) < 0) fail("restrict the root directory");
}

int main(int count, char **arguments) {
  int separator = 1;
  while (separator < count && strcmp(arguments[separator], "--") != 0) separator += 2;
  if (separator >= count || count - separator < 3) {
    fprintf(stderr, "usage: jail OPTION VALUE... -- ARGV0 PROGRAM ARGUMENT...\n");
    return FAILED;
  }
  char **options = arguments + 1;
  uid_t uid = number(needed(options, "uid"));
  errno = EINVAL;
  if (uid == 0) fail("jail user 0");
  const char *root = needed(options, "root");
  // Directories on the path to its files must be accessible to every jailed user, whatever the caller's umask is.
  umask(022);
  const char *cgroup = option(options, "cgroup");
  // First, so that it is the root of the cgroup namespace.
  if (cgroup != NULL) write_file(below(cgroup, "/cgroup.procs"), "0");
  if (unshare(CLONE_NEWNS) < 0) fail("have a mount namespace");
  enter_network(option(options, "net"));
  if (unshare(CLONE_NEWIPC) < 0) fail("have an ipc namespace");
  if (unshare(CLONE_NEWUTS) < 0) fail("have a uts namespace");
  if (unshare(CLONE_NEWCGROUP) < 0) fail("have a cgroup namespace");
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) fail("part from the host's mounts");
  build_root(root, options, uid);
  enter_root(root);
  if (sethostname("jail", 4) < 0) fail("have a host name");
  limit(RLIMIT_CORE, "core dumps", 0);
  limit(RLIMIT_NOFILE, "open files", number(needed(options, "files")));
  rlim_t file_bytes = number(needed(options, "file-bytes"));
  limit(RLIMIT_FSIZE, "the size of files", file_bytes);
  // A write beyond the limit then fails instead of killing the process; an ignored signal stays ignored after execve.
  if (signal(SIGXFSZ, SIG_IGN) == SIG_ERR) fail("ignore the signal of large files");
  limit(RLIMIT_NPROC, "threads", number(needed(options, "threads")));
  // The daemon may have a raised priority; its children must not be able to raise theirs.
  limit(RLIMIT_RTPRIO, "real-time priority", 0);
  limit(RLIMIT_NICE, "priority", 0);
  umask(077);
  drop_privileges(uid);
  if (close_range(number(needed(options, "fds")), ~0U, 0) < 0) fail("close descriptors");
  if (filter_calls(file_bytes) < 0) fail("filter system calls");
  if (option(options, "try") != NULL) return 0;
  char *none[] = {NULL};
  char **program = arguments + separator + 1;
  char *path = program[1];
  program[1] = program[0];
  execve(path, program + 1, none);
  fail("start %s", path);
}
