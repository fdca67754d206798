// Attacks that a compromised VMM would try on its host. Each attack prints a line: its name, and its error or `done`.
// usage: attacks KIND…
//   process=PID   a process of another principal
//   port=PORT     a listening port on the loopback device
//   tap=NAME      the tap that it may use
//   faults        the userfaultfd device, which it may use
//   file=PATH     a file that is not its own
//   make=PATH     a file that does not exist
//   hold=PATH     a file that others read too: locks all of it and stays
//   own=PATH      its own file, of at most 1 MiB
//   abstract=NAME an abstract socket with a listener
//   full=PATH     creates a socket that accepts no more connections; stays
//   uncounted     kernel resources without a limit or an owner
//   pass=PATH     creates a socket that passes descriptors to its clients; stays
//   self          its own root directory and privileges, and the kernel: never without a jail
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include "attacks/files.h"
#include "attacks/kernel.h"
#include "attacks/outcome.h"
#include "attacks/resources.h"
#include "attacks/sockets.h"

static void attack_process(const char *pid_text) {
  pid_t pid = atoi(pid_text);
  char path[64];
  for (const char *const *name = (const char *const[]){"mem", "environ", "maps", "cwd", "root/etc/shadow", NULL}; *name; name++) {
    snprintf(path, sizeof path, "/proc/%d/%s", pid, *name);
    report("open a process's", *name, open_and_close(path, O_RDONLY));
  }
  report("trace", "", ptrace(PTRACE_SEIZE, pid, 0, 0));
  char byte = 0;
  struct iovec local = {&byte, 1}, remote = {(void *)0x400000, 1};
  report("write into a process", "", process_vm_writev(pid, &local, 1, &remote, 1, 0));
  report("signal", "", kill(pid, 0));
  report("hold a process", "", syscall(SYS_pidfd_open, pid, 0));
  struct rlimit limit = {1, 1};
  report("limit a process", "", prlimit(pid, RLIMIT_NOFILE, &limit, NULL));
  report("slow a process", "", setpriority(PRIO_PROCESS, pid, 19));
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(0, &cpus);
  report("pin a process", "", sched_setaffinity(pid, sizeof cpus, &cpus));
}

static void attack_root(void) {
  report("write", "/file", open_and_close("/file", O_WRONLY | O_CREAT));
  report("write", "/dev/file", open_and_close("/dev/file", O_WRONLY | O_CREAT));
  report("write", "/usr/file", open_and_close("/usr/file", O_WRONLY | O_CREAT));
  report("list", "/proc", open_and_close("/proc/1", O_RDONLY));
  report("list", "/sys", open_and_close("/sys", O_RDONLY));
  report("start", "/bin/sh", access("/bin/sh", X_OK));
}

/** Descriptors at start, in addition to the three standard ones. */
static int inherited;

/** A child process would outlive the VMM, with a uid that the next VMM gets. */
static void make_processes(void) {
  for (long flags = 0; flags <= CLONE_VM; flags += CLONE_VM) {
    char stack[16384];
    long child = syscall(SYS_clone, flags | SIGCHLD, flags == 0 ? NULL : stack + sizeof stack, NULL, NULL, NULL);
    if (child == 0) syscall(SYS_exit, 0);
    report("make a process", flags == 0 ? "" : "that shares memory", child);
  }
  report("make a process", "as long ago", syscall(SYS_fork) == 0 ? (_exit(0), 0) : -1);
}

static void attack_itself(void) {
  make_processes();
  attack_root();
  attack_kernel();
  attack_interfaces();
  report("open the log again", "", open_and_close("/proc/self/fd/1", O_WRONLY | O_TRUNC));
  struct rlimit limit;
  getrlimit(RLIMIT_CORE, &limit);
  report("dump core", "", limit.rlim_max == 0 ? (errno = EPERM, -1) : 0);
  report("read the environment", "", *environ == NULL ? (errno = ENOENT, -1) : 0);
  struct sched_param urgent = {.sched_priority = 1};
  report("run in real time", "", sched_setscheduler(0, SCHED_FIFO, &urgent));
  report("go before others", "", setpriority(PRIO_PROCESS, 0, -10));
  report("use a descriptor", "", inherited > 0 ? 0 : (errno = EBADF, -1));
  exhaust();
}

int main(int count, char **arguments) {
  for (int file = 3; file < 1024; file++) inherited += fcntl(file, F_GETFD) >= 0;
  for (int i = 1; i < count; i++) {
    char *value = strchr(arguments[i], '=');
    value = value == NULL ? "" : value + 1;
    if (strncmp(arguments[i], "process=", 8) == 0) attack_process(value);
    else if (strncmp(arguments[i], "port=", 5) == 0) attack_network(value);
    else if (strncmp(arguments[i], "tap=", 4) == 0) open_taps(value);
    else if (strncmp(arguments[i], "file=", 5) == 0) attack_file(value);
    else if (strncmp(arguments[i], "make=", 5) == 0) make(value);
    else if (strncmp(arguments[i], "own=", 4) == 0) overfill(value);
    else if (strncmp(arguments[i], "abstract=", 9) == 0) attack_abstract(value);
    else if (strncmp(arguments[i], "full=", 5) == 0) fill(value);
    else if (strncmp(arguments[i], "pass=", 5) == 0) pass_on(value);
    else if (strncmp(arguments[i], "hold=", 5) == 0) hold(value);
    else if (strcmp(arguments[i], "faults") == 0) handle_faults();
    else if (strcmp(arguments[i], "uncounted") == 0) have_uncounted();
    else if (strcmp(arguments[i], "self") == 0) attack_itself();
    else return 2;
  }
  return 0;
}
