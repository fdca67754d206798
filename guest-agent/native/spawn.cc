// Starts a program: clone3 with a shared address space directly into its cgroup, then the child's steps. The parent is
// suspended until the program runs or a step failed, as with vfork. The child has its own stack, so it does not touch
// the parent's frames. Page tables are not copied, so the cost does not grow with the agent's memory.
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sanitizer/asan_interface.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "napi.h"

namespace {

constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kKernelSignalSetBytes = 8;
constexpr int kLastSignal = 64;

// Order and meaning are shared with src/exec/spawn-failure.ts.
enum Stage { kClone = 1, kSession, kStdio, kTerminal, kUser, kDirectory, kProgram };

struct Plan {
  std::vector<char*> candidates;
  std::vector<char*> arguments;
  std::vector<char*> script_arguments;  // of /bin/sh, for a script without an interpreter line
  std::vector<char*> environment;
  std::vector<gid_t> groups;
  const char* directory;
  int stdio[3];
  bool has_terminal;
  uid_t user;
  gid_t group;
  volatile int failed_stage;
  volatile int failed_errno;
};

[[noreturn]] void give_up(Plan* plan, Stage stage, int error) {
  plan->failed_stage = stage;
  plan->failed_errno = error;
  _exit(127);
}

// The agent is exempt from the OOM killer; its children are not. Affects only this process, although memory is shared.
void leave_oom_exemption() {
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, "0", 1) < 0) { /* a guest without /proc */
  }
  close(fd);
}

// CLONE_CLEAR_SIGHAND cleared the handlers. Signals that the agent ignores (set by Node or by the agent's parent)
// would stay ignored in the program. Raw system calls, because the C library reserves some real-time signals.
void reset_signals() {
  const struct {
    void* handler;
    unsigned long flags;
    void* restorer;
    uint64_t mask;
  } by_default = {};
  for (int number = 1; number <= kLastSignal; number++)
    syscall(SYS_rt_sigaction, number, &by_default, nullptr, kKernelSignalSetBytes);
}

void become_user(Plan* plan) {
  // Raw system calls: the library's functions would change every thread of the agent.
  if (syscall(SYS_setgroups, plan->groups.size(), plan->groups.data()) < 0 ||
      syscall(SYS_setresgid, plan->group, plan->group, plan->group) < 0 ||
      syscall(SYS_setresuid, plan->user, plan->user, plan->user) < 0)
    give_up(plan, kUser, errno);
}

// Whether a file is binary although the kernel reports ENOEXEC: a program for another CPU, or data. A shell would run
// it as a script and report a syntax error. Same test as in bash: a zero byte in the first line.
bool is_binary(const char* path) {
  char head[128];
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  ssize_t size = read(fd, head, sizeof head);
  close(fd);
  if (size <= 0) return false;
  if (size >= 4 && memcmp(head, "\177ELF", 4) == 0) return true;
  const void* end = memchr(head, '\n', static_cast<size_t>(size));
  size_t line = end ? static_cast<size_t>(static_cast<const char*>(end) - head) : static_cast<size_t>(size);
  return memchr(head, 0, line) != nullptr;
}

// Tries each candidate as execvp does: a missing one is skipped, the error of an unusable one is remembered.
[[noreturn]] void execute(Plan* plan) {
  int error = ENOENT;
  for (char* candidate : plan->candidates) {
    if (!candidate) break;
    execve(candidate, plan->arguments.data(), plan->environment.data());
    if (errno == ENOEXEC) {
      if (!is_binary(candidate)) {
        plan->script_arguments[1] = candidate;
        execve("/bin/sh", plan->script_arguments.data(), plan->environment.data());
      }
      errno = ENOEXEC;
    }
    if (errno == ENOENT || errno == ENOTDIR) {
      if (error == ENOENT && errno == ENOTDIR) error = ENOTDIR;
      continue;
    }
    error = errno;
    if (errno != EACCES) break;
  }
  give_up(plan, kProgram, error);
}

[[noreturn]] void run_child(Plan* plan) {
  reset_signals();
  if (setsid() < 0) give_up(plan, kSession, errno);
  for (int i = 0; i < 3; i++)
    if (dup2(plan->stdio[i], i) < 0) give_up(plan, kStdio, errno);
  syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
  if (plan->has_terminal && ioctl(0, TIOCSCTTY, 0) < 0) give_up(plan, kTerminal, errno);
  leave_oom_exemption();
  umask(022);
  const struct rlimit files = {1024, 1048576};  // the values of a Debian login
  syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &files, nullptr);
  become_user(plan);
  if (chdir(plan->directory) < 0) give_up(plan, kDirectory, errno);
  const uint64_t none = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, kKernelSignalSetBytes);
  execute(plan);
}

extern "C" [[noreturn]] __attribute__((used)) void spawn_child_entry(Plan* plan) { run_child(plan); }

