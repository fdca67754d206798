// Attacks on limited resources.
#pragma once
#include <limits.h>
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include "outcome.h"
#include "sockets.h"

static void *wait_for_end(void *unused) {
  for (;;) pause();
  return unused;
}

/** Uses permitted resources without a limit. */
static void exhaust(void) {
  struct rlimit limit;
  static const int limits[] = {RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_NPROC, RLIMIT_CORE, RLIMIT_RTPRIO, RLIMIT_NICE};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    char name[16];
    snprintf(name, sizeof name, "%d", limits[i]);
    getrlimit(limits[i], &limit);
    limit.rlim_max += 1;
    report("raise limit", name, setrlimit(limits[i], &limit));
  }
  int ends[2];
  if (pipe(ends) < 0) exit(3);
  report("have a large pipe", "", fcntl(ends[1], F_SETPIPE_SZ, 1 << 30));
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) < 0) exit(3);
  long sent = 0;
  for (int i = 0; i < 100 && sent >= 0; i++) sent = send_descriptors(pair[0], ends[0]);
  report("have descriptors on their way", "", sent);
  close(pair[0]), close(pair[1]);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN);
  int error = 0;
  for (int i = 0; i < 2000 && error == 0; i++) error = pthread_create(&(pthread_t){0}, &small, wait_for_end, NULL);
  errno = error;
  report("have threads", "", error == 0 ? 0 : -1);
  int timer = 0;
  for (int i = 0; i < 100000 && timer >= 0; i++) timer = timerfd_create(CLOCK_MONOTONIC, 0);
  report("have timers", "", timer);
}

static void have_uncounted(void) {
  char *pages = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unsigned long nodes = 1;
  report("have a policy for", "memory", syscall(SYS_mbind, pages, 4096, MPOL_BIND, &nodes, sizeof nodes * 8, 0));
  int file = memfd_create("locked", MFD_CLOEXEC);
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  int again = open(path, O_RDWR | O_CLOEXEC);
  static const int locks[] = {F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW};
  for (size_t i = 0; i < sizeof locks / sizeof *locks; i++) {
    char name[16];
    snprintf(name, sizeof name, "%d", locks[i]);
    struct flock byte = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    report("be granted lock", name, fcntl(file, locks[i], &byte));
    fcntl(again, F_OFD_GETLK, &byte);
    report("hold lock", name, byte.l_type == F_WRLCK ? 0 : (errno = ENOLCK, -1));
    byte.l_type = F_UNLCK;
    fcntl(file, locks[i], &byte);
  }
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) exit(3);
  struct sock_filter all = {BPF_RET | BPF_K, 0, 0, UINT_MAX};
  struct sock_fprog program = {1, &all};
  report("filter", "a socket", setsockopt(pair[0], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
  static const int others[] = {SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_REUSEPORT_EBPF};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    char name[16];
    snprintf(name, sizeof name, "%d", others[i]);
    int none = -1;
    long result = setsockopt(pair[0], SOL_SOCKET, others[i], &none, sizeof none);
    report("reach socket filters by", name, result < 0 && errno == EPERM ? -1 : 0);
  }
}
