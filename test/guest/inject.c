// Makes a thread of another process, such as a running VMM, attack its host, as a guest would that has compromised it.
// Each attack prints a line: its name, and its error, `SIGSYS`, or `done`. Afterwards the thread continues normally.
// usage: inject THREAD KIND…
//   process=PID   a process of another principal
//   file=PATH     a file that is not its own
//   descriptor=N  its own descriptor of a file that others have too
//   self          the kernel and its own privileges: never without a jail
//   hungry        allocates a GiB of memory
//   mount, unshare, root, all-root, fork, start    one system call each; `KILLED` if the VMM's own filter kills it
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/** The death of the first thread is not reported while other threads of its process live. */
enum { WAIT_MS = 3000 };

enum { SCRATCH = 4096, BELOW_STACK = 16384, MAX_SIGNALS = 64 };

static pid_t thread;
static unsigned long long syscall_at;
static struct user_regs_struct before;
static int postponed[MAX_SIGNALS], postponed_count;

static _Noreturn void fail(const char *what) {
  perror(what);
  exit(1);
}

static void find_syscall(void) {
  char path[64], line[512];
  snprintf(path, sizeof path, "/proc/%d/maps", thread);
  FILE *maps = fopen(path, "r");
  if (maps == NULL) fail(path);
  unsigned long long from = 0, to = 0;
  while (fgets(line, sizeof line, maps))
    if (strstr(line, "[vdso]")) sscanf(line, "%llx-%llx", &from, &to);
  fclose(maps);
  static unsigned char code[65536];
  struct iovec local = {code, sizeof code}, remote = {(void *)from, to - from};
  ssize_t length = process_vm_readv(thread, &local, 1, &remote, 1, 0);
  for (ssize_t i = 0; i + 1 < length; i++)
    if (code[i] == 0x0f && code[i + 1] == 0x05) {
      syscall_at = from + i;
      return;
    }
  errno = ENOENT;
  fail("find a syscall instruction");
}

static void take_over(void) {
  int status;
  if (ptrace(PTRACE_SEIZE, thread, 0, 0) < 0 || ptrace(PTRACE_INTERRUPT, thread, 0, 0) < 0) fail("trace");
  do {
    if (waitpid(thread, &status, __WALL) < 0 || !WIFSTOPPED(status)) fail("wait for the thread");
    if (status >> 16 != PTRACE_EVENT_STOP) postponed[postponed_count++] = WSTOPSIG(status), ptrace(PTRACE_CONT, thread, 0, 0);
  } while (status >> 16 != PTRACE_EVENT_STOP);
  if (ptrace(PTRACE_GETREGS, thread, 0, &before) < 0) fail("read registers");
}

static void let_go(pid_t process) {
  if (ptrace(PTRACE_SETREGS, thread, 0, &before) < 0 || ptrace(PTRACE_DETACH, thread, 0, 0) < 0) fail("let go");
  for (int i = 0; i < postponed_count; i++) syscall(SYS_tgkill, process, thread, postponed[i]);
}

/** An address below the thread's used stack. */
static unsigned long long scratch(void) { return (before.rsp - BELOW_STACK) & ~15ULL; }

/** Copies bytes into the thread's memory; returns their address there. */
static unsigned long long place(const void *bytes, size_t length) {
  struct iovec local = {(void *)bytes, length}, remote = {(void *)scratch(), length};
  if (length > SCRATCH || process_vm_writev(thread, &local, 1, &remote, 1, 0) != (ssize_t)length) fail("write into the thread");
  return scratch();
}

static unsigned long long text(const char *string) { return place(string, strlen(string) + 1); }

typedef struct {
  long result;
  enum { RETURNED, TRAPPED, KILLED } end;
} Outcome;

/** Waits for the thread's next stop; 0 when it has exited. */
static int wait_for_stop(void) {
  int status = 0;
  for (int ms = 0; ms < WAIT_MS; ms++) {
    pid_t found = waitpid(thread, &status, __WALL | WNOHANG);
    if (found < 0) fail("wait for the thread");
    if (found > 0) return WIFSTOPPED(status) ? status : 0;
    usleep(1000);
  }
  return 0;
}