// The child starts on the new stack in spawn_child_entry; only the parent returns from here.
#ifdef __aarch64__
long clone_child(clone_args* arguments, Plan* plan) {
  register long result __asm__("x0") = reinterpret_cast<long>(arguments);
  register long size_register __asm__("x1") = sizeof *arguments;
  register Plan* plan_register __asm__("x2") = plan;
  register long number_register __asm__("x8") = SYS_clone3;
  __asm__ volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "mov x30, xzr\n\t"
      "mov x0, x2\n\t"
      "bl spawn_child_entry\n\t"
      "brk #0\n\t"
      "1:"
      : "+r"(result)
      : "r"(size_register), "r"(plan_register), "r"(number_register)
      : "memory", "cc");
  return result;
}
#else
long clone_child(clone_args* arguments, Plan* plan) {
  long result;
  register Plan* plan_register __asm__("r8") = plan;
  __asm__ volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %%r8, %%rdi\n\t"
      "call spawn_child_entry\n\t"
      "hlt\n\t"
      "1:"
      : "=a"(result)
      : "a"(SYS_clone3), "D"(arguments), "S"(sizeof *arguments), "r"(plan_register)
      : "rcx", "r11", "memory", "cc");
  return result;
}
#endif

void* child_stack() {
  static void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
  return stack;
}

long start(Plan* plan, int cgroup_fd) {
  void* stack = child_stack();
  if (stack == MAP_FAILED) return -ENOMEM;
  // The previous child left this stack by exec with frames on it. (No effect except in AddressSanitizer builds.)
  ASAN_UNPOISON_MEMORY_REGION(stack, kStackBytes);
  clone_args arguments = {};
  arguments.flags = CLONE_VM | CLONE_VFORK | CLONE_CLEAR_SIGHAND;
  if (cgroup_fd >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<uint64_t>(cgroup_fd);
  }
  arguments.exit_signal = SIGCHLD;
  arguments.stack = reinterpret_cast<uint64_t>(stack);
  arguments.stack_size = kStackBytes;
  // No signal handler of the agent may run in the child, which shares its memory.
  uint64_t all = ~0ull, before;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, kKernelSignalSetBytes);
  long pid = clone_child(&arguments, plan);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, kKernelSignalSetBytes);
  return pid;
}

// Splits zero-terminated strings in place, and adds the null pointer that ends the list.
void split(std::string* text, std::vector<char*>* out) {
  for (size_t at = 0; at < text->size(); at += strlen(text->data() + at) + 1) out->push_back(text->data() + at);
  out->push_back(nullptr);
}

bool read_groups(napi_env env, napi_value spec, std::vector<gid_t>* out) {
  napi_value list;
  uint32_t count;
  if (napi_get_named_property(env, spec, "groups", &list) != napi_ok ||
      napi_get_array_length(env, list, &count) != napi_ok) {
    rejected(env);
    return false;
  }
  for (uint32_t i = 0; i < count; i++) {
    napi_value item;
    double group;
    if (napi_get_element(env, list, i, &item) != napi_ok || !read_double(env, item, &group)) {
      rejected(env);
      return false;
    }
    out->push_back(static_cast<gid_t>(group));
  }
  return true;
}

bool read_id(napi_env env, napi_value spec, const char* name, uint32_t* out) {
  napi_value value;
  double id;
  if (napi_get_named_property(env, spec, name, &value) != napi_ok) {
    rejected(env);
    return false;
  }
  if (!read_double(env, value, &id)) return false;
  *out = static_cast<uint32_t>(id);
  return true;
}

// spawn(spec): the pid, or -(stage × 1000 + errno) of the failed step. Lists are strings whose items each end in a zero
// byte. A failed child is already reaped.
METHOD(spawn) {
  ARGUMENTS(1);
  napi_value spec = arguments[0];
  std::string candidates, argv, environment, directory;
  int32_t cgroup_fd, has_terminal;
  Plan plan = {};
  CHECK(property_string(env, spec, "candidates", &candidates));
  CHECK(property_string(env, spec, "argv", &argv));
  CHECK(property_string(env, spec, "env", &environment));
  CHECK(property_string(env, spec, "cwd", &directory));
  CHECK(property_int(env, spec, "stdin", &plan.stdio[0]));
  CHECK(property_int(env, spec, "stdout", &plan.stdio[1]));
  CHECK(property_int(env, spec, "stderr", &plan.stdio[2]));
  CHECK(property_int(env, spec, "terminal", &has_terminal));
  CHECK(property_int(env, spec, "cgroup", &cgroup_fd));
  CHECK(read_id(env, spec, "uid", &plan.user));
  CHECK(read_id(env, spec, "gid", &plan.group));
  CHECK(read_groups(env, spec, &plan.groups));
  split(&candidates, &plan.candidates);
  split(&argv, &plan.arguments);
  split(&environment, &plan.environment);
  plan.directory = directory.c_str();
  plan.has_terminal = has_terminal != 0;
  static char shell[] = "sh";
  plan.script_arguments = {shell, nullptr};
  for (size_t i = 1; i < plan.arguments.size(); i++) plan.script_arguments.push_back(plan.arguments[i]);
  if (plan.arguments.size() < 2) plan.script_arguments.push_back(nullptr);

  long pid = start(&plan, cgroup_fd);
  if (pid < 0) return to_number(env, -(kClone * 1000 - static_cast<double>(pid)));
  if (plan.failed_stage == 0) return to_number(env, static_cast<double>(pid));
  while (waitpid(static_cast<pid_t>(pid), nullptr, 0) < 0 && errno == EINTR) {
  }
  return to_number(env, -(plan.failed_stage * 1000 + static_cast<double>(plan.failed_errno)));
}

}  // namespace

bool add_spawn(napi_env env, napi_value exports) {
  const Method methods[] = {{"spawn", spawn}};
  return add_methods(env, exports, methods, 1);
}
