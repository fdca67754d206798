// Attacks on the kernel.
#pragma once
#include <linux/aio_abi.h>
#include <linux/bpf.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include "outcome.h"

/** Not an attack: a VMM that loads its guest's memory on demand must be able to do this. */
static void handle_faults(void) {
  int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
  int faults = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC);
  report("use", "the device of page faults", faults);
  struct uffdio_api api = {.api = UFFD_API};
  report("agree on", "page faults", ioctl(faults, UFFDIO_API, &api));
}

static void attack_kernel(void) {
  report("mount", "", mount("none", "/", "tmpfs", 0, NULL));
  report("remount", "", mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL));
  report("unmount", "", umount2("/dev", MNT_DETACH));
  report("open a tree", "", syscall(SYS_open_tree, AT_FDCWD, "/", 0));
  report("unshare a user namespace", "", unshare(CLONE_NEWUSER));
  report("unshare a mount namespace", "", unshare(CLONE_NEWNS));
  long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
  if (child == 0) _exit(0);
  report("clone into a namespace", "", child);
  report("clone anew", "", syscall(SYS_clone3, NULL, 0) < 0 && errno == EINVAL ? 0 : -1);
  report("enter a namespace", "", setns(0, 0) < 0 && errno == EINVAL ? 0 : -1);
  report("change root", "", chroot("/"));
  report("become root", "", setuid(0));
  report("make a device", "", mknod("/dev/mem", S_IFCHR | 0600, makedev(1, 1)));
  union bpf_attr attributes = {0};
  attributes.map_type = BPF_MAP_TYPE_ARRAY, attributes.key_size = 4, attributes.value_size = 4, attributes.max_entries = 1;
  report("load a program into the kernel", "", syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes));
  struct perf_event_attr counter = {.type = PERF_TYPE_SOFTWARE, .size = sizeof counter, .config = PERF_COUNT_SW_CPU_CLOCK};
  report("count events", "", syscall(SYS_perf_event_open, &counter, 0, -1, -1, 0));
  report("read keys", "", syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, -3, 0));
  report("open a ring", "", syscall(SYS_io_uring_setup, 1, NULL) < 0 && errno == EFAULT ? 0 : -1);
  aio_context_t queue = 0;
  report("open a queue", "", syscall(SYS_io_setup, 1, &queue));
  report("handle page faults", "", syscall(SYS_userfaultfd, O_CLOEXEC));
  report("run from memory", "", syscall(SYS_execveat, memfd_create("x", 0), "", NULL, NULL, 0x1000) < 0 && errno == EACCES ? 0 : -1);
}

/** Kernel interfaces that a VMM does not need. Any answer other than this refusal means that they were reached. */
static void attack_interfaces(void) {
  static const struct {
    const char *name;
    long number;
  } calls[] = {
      {"shmget", SYS_shmget}, {"shmat", SYS_shmat}, {"msgget", SYS_msgget}, {"semget", SYS_semget}, {"mq_open", SYS_mq_open},
      {"inotify_init", SYS_inotify_init}, {"inotify_init1", SYS_inotify_init1}, {"fanotify_init", SYS_fanotify_init},
      {"add_key", SYS_add_key}, {"request_key", SYS_request_key}, {"splice", SYS_splice}, {"tee", SYS_tee},
      {"vmsplice", SYS_vmsplice}, {"sendfile", SYS_sendfile}, {"copy_file_range", SYS_copy_file_range}, {"link", SYS_link},
      {"linkat", SYS_linkat}, {"symlink", SYS_symlink}, {"symlinkat", SYS_symlinkat}, {"mknodat", SYS_mknodat},
      {"mkdirat", SYS_mkdirat}, {"chmod", SYS_chmod}, {"fchmod", SYS_fchmod}, {"fchown", SYS_fchown}, {"truncate", SYS_truncate},
      {"fsetxattr", SYS_fsetxattr}, {"quotactl", SYS_quotactl}, {"swapon", SYS_swapon}, {"reboot", SYS_reboot},
      {"sethostname", SYS_sethostname}, {"settimeofday", SYS_settimeofday}, {"adjtimex", SYS_adjtimex}, {"acct", SYS_acct},
      {"syslog", SYS_syslog}, {"iopl", SYS_iopl}, {"ioperm", SYS_ioperm}, {"personality", SYS_personality},
      {"modify_ldt", SYS_modify_ldt}, {"process_madvise", SYS_process_madvise}, {"pidfd_getfd", SYS_pidfd_getfd},
      {"kcmp", SYS_kcmp}, {"move_pages", SYS_move_pages}, {"migrate_pages", SYS_migrate_pages},
      {"open_by_handle_at", SYS_open_by_handle_at}, {"sched_setattr", SYS_sched_setattr}, {"ioprio_set", SYS_ioprio_set},
      {"memfd_secret", SYS_memfd_secret}, {"move_mount", SYS_move_mount}, {"fsopen", SYS_fsopen}, {"mlockall", SYS_mlockall},
      {"openat2", SYS_openat2}, {"kexec_load", SYS_kexec_load}, {"finit_module", SYS_finit_module}, {"vfork", SYS_vfork},
  };
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    long result = syscall(calls[i].number, -1, -1, -1, -1, -1, -1);
    if (calls[i].number == SYS_vfork && result == 0) _exit(0);
    report("call", calls[i].name, result < 0 && errno == EPERM ? -1 : 0);
  }
}
