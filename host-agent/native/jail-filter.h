// The seccomp filter of a jailed program. It allows the system calls that VMMs use, and none for other
// processes, mounts, namespaces, keys, modules, tracing or BPF programs. No mkdir: a directory tree deeper than
// PATH_MAX cannot be deleted by path. No kernel AIO: its host-wide limit could be exhausted by one process. No calls
// that allocate unaccounted kernel memory without limit: memory policies, file locks, socket filters.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "filter-architecture.h"

#define NR(name) __NR_##name

static const unsigned short ALLOWED[] = {
    // Files.
    NR(read), NR(write), NR(openat), NR(close), NR(fstat), NR(newfstatat), NR(statx),
    NR(statfs), NR(fstatfs), NR(lseek), NR(pread64), NR(pwrite64), NR(readv), NR(writev), NR(preadv), NR(pwritev),
    NR(preadv2), NR(pwritev2), NR(faccessat), NR(faccessat2), NR(dup), NR(dup3), NR(fcntl),
    NR(flock), NR(fsync), NR(fdatasync), NR(sync_file_range), NR(fadvise64), NR(ftruncate),
    NR(getdents64), NR(getcwd), NR(readlinkat), NR(renameat),
    NR(renameat2), NR(unlinkat), NR(umask), NR(pipe2), NR(close_range),
    // Memory.
    NR(brk), NR(mmap), NR(munmap), NR(mremap), NR(mprotect), NR(madvise), NR(msync), NR(mincore), NR(mlock),
    NR(munlock), NR(mlock2), NR(set_mempolicy), NR(get_mempolicy), NR(memfd_create), NR(membarrier),
    // Waiting, time.
    NR(ppoll), NR(pselect6), NR(epoll_create1), NR(epoll_ctl), NR(epoll_pwait),
    NR(epoll_pwait2), NR(eventfd2), NR(signalfd4), NR(timerfd_create), NR(timerfd_settime), NR(timerfd_gettime),
    NR(timer_create), NR(timer_settime), NR(timer_gettime), NR(timer_getoverrun), NR(timer_delete), NR(nanosleep),
    NR(clock_nanosleep), NR(clock_gettime), NR(clock_getres), NR(gettimeofday), NR(times),
    NR(restart_syscall),
    // Existing sockets; the kinds of new ones are restricted below.
    NR(connect), NR(accept), NR(accept4), NR(bind), NR(listen), NR(getsockname), NR(getpeername),
    NR(sendto), NR(recvfrom), NR(sendmsg), NR(recvmsg), NR(sendmmsg), NR(recvmmsg), NR(shutdown),
    NR(getsockopt),
    // The process itself.
    NR(execve), NR(exit), NR(exit_group), NR(wait4), NR(waitid), NR(futex), NR(set_tid_address), NR(set_robust_list),
    NR(get_robust_list), NR(rseq), NR(prctl), NR(seccomp), NR(rt_sigaction), NR(rt_sigprocmask),
    NR(rt_sigreturn), NR(rt_sigpending), NR(rt_sigtimedwait), NR(rt_sigsuspend), NR(sigaltstack), NR(getpid),
    NR(gettid), NR(getppid), NR(getpgid), NR(getsid), NR(setsid), NR(getuid), NR(geteuid), NR(getgid),
    NR(getegid), NR(getresuid), NR(getresgid), NR(getgroups), NR(capget), NR(getrlimit), NR(setrlimit), NR(prlimit64),
    NR(getrusage), NR(getpriority), NR(setpriority), NR(sched_yield), NR(sched_getaffinity), NR(sched_setaffinity),
    NR(sched_getparam), NR(sched_getscheduler), NR(sched_setscheduler), NR(sched_get_priority_max),
    NR(sched_get_priority_min), NR(getcpu), NR(kill), NR(tkill), NR(tgkill), NR(getrandom), NR(uname), NR(sysinfo),
    NR(landlock_create_ruleset),
    NR(landlock_add_rule), NR(landlock_restrict_self),
#ifdef __x86_64__
    // Older forms of calls above, which newer architectures never had.
    NR(open), NR(stat), NR(lstat), NR(access), NR(dup2), NR(readlink), NR(rename), NR(unlink), NR(pipe), NR(poll),
    NR(select), NR(epoll_wait), NR(time), NR(getpgrp), NR(arch_prctl),
#endif
};

