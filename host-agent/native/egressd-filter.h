// Part of egressd.c: the system calls that it needs once it listens. None for files, processes or other sockets.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "filter-architecture.h"

static const unsigned short CALLS[] = {
    __NR_read, __NR_write, __NR_recvfrom, __NR_sendto, __NR_accept4, __NR_close, __NR_connect, __NR_getsockopt,
    __NR_setsockopt, __NR_shutdown, __NR_epoll_ctl, __NR_epoll_pwait, __NR_clock_gettime, __NR_brk,
    __NR_munmap, __NR_mremap, __NR_madvise, __NR_rt_sigreturn, __NR_exit, __NR_exit_group,
#ifdef __x86_64__
    __NR_epoll_wait,
#endif
};

static int filter_calls(void) {
  enum { COUNT = sizeof CALLS / sizeof *CALLS };
  struct sock_filter filter[11 + 1 + 2 * COUNT + 1] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_K | BPF_JEQ, FILTERED_ARCHITECTURE, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      // New sockets are of IPv4; memory is of no file, which the missing file descriptor says.
      BPF_JUMP(BPF_JMP | BPF_K | BPF_JEQ, __NR_socket, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_K | BPF_JEQ, AF_INET, 3, 4),
      BPF_JUMP(BPF_JMP | BPF_K | BPF_JEQ, __NR_mmap, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[4])),
      BPF_JUMP(BPF_JMP | BPF_K | BPF_JEQ, 0xffffffff, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  unsigned short length = 11;
  // Where the first argument was read, no number of a call is left: such a call is refused by all that follow.
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (int at = 0; at < COUNT; at++) {
    filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_K | BPF_JEQ, CALLS[at], 0, 1);
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  struct sock_fprog program = {length, filter};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
