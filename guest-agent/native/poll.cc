// The poll loop: an epoll set of the agent, watched by Node's event loop. Libuv polls only level-triggered, which
// would spin on a virtio-serial port whose host is disconnected (POLLHUP persists). Here each watch chooses EPOLLET. A
// wake-up costs one call into JavaScript for all ready descriptors. There are no threads.
#include <sys/epoll.h>
#include <unistd.h>
#include <uv.h>

#include "napi.h"

namespace {

constexpr int kBatch = 64;

struct Poller {
  napi_env env;
  int epoll_fd;
  uv_poll_t handle;
  napi_ref callback;
  napi_ref events;  // Uint32Array of kBatch pairs: watch id, event mask
  napi_async_context context;
};

Poller* poller;

void report(napi_env env) {
  napi_value exception;
  if (napi_get_and_clear_last_exception(env, &exception) == napi_ok) napi_fatal_exception(env, exception);
}

bool deliver(Poller* self, const epoll_event* ready, int count) {
  napi_env env = self->env;
  napi_value events, callback, receiver, argument, ignored;
  napi_typedarray_type type;
  size_t length;
  void* data;
  if (napi_get_reference_value(env, self->events, &events) != napi_ok) return false;
  if (napi_get_typedarray_info(env, events, &type, &length, &data, nullptr, nullptr) != napi_ok) return false;
  uint32_t* pairs = static_cast<uint32_t*>(data);
  for (int i = 0; i < count; i++) {
    pairs[2 * i] = static_cast<uint32_t>(ready[i].data.u64);
    pairs[2 * i + 1] = ready[i].events;
  }
  if (napi_get_reference_value(env, self->callback, &callback) != napi_ok) return false;
  if (napi_get_global(env, &receiver) != napi_ok) return false;
  if (napi_create_int32(env, count, &argument) != napi_ok) return false;
  return napi_make_callback(env, self->context, receiver, callback, 1, &argument, &ignored) == napi_ok;
}

void on_ready(uv_poll_t* handle, int, int) {
  Poller* self = static_cast<Poller*>(handle->data);
  epoll_event ready[kBatch];
  int count = epoll_wait(self->epoll_fd, ready, kBatch, 0);
  if (count <= 0) return;
  napi_handle_scope scope;
  if (napi_open_handle_scope(self->env, &scope) != napi_ok) return;
  if (!deliver(self, ready, count)) report(self->env);
  napi_close_handle_scope(self->env, scope);
}

void on_closed(uv_handle_t* handle) {
  Poller* self = static_cast<Poller*>(handle->data);
  close(self->epoll_fd);
  delete self;
}

// startPolling(events: Uint32Array, callback: (count) => void)
METHOD(start_polling) {
  ARGUMENTS(2);
  if (poller) return throw_errno(env, "epoll_create1", EBUSY);
  napi_typedarray_type type;
  size_t length;
  TRY(napi_get_typedarray_info(env, arguments[0], &type, &length, nullptr, nullptr, nullptr));
  if (type != napi_uint32_array || length < 2 * kBatch) return throw_errno(env, "epoll_wait", EINVAL);
  uv_loop_t* loop;
  TRY(napi_get_uv_event_loop(env, &loop));
  napi_value name;
  TRY(napi_create_string_utf8(env, "sandbox-agent:poll", NAPI_AUTO_LENGTH, &name));

  int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd < 0) return throw_errno(env, "epoll_create1", errno);
  Poller* self = new Poller{};
  self->env = env;
  self->epoll_fd = epoll_fd;
  self->handle.data = self;
  int error = uv_poll_init(loop, &self->handle, epoll_fd);
  if (error) {
    close(epoll_fd);
    delete self;
    return throw_errno(env, "uv_poll_init", -error);
  }
  poller = self;
  TRY(napi_create_reference(env, arguments[0], 1, &self->events));
  TRY(napi_create_reference(env, arguments[1], 1, &self->callback));
  TRY(napi_async_init(env, nullptr, name, &self->context));
  error = uv_poll_start(&self->handle, UV_READABLE, on_ready);
  if (error) return throw_errno(env, "uv_poll_start", -error);
  return undefined(env);
}

// stopPolling()
METHOD(stop_polling) {
  (void)info;
  if (!poller) return undefined(env);
  Poller* self = poller;
  poller = nullptr;
  uv_poll_stop(&self->handle);
  TRY(napi_delete_reference(env, self->events));
  TRY(napi_delete_reference(env, self->callback));
  TRY(napi_async_destroy(env, self->context));
  uv_close(reinterpret_cast<uv_handle_t*>(&self->handle), on_closed);
  return undefined(env);
}

napi_value control(napi_env env, int operation, napi_value fd_value, napi_value id_value, napi_value mask_value) {
  int32_t fd = -1;
  double id = 0, mask = 0;
  CHECK(read_int(env, fd_value, &fd));
  if (id_value) CHECK(read_double(env, id_value, &id));
  if (mask_value) CHECK(read_double(env, mask_value, &mask));
  if (!poller) return throw_errno(env, "epoll_ctl", EBADF);
  epoll_event event = {};
  // JavaScript's operators make the highest bit a sign, and a negative double has no defined unsigned value.
  event.events = static_cast<uint32_t>(static_cast<int64_t>(mask));
  event.data.u64 = static_cast<uint32_t>(id);
  if (epoll_ctl(poller->epoll_fd, operation, fd, &event) < 0) return throw_errno(env, "epoll_ctl", errno);
  return undefined(env);
}

// watch(fd, id, mask)
METHOD(watch) {
  ARGUMENTS(3);
  return control(env, EPOLL_CTL_ADD, arguments[0], arguments[1], arguments[2]);
}

// rewatch(fd, id, mask): a ready descriptor is reported again, even an edge-triggered one
METHOD(rewatch) {
  ARGUMENTS(3);
  return control(env, EPOLL_CTL_MOD, arguments[0], arguments[1], arguments[2]);
}

// unwatch(fd)
METHOD(unwatch) {
  ARGUMENTS(1);
  return control(env, EPOLL_CTL_DEL, arguments[0], nullptr, nullptr);
}

}  // namespace

bool add_poll(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"startPolling", start_polling}, {"stopPolling", stop_polling}, {"watch", watch},
      {"rewatch", rewatch},            {"unwatch", unwatch},
  };
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