static Outcome call(long number, unsigned long long a, unsigned long long b, unsigned long long c, unsigned long long d,
                    unsigned long long e) {
  struct user_regs_struct now = before;
  now.rip = syscall_at;
  now.rax = number;
  // The thread is in no system call that would have to be restarted.
  now.orig_rax = -1;
  now.rdi = a, now.rsi = b, now.rdx = c, now.r10 = d, now.r8 = e, now.r9 = 0;
  if (ptrace(PTRACE_SETREGS, thread, 0, &now) < 0) fail("set registers");
  for (;;) {
    if (ptrace(PTRACE_SINGLESTEP, thread, 0, 0) < 0) fail("step");
    int status = wait_for_stop();
    if (status == 0) return (Outcome){-1, KILLED};
    if (WSTOPSIG(status) == SIGSYS) {
      // The end of the step is still pending, and would otherwise become a signal to the process.
      if (ptrace(PTRACE_SINGLESTEP, thread, 0, 0) < 0) fail("step");
      return (Outcome){-1, wait_for_stop() == 0 ? KILLED : TRAPPED};
    }
    if (WSTOPSIG(status) != SIGTRAP) {
      if (postponed_count < MAX_SIGNALS) postponed[postponed_count++] = WSTOPSIG(status);
      continue;
    }
    if (ptrace(PTRACE_GETREGS, thread, 0, &now) < 0) fail("read registers");
    if (now.rip != syscall_at) return (Outcome){now.rax, RETURNED};
  }
}

static void report(const char *attack, const char *about, Outcome outcome) {
  const char *result = outcome.end == KILLED    ? "KILLED"
                       : outcome.end == TRAPPED ? "SIGSYS"
                       : outcome.result < 0     ? strerrorname_np(-outcome.result)
                                                : "done";
  printf("%s%s%s: %s\n", attack, *about == '\0' ? "" : " ", about, result);
  // No thread is left for further attacks.
  if (outcome.end == KILLED) exit(0);
}

static Outcome open_and_close(const char *path, int flags) {
  Outcome opened = call(SYS_openat, AT_FDCWD, text(path), flags | O_CLOEXEC, 0600, 0);
  if (opened.result >= 0) call(SYS_close, opened.result, 0, 0, 0, 0);
  return opened;
}

static void attack_process(pid_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", pid);
  report("open", "the memory of a process", open_and_close(path, O_RDWR));
  report("trace", "", call(SYS_ptrace, PTRACE_SEIZE, pid, 0, 0, 0));
  report("signal", "", call(SYS_kill, pid, 0, 0, 0, 0));
  // Reading needs the same permission as changing, and is harmless where it is permitted.
  struct rlimit limit;
  report("limit a process", "", call(SYS_prlimit64, pid, RLIMIT_NOFILE, 0, place(&limit, sizeof limit), 0));
  struct { struct iovec local, remote; char byte; } io = {{(void *)(scratch() + sizeof(struct iovec) * 2), 1}, {(void *)0x400000, 1}, 0};
  unsigned long long at = place(&io, sizeof io);
  Outcome written = call(SYS_process_vm_writev, pid, at, 1, at + sizeof(struct iovec), 1);
  // Permitted, but nothing is mapped at that address.
  if (written.result == -EFAULT) written.result = 0;
  report("write into a process", "", written);
}

static void attack_file(const char *path) {
  report("read", path, open_and_close(path, O_RDONLY));
  report("write", path, open_and_close(path, O_WRONLY | O_APPEND));
}

static void attack_descriptor(int file) {
  char path[64], about[16];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  snprintf(about, sizeof about, "%d", file);
  report("change", about, call(SYS_pwrite64, file, text("changed"), 7, 0, 0));
  report("grow", about, call(SYS_ftruncate, file, 1ULL << 40, 0, 0, 0));
  report("dig a hole into", about, call(SYS_fallocate, file, 3, 0, 4096, 0));
  Outcome mapped = call(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file);
  if (mapped.result >= 0) call(SYS_munmap, mapped.result, 4096, 0, 0, 0);
  report("map", about, mapped);
  // Opening may be permitted where the next call is not.
  Outcome opened = call(SYS_openat, AT_FDCWD, text(path), O_RDWR | O_CLOEXEC, 0, 0);
  if (opened.result >= 0) {
    int again = opened.result;
    opened = call(SYS_pwrite64, again, text("changed"), 7, 0, 0);
    call(SYS_close, again, 0, 0, 0, 0);
  }
  report("open again and change", about, opened);
}

