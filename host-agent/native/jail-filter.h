// The system calls that a jailed program may make, on x86-64: what VMMs were seen to need or allow themselves, and nothing that
// reaches other processes, mounts, namespaces, keys, modules, tracing or programs loaded into the kernel. No directories either: a tree
// of them that is deeper than any path cannot be deleted by path.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <sys/socket.h>
#include <termios.h>

#define NR(name) __NR_##name

static const unsigned short ALLOWED[] = {
    // Files.
    NR(read), NR(write), NR(open), NR(openat), NR(close), NR(stat), NR(fstat), NR(lstat), NR(newfstatat), NR(statx),
    NR(statfs), NR(fstatfs), NR(lseek), NR(pread64), NR(pwrite64), NR(readv), NR(writev), NR(preadv), NR(pwritev),
    NR(preadv2), NR(pwritev2), NR(access), NR(faccessat), NR(faccessat2), NR(dup), NR(dup2), NR(dup3), NR(fcntl),
    NR(flock), NR(fsync), NR(fdatasync), NR(sync_file_range), NR(fadvise64), NR(ftruncate), NR(fallocate),
    NR(getdents64), NR(getcwd), NR(readlink), NR(readlinkat), NR(rename), NR(renameat),
    NR(renameat2), NR(unlink), NR(unlinkat), NR(umask), NR(pipe), NR(pipe2), NR(close_range),
    NR(io_setup), NR(io_destroy), NR(io_submit), NR(io_cancel), NR(io_getevents), NR(io_pgetevents),
    // Memory.
    NR(brk), NR(mmap), NR(munmap), NR(mremap), NR(mprotect), NR(madvise), NR(msync), NR(mincore), NR(mlock),
    NR(munlock), NR(mlock2), NR(mbind), NR(set_mempolicy), NR(get_mempolicy), NR(memfd_create), NR(membarrier),
    // Waiting, time.
    NR(poll), NR(ppoll), NR(select), NR(pselect6), NR(epoll_create1), NR(epoll_ctl), NR(epoll_wait), NR(epoll_pwait),
    NR(epoll_pwait2), NR(eventfd2), NR(signalfd4), NR(timerfd_create), NR(timerfd_settime), NR(timerfd_gettime),
    NR(timer_create), NR(timer_settime), NR(timer_gettime), NR(timer_getoverrun), NR(timer_delete), NR(nanosleep),
    NR(clock_nanosleep), NR(clock_gettime), NR(clock_getres), NR(gettimeofday), NR(time), NR(times), NR(restart_syscall),
    // Sockets that exist: which kinds can be made is decided below.
    NR(connect), NR(accept), NR(accept4), NR(bind), NR(listen), NR(getsockname), NR(getpeername),
    NR(sendto), NR(recvfrom), NR(sendmsg), NR(recvmsg), NR(sendmmsg), NR(recvmmsg), NR(shutdown), NR(setsockopt),
    NR(getsockopt),
    // The process itself.
    NR(execve), NR(exit), NR(exit_group), NR(wait4), NR(waitid), NR(futex), NR(set_tid_address), NR(set_robust_list),
    NR(get_robust_list), NR(rseq), NR(arch_prctl), NR(prctl), NR(seccomp), NR(rt_sigaction), NR(rt_sigprocmask),
    NR(rt_sigreturn), NR(rt_sigpending), NR(rt_sigtimedwait), NR(rt_sigsuspend), NR(sigaltstack), NR(getpid),
    NR(gettid), NR(getppid), NR(getpgrp), NR(getpgid), NR(getsid), NR(setsid), NR(getuid), NR(geteuid), NR(getgid),
    NR(getegid), NR(getresuid), NR(getresgid), NR(getgroups), NR(capget), NR(getrlimit), NR(setrlimit), NR(prlimit64),
    NR(getrusage), NR(getpriority), NR(setpriority), NR(sched_yield), NR(sched_getaffinity), NR(sched_setaffinity),
    NR(sched_getparam), NR(sched_getscheduler), NR(sched_setscheduler), NR(sched_get_priority_max),
    NR(sched_get_priority_min), NR(getcpu), NR(kill), NR(tkill), NR(tgkill), NR(getrandom), NR(uname), NR(sysinfo), NR(landlock_create_ruleset),
    NR(landlock_add_rule), NR(landlock_restrict_self),
};

