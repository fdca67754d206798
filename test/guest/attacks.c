// What a VMM that a guest has broken would try on its host. Each attack prints a line: its name, and the error that it met or
// `done`.
// usage: attacks KIND…
//   process=PID   one that it has no business with
//   port=PORT     on which somebody listens on the loopback device
//   tap=NAME      that it is to have
//   faults        the device of page faults, which it is to have
//   file=PATH     one that is not its own
//   make=PATH     one that is not there
//   hold=PATH     one that others read, too: locks all of it and stays
//   own=PATH      one that is its own and may have a MiB
//   abstract=NAME a socket without a file, on which somebody listens
//   full=PATH     is made a socket that takes no more connections; stays
//   uncounted     what the kernel keeps without end and counts for nobody
//   pass=PATH     is made a socket that passes descriptors on to who connects; stays
//   self          its own root directory and means, and the kernel: never without a jail
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <linux/bpf.h>
#include <linux/falloc.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/if_arp.h>
#include <linux/keyctl.h>
#include <linux/mempolicy.h>
#include <linux/sockios.h>
#include <linux/userfaultfd.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void report(const char *attack, const char *about, long result) {
  printf("%s%s%s: %s\n", attack, *about == '\0' ? "" : " ", about, result < 0 ? strerrorname_np(errno) : "done");
}

static long open_and_close(const char *path, int flags) {
  int file = open(path, flags | O_CLOEXEC, 0600);
  if (file >= 0) close(file);
  return file;
}

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

static void attack_network(const char *port) {
  struct sockaddr_in daemon = {AF_INET, htons(atoi(port)), {htonl(INADDR_LOOPBACK)}, {0}};
  int tcp = socket(AF_INET, SOCK_STREAM, 0);
  report("connect", "", tcp < 0 ? tcp : connect(tcp, (struct sockaddr *)&daemon, sizeof daemon));
  report("raw socket", "", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
  report("packet socket", "", socket(AF_PACKET, SOCK_RAW, 0));
  report("datagram socket", "", socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  report("IPv6 datagram socket", "", socket(AF_INET6, SOCK_DGRAM, 0));
  report("netlink socket", "", socket(AF_NETLINK, SOCK_RAW, 0));
  report("crypto socket", "", socket(AF_ALG, SOCK_SEQPACKET, 0));
  // The kernel has no such pairs, and says so when it has loaded what it has for the family and made the first of the two.
  int pair[2];
  report("pair of network sockets", "", socketpair(AF_INET, SOCK_STREAM, 0, pair) < 0 && errno == EOPNOTSUPP ? 0 : -1);
}

/** No attack: what a VMM with a network must be able to do, and the same with a tap that is not there. */
static void open_taps(const char *name) {
  struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
  strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  int tap = open("/dev/net/tun", O_RDWR);
  report("attach", name, tap < 0 ? tap : ioctl(tap, TUNSETIFF, &request));
  char frame[74] = {0};
  report("send by", name, write(tap, frame, sizeof frame));
  struct ifreq hardware = {.ifr_hwaddr = {ARPHRD_ETHER, {2}}};
  report("end the life of", name, ioctl(tap, TUNSETPERSIST, 0));
  report("give away", name, ioctl(tap, TUNSETOWNER, 0));
  report("change the kind of", name, ioctl(tap, TUNSETLINK, ARPHRD_ETHER));
  report("change the address of", name, ioctl(tap, SIOCSIFHWADDR, &hardware));
  strcpy(request.ifr_name, "another0");
  tap = open("/dev/net/tun", O_RDWR);
  report("make a tap", "", tap < 0 ? tap : ioctl(tap, TUNSETIFF, &request));
}

/** No attack: what a VMM that has its guest's memory on demand must be able to do. */
static void handle_faults(void) {
  int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
  int faults = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC);
  report("use", "the device of page faults", faults);
  struct uffdio_api api = {.api = UFFD_API};
  report("agree on", "page faults", ioctl(faults, UFFDIO_API, &api));
}

static void attack_file(const char *path) {
  report("read", path, open_and_close(path, O_RDONLY));
  report("write", path, open_and_close(path, O_WRONLY | O_APPEND));
  struct sockaddr_un address = {AF_UNIX, ""};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  int stream = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(stream, (struct sockaddr *)&address, sizeof address) < 0 && errno != ECONNREFUSED) report("connect to", path, -1);
  else report("connect to", path, 0);
  close(stream);
}

enum { MIB = 1 << 20 };
/** As the kernel has it; no header does. */
typedef struct {
  short type, whence;
  long long start, length;
  int system;
  unsigned process;
  int unused[4];
} Reservation;
#define RESERVE _IOW('X', 42, Reservation)