static void attack_itself(void) {
  report("connect", "", call(SYS_socket, AF_INET, SOCK_STREAM, 0, 0, 0));
  report("packet socket", "", call(SYS_socket, AF_PACKET, SOCK_RAW, 0, 0, 0));
  report("netlink socket", "", call(SYS_socket, AF_NETLINK, SOCK_RAW, 0, 0, 0));
  report("change root", "", call(SYS_chroot, text("/"), 0, 0, 0, 0));
  report("make a device", "", call(SYS_mknod, text("/dev/mem2"), S_IFCHR | 0600, 0x101, 0, 0));
  report("make a file", "", open_and_close("/file", O_WRONLY | O_CREAT));
  report("open a ring", "", call(SYS_io_uring_setup, 1, 0, 0, 0, 0));
  report("open a queue", "", call(SYS_io_setup, 1, place((char[8]){0}, 8), 0, 0, 0));
  report("handle page faults", "", call(SYS_userfaultfd, O_CLOEXEC, 0, 0, 0, 0));
  union bpf_attr attributes = {0};
  attributes.map_type = BPF_MAP_TYPE_ARRAY, attributes.key_size = 4, attributes.value_size = 4, attributes.max_entries = 1;
  report("load a program into the kernel", "",
         call(SYS_bpf, BPF_MAP_CREATE, place(&attributes, sizeof attributes), sizeof attributes, 0, 0));
  struct perf_event_attr counter = {.type = PERF_TYPE_SOFTWARE, .size = sizeof counter, .config = PERF_COUNT_SW_CPU_CLOCK};
  report("count events", "", call(SYS_perf_event_open, place(&counter, sizeof counter), 0, -1, -1, 0));
  report("load a module", "", call(SYS_init_module, scratch(), 0, scratch(), 0, 0));
}

static pid_t process_of(pid_t id) {
  char path[64], line[256];
  int process = id;
  snprintf(path, sizeof path, "/proc/%d/status", id);
  FILE *status = fopen(path, "r");
  while (status != NULL && fgets(line, sizeof line, status)) sscanf(line, "Tgid: %d", &process);
  if (status != NULL) fclose(status);
  return process;
}

int main(int count, char **arguments) {
  if (count < 3) return 2;
  thread = atoi(arguments[1]);
  find_syscall();
  take_over();
  for (int i = 2; i < count; i++) {
    if (strncmp(arguments[i], "process=", 8) == 0) attack_process(atoi(arguments[i] + 8));
    else if (strncmp(arguments[i], "file=", 5) == 0) attack_file(arguments[i] + 5);
    else if (strncmp(arguments[i], "descriptor=", 11) == 0) attack_descriptor(atoi(arguments[i] + 11));
    else if (strcmp(arguments[i], "self") == 0) attack_itself();
    else if (strcmp(arguments[i], "hungry") == 0)
      report("hungry", "", call(SYS_mmap, 0, 1ULL << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1));
    else if (strcmp(arguments[i], "mount") == 0)
      report("mount", "", call(SYS_mount, place("none\0/", 7), scratch() + 5, scratch(), 0, 0));
    else if (strcmp(arguments[i], "unshare") == 0)
      report("unshare", "", call(SYS_unshare, CLONE_NEWUSER, 0, 0, 0, 0));
    else if (strcmp(arguments[i], "root") == 0) report("root", "", call(SYS_setuid, 0, 0, 0, 0, 0));
    else if (strcmp(arguments[i], "all-root") == 0) report("all-root", "", call(SYS_setresuid, 0, 0, 0, 0, 0));
    else if (strcmp(arguments[i], "fork") == 0) report("fork", "", call(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    else if (strcmp(arguments[i], "start") == 0) report("start", "", call(SYS_execve, text("/bin/sh"), 0, 0, 0, 0));
    else return 2;
  }
  let_go(process_of(thread));
  return 0;
}