/**
 * Allowed ioctls, besides all of KVM and userfaultfd: those of a tap that change nothing permanently, those that read
 * the flags, address and MTU of an interface in the namespace, and none of files. File ioctls could reserve space
 * beyond every limit, charge another project's quota, or make a file immutable.
 */
static const unsigned IOCTLS[] = {
    TCGETS, TIOCGWINSZ, FIONREAD, TIOCOUTQ, FIONBIO, FIOCLEX, FIONCLEX, TUNGETFEATURES, TUNSETIFF, TUNGETIFF,
    TUNSETQUEUE,
    TUNSETOFFLOAD, TUNSETVNETHDRSZ, TUNGETVNETHDRSZ, TUNSETVNETLE, TUNSETVNETBE, TUNSETSNDBUF, TUNGETSNDBUF,
    SIOCGIFFLAGS, SIOCGIFHWADDR, SIOCGIFMTU,
};
enum { IOCTL_COUNT = sizeof IOCTLS / sizeof *IOCTLS, KVM_TYPE = 0xae, FAULTS_TYPE = 0xaa };

/** VMMs probe the file system's features on a block behind the end of a disk. */
enum { TRIED_BYTES = 1 << 20 };

/** Newer system calls fail with ENOSYS, as on an older kernel: libraries have fallbacks. */
enum { LAST_KNOWN = 450, NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                        CLONE_NEWPID | CLONE_NEWNET };

#define LOAD_HIGH(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field) + 4)
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define JUMP_IF(test, value, yes, no) BPF_JUMP(BPF_JMP | BPF_K | (test), (value), (yes), (no))
#define ANSWER(action) BPF_STMT(BPF_RET | BPF_K, (action))
#define ALLOW ANSWER(SECCOMP_RET_ALLOW)
#define REFUSE(error) ANSWER(SECCOMP_RET_ERRNO | (error))

/**
 * Installs the filter for this thread and its descendants. The process must have its final state otherwise. No file can
 * get space beyond `file_bytes`: RLIMIT_FSIZE does not cover fallocate calls that keep the file's length.
 */