static void overfill(const char *path) {
  int file = open(path, O_RDWR);
  report("reserve within", path, fallocate(file, 0, 0, MIB));
  report("zero within", path, fallocate(file, FALLOC_FL_ZERO_RANGE, 0, MIB));
  report("dig into", path, fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, MIB));
  report("try a block behind", path, fallocate(file, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, MIB, 4096));
  report("reserve behind", path, fallocate(file, FALLOC_FL_KEEP_SIZE, 0, 64 * MIB));
  report("zero behind", path, fallocate(file, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 64 * MIB, MIB));
  report("reserve far behind", path, fallocate(file, FALLOC_FL_KEEP_SIZE, 1LL << 40, 4096));
  // Whose lower halves add up to one.
  report("reserve around", path, fallocate(file, FALLOC_FL_KEEP_SIZE, 0xffffffff, 2));
  report("insert into", path, fallocate(file, FALLOC_FL_INSERT_RANGE, 0, MIB));
  Reservation reservation = {.whence = SEEK_SET, .length = 64 * MIB};
  report("have reserved", path, ioctl(file, RESERVE, &reservation));
  unsigned long flags = FS_NOATIME_FL | FS_EXTENT_FL;
  report("mark", path, ioctl(file, FS_IOC_SETFLAGS, &flags));
  struct fsxattr attributes = {.fsx_projid = 7};
  report("count for another project", path, ioctl(file, FS_IOC_FSSETXATTR, &attributes));
  close(file);
}

static void attack_abstract(const char *name) {
  struct sockaddr_un address = {AF_UNIX, ""};
  strncpy(address.sun_path + 1, name, sizeof address.sun_path - 2);
  int stream = socket(AF_UNIX, SOCK_STREAM, 0);
  socklen_t length = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name);
  report("connect without a file", "", connect(stream, (struct sockaddr *)&address, length));
}

static struct sockaddr_un listen_at(const char *path, int *server) {
  struct sockaddr_un address = {AF_UNIX, ""};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  *server = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(*server, (struct sockaddr *)&address, sizeof address) < 0 || listen(*server, 0) < 0) exit(3);
  return address;
}

static void fill(const char *path) {
  int server;
  struct sockaddr_un address = listen_at(path, &server);
  while (connect(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), (struct sockaddr *)&address, sizeof address) == 0) continue;
  report("fill", "", 0);
  fflush(stdout);
  for (;;) sleep(600);
}

/** Sends a byte with as many descriptors as one message may have. */
static ssize_t send_descriptors(int stream, int file) {
  enum { MOST = 253 };
  static char control[CMSG_SPACE(MOST * sizeof(int))];
  char byte = 'x';
  struct iovec bytes = {&byte, 1};
  struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(MOST * sizeof(int))};
  for (int i = 0; i < MOST; i++) memcpy(CMSG_DATA(header) + i * sizeof(int), &file, sizeof file);
  return sendmsg(stream, &message, MSG_NOSIGNAL);
}

static void pass_on(const char *path) {
  int server;
  listen_at(path, &server);
  int file = open("/dev/null", O_RDONLY);
  report("listen", "", 0);
  fflush(stdout);
  for (;;) {
    int stream = accept(server, NULL, NULL);
    for (int i = 0; i < 200 && send_descriptors(stream, file) > 0; i++) usleep(1000);
    close(stream);
  }
}

static void make(const char *path) {
  report("make", path, open_and_close(path, O_WRONLY | O_CREAT | O_EXCL));
  int file = open(path, O_RDONLY);
  report("lease", path, fcntl(file, F_SETLEASE, F_RDLCK));
  if (file >= 0) close(file);
  char directory[PATH_MAX];
  snprintf(directory, sizeof directory, "%s.d", path);
  // In each another: a tree that is deeper than any path, which nobody deletes who deletes by path.
  report("make a directory beside", path, mkdir(directory, 0700));
}

static void hold(const char *path) {
  struct flock all = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
  int file = open(path, O_RDONLY);
  report("lock", path, file < 0 ? file : fcntl(file, F_OFD_SETLK, &all));
  report("lock as a whole", path, flock(file, LOCK_EX | LOCK_NB));
  fflush(stdout);
  for (;;) sleep(600);
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

/** Interfaces of the kernel of which a VMM needs none; whatever else than this refusal they answer, they were reached. */
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

static void *wait_for_end(void *unused) {
  for (;;) pause();
  return unused;
}

/** What it may have, without end. */
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

static void attack_root(void) {
  report("write", "/file", open_and_close("/file", O_WRONLY | O_CREAT));
  report("write", "/dev/file", open_and_close("/dev/file", O_WRONLY | O_CREAT));
  report("write", "/usr/file", open_and_close("/usr/file", O_WRONLY | O_CREAT));
  report("list", "/proc", open_and_close("/proc/1", O_RDONLY));
  report("list", "/sys", open_and_close("/sys", O_RDONLY));
  report("start", "/bin/sh", access("/bin/sh", X_OK));
}

/** Descriptors beside the standard three that it was started with. */
static int inherited;

/** A process of its own would outlive the VMM, with a user that the next one gets. */
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