/** Newer calls are answered as an older kernel would: libraries know what to do instead. */
enum { LAST_KNOWN = 450, NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                        CLONE_NEWPID | CLONE_NEWNET };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define JUMP_IF(test, value, yes, no) BPF_JUMP(BPF_JMP | BPF_K | (test), (value), (yes), (no))
#define ANSWER(action) BPF_STMT(BPF_RET | BPF_K, (action))
#define ALLOW ANSWER(SECCOMP_RET_ALLOW)
#define REFUSE(error) ANSWER(SECCOMP_RET_ERRNO | (error))

/** From here on, for this thread and all that come of it. The process must be in its final state otherwise. */
static int filter_calls(void) {
  struct sock_filter head[] = {
      LOAD(arch),
      JUMP_IF(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0),
      ANSWER(SECCOMP_RET_KILL_PROCESS),
      LOAD(nr),
      // Of the x32 interface, too.
      JUMP_IF(BPF_JGT, LAST_KNOWN, 0, 1),
      REFUSE(ENOSYS),
      // Its flags are in memory and cannot be looked at: libraries then use clone.
      JUMP_IF(BPF_JEQ, NR(clone3), 0, 1),
      REFUSE(ENOSYS),
      // Threads only: a process of its own would outlive it, with a user that another VMM has then.
      JUMP_IF(BPF_JEQ, NR(clone), 0, 5),
      LOAD(args[0]),
      JUMP_IF(BPF_JSET, NAMESPACES, 1, 0),
      JUMP_IF(BPF_JSET, CLONE_THREAD, 1, 0),
      REFUSE(EPERM),
      ALLOW,
      // Also of a VMM with a network: its guest's frames go by a tap, and it has nothing of its own to say there. Of a pair the
      // kernel makes the first socket, and loads what it has for the family, before it says that there are no such pairs.
      JUMP_IF(BPF_JEQ, NR(socket), 1, 0),
      JUMP_IF(BPF_JEQ, NR(socketpair), 0, 4),
      LOAD(args[0]),
      JUMP_IF(BPF_JEQ, AF_UNIX, 0, 1),
      ALLOW,
      REFUSE(EACCES),
      // With a lease of its console it could keep the daemon from opening, and so from cutting it.
      JUMP_IF(BPF_JEQ, NR(fcntl), 0, 4),
      LOAD(args[1]),
      JUMP_IF(BPF_JEQ, F_SETLEASE, 0, 1),
      REFUSE(EPERM),
      ALLOW,
      // Nothing is typed into a terminal that somebody else reads.
      JUMP_IF(BPF_JEQ, NR(ioctl), 0, 5),
      LOAD(args[1]),
      JUMP_IF(BPF_JEQ, TIOCSTI, 1, 0),
      JUMP_IF(BPF_JEQ, TIOCLINUX, 0, 1),
      REFUSE(EPERM),
      ALLOW,
  };
  enum { HEAD = sizeof head / sizeof *head, CALLS = sizeof ALLOWED / sizeof *ALLOWED };
  struct sock_filter filter[HEAD + 2 * CALLS + 1];
  unsigned short length = 0;
  for (unsigned i = 0; i < HEAD; i++) filter[length++] = head[i];
  for (unsigned i = 0; i < CALLS; i++) {
    filter[length++] = (struct sock_filter)JUMP_IF(BPF_JEQ, ALLOWED[i], 0, 1);
    filter[length++] = (struct sock_filter)ALLOW;
  }
  filter[length++] = (struct sock_filter)REFUSE(EPERM);
  struct sock_fprog program = {length, filter};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}