static int filter_calls(unsigned long long file_bytes) {
  unsigned long long most = file_bytes + TRIED_BYTES;
  struct sock_filter head[] = {
      LOAD(arch),
      JUMP_IF(BPF_JEQ, FILTERED_ARCHITECTURE, 1, 0),
      ANSWER(SECCOMP_RET_KILL_PROCESS),
      LOAD(nr),
      // On x86-64, also rejects the x32 ABI.
      JUMP_IF(BPF_JGT, LAST_KNOWN, 0, 1),
      REFUSE(ENOSYS),
      // Its flags are in memory, which a filter cannot read; libraries fall back to clone.
      JUMP_IF(BPF_JEQ, NR(clone3), 0, 1),
      REFUSE(ENOSYS),
      // QEMU requests the default memory policy, and accepts ENOSYS as a kernel without policies.
      JUMP_IF(BPF_JEQ, NR(mbind), 0, 1),
      REFUSE(ENOSYS),
      // Threads only: a child process would outlive the VMM under a user id that another VMM gets later.
      JUMP_IF(BPF_JEQ, NR(clone), 0, 5),
      LOAD(args[0]),
      JUMP_IF(BPF_JSET, NAMESPACES, 1, 0),
      JUMP_IF(BPF_JSET, CLONE_THREAD, 1, 0),
      REFUSE(EPERM),
      ALLOW,
      // Also for a VMM with a network: its guest uses a tap, and the VMM itself needs no sockets. For socketpair, the
      // kernel creates a socket and loads the family's module before it reports that the family is unsupported.
      JUMP_IF(BPF_JEQ, NR(socket), 1, 0),
      JUMP_IF(BPF_JEQ, NR(socketpair), 0, 4),
      LOAD(args[0]),
      JUMP_IF(BPF_JEQ, AF_UNIX, 0, 1),
      ALLOW,
      REFUSE(EACCES),
      // F_SETLEASE on its console would block the daemon from opening, and so from truncating it.
      JUMP_IF(BPF_JEQ, NR(fcntl), 0, 9),
      LOAD(args[1]),
      JUMP_IF(BPF_JEQ, F_SETLEASE, 4, 0),
      JUMP_IF(BPF_JEQ, F_SETLK, 4, 0),
      JUMP_IF(BPF_JEQ, F_SETLKW, 3, 0),
      JUMP_IF(BPF_JEQ, F_OFD_SETLK, 2, 0),
      JUMP_IF(BPF_JEQ, F_OFD_SETLKW, 1, 2),
      REFUSE(EPERM),
      REFUSE(0),
      ALLOW,
      JUMP_IF(BPF_JEQ, NR(setsockopt), 0, 7),
      LOAD(args[2]),
      JUMP_IF(BPF_JEQ, SO_ATTACH_FILTER, 3, 0),
      JUMP_IF(BPF_JEQ, SO_ATTACH_BPF, 2, 0),
      JUMP_IF(BPF_JEQ, SO_ATTACH_REUSEPORT_CBPF, 1, 0),
      JUMP_IF(BPF_JEQ, SO_ATTACH_REUSEPORT_EBPF, 0, 1),
      REFUSE(EPERM),
      ALLOW,
      // Allocation is allowed up to the limit; punching holes needs no space. Modes that shift data could extend the
      // file.
      JUMP_IF(BPF_JEQ, NR(fallocate), 0, 28),
      LOAD(args[1]),
      JUMP_IF(BPF_JEQ, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 24, 0),
      JUMP_IF(BPF_JEQ, 0, 4, 0),
      JUMP_IF(BPF_JEQ, FALLOC_FL_KEEP_SIZE, 3, 0),
      JUMP_IF(BPF_JEQ, FALLOC_FL_ZERO_RANGE, 2, 0),
      JUMP_IF(BPF_JEQ, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 1, 0),
      REFUSE(EOPNOTSUPP),
      // The lower half of the sum, and its carry.
      LOAD(args[3]),
      BPF_STMT(BPF_MISC | BPF_TAX, 0),
      LOAD(args[2]),
      BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
      BPF_STMT(BPF_ST, 0),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_X, 0, 2, 0),
      BPF_STMT(BPF_LD | BPF_IMM, 1),
      BPF_STMT(BPF_JMP | BPF_JA, 1),
      BPF_STMT(BPF_LD | BPF_IMM, 0),
      BPF_STMT(BPF_MISC | BPF_TAX, 0),
      LOAD_HIGH(args[2]),
      BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
      BPF_STMT(BPF_MISC | BPF_TAX, 0),
      LOAD_HIGH(args[3]),
      BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
      JUMP_IF(BPF_JGT, most >> 32, 4, 0),
      JUMP_IF(BPF_JEQ, most >> 32, 0, 2),
      BPF_STMT(BPF_LD | BPF_MEM, 0),
      JUMP_IF(BPF_JGT, most & 0xffffffff, 1, 0),
      ALLOW,
      REFUSE(EFBIG),
      JUMP_IF(BPF_JEQ, NR(ioctl), 0, 8 + 2 * IOCTL_COUNT),
      LOAD(args[1]),
      BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, _IOC_TYPESHIFT),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, _IOC_TYPEMASK),
      JUMP_IF(BPF_JEQ, KVM_TYPE, 1, 0),
      JUMP_IF(BPF_JEQ, FAULTS_TYPE, 0, 1),
      ALLOW,
      LOAD(args[1]),
  };
  enum { HEAD = sizeof head / sizeof *head, CALLS = sizeof ALLOWED / sizeof *ALLOWED };
  struct sock_filter filter[HEAD + 2 * IOCTL_COUNT + 1 + 2 * CALLS + 1];
  unsigned short length = 0;
  for (unsigned i = 0; i < HEAD; i++) filter[length++] = head[i];
  for (unsigned i = 0; i < IOCTL_COUNT; i++) {
    filter[length++] = (struct sock_filter)JUMP_IF(BPF_JEQ, IOCTLS[i], 0, 1);
    filter[length++] = (struct sock_filter)ALLOW;
  }
  filter[length++] = (struct sock_filter)REFUSE(ENOTTY);
  for (unsigned i = 0; i < CALLS; i++) {
    filter[length++] = (struct sock_filter)JUMP_IF(BPF_JEQ, ALLOWED[i], 0, 1);
    filter[length++] = (struct sock_filter)ALLOW;
  }
  filter[length++] = (struct sock_filter)REFUSE(EPERM);
  struct sock_fprog program = {length, filter};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}
