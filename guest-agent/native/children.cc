// Child processes: notification of their exit, reaping with resource usage, signals.
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "napi.h"

namespace {

int child_event_fd = -1;

void on_child_signal(int) {
  int saved = errno;
  const uint64_t one = 1;
  if (write(child_event_fd, &one, sizeof one) < 0) { /* the counter is full, so the descriptor is readable already */
  }
  errno = saved;
}

// childEvents(): a descriptor that becomes readable whenever a child exits. Libuv spawns no process here, so the addon
// owns SIGCHLD. With an edge-triggered watch, the descriptor need never be read.
METHOD(child_events) {
  (void)info;
  if (child_event_fd < 0) {
    child_event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (child_event_fd < 0) return throw_errno(env, "eventfd", errno);
    struct sigaction action = {};
    action.sa_handler = on_child_signal;
    action.sa_flags = SA_RESTART | SA_NOCLDSTOP;
    sigfillset(&action.sa_mask);
    if (sigaction(SIGCHLD, &action, nullptr) < 0) return throw_errno(env, "sigaction", errno);
  }
  return to_number(env, child_event_fd);
}

// peekEnded(): the pid of a zombie child, or 0
METHOD(peek_ended) {
  (void)info;
  siginfo_t ended = {};
  int result;
  do result = waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT);
  while (result < 0 && errno == EINTR);
  if (result < 0) return errno == ECHILD ? to_number(env, 0) : throw_errno(env, "waitid", errno);
  return to_number(env, ended.si_pid);
}

double microseconds(const timeval& time) { return static_cast<double>(time.tv_sec) * 1e6 + time.tv_usec; }

// reap(pid, out: Float64Array(8)): returns whether the child had exited. Fills in: exit code or -1, signal or 0, user
// µs, system µs, major faults, involuntary switches, blocks of 512 bytes read, and written.
METHOD(reap) {
  ARGUMENTS(2);
  int32_t pid;
  CHECK(read_int(env, arguments[0], &pid));
  napi_typedarray_type type;
  size_t length;
  void* data;
  TRY(napi_get_typedarray_info(env, arguments[1], &type, &length, &data, nullptr, nullptr));
  if (type != napi_float64_array || length < 8) return throw_errno(env, "wait4", EINVAL);
  int status;
  struct rusage usage;
  pid_t reaped;
  do reaped = wait4(pid, &status, WNOHANG, &usage);
  while (reaped < 0 && errno == EINTR);
  bool has_ended = reaped == pid;
  if (has_ended) {
    double* out = static_cast<double*>(data);
    out[0] = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    out[1] = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    out[2] = microseconds(usage.ru_utime);
    out[3] = microseconds(usage.ru_stime);
    out[4] = static_cast<double>(usage.ru_majflt);
    out[5] = static_cast<double>(usage.ru_nivcsw);
    out[6] = static_cast<double>(usage.ru_inblock);
    out[7] = static_cast<double>(usage.ru_oublock);
  }
  napi_value result;
  TRY(napi_get_boolean(env, has_ended, &result));
  return result;
}

// kill(pid, signal): 0, or -errno; a negative pid is a process group
METHOD(send_signal) {
  ARGUMENTS(2);
  int32_t pid, signal;
  CHECK(read_int(env, arguments[0], &pid));
  CHECK(read_int(env, arguments[1], &signal));
  return to_number(env, kill(pid, signal) < 0 ? -errno : 0);
}

}  // namespace

bool add_children(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"childEvents", child_events}, {"peekEnded", peek_ended}, {"reap", reap}, {"kill", send_signal}};
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
