// The guest's side of virtio-vsock.
#include <sys/socket.h>
// After the header that it uses without including it.
#include <linux/vm_sockets.h>
#include <unistd.h>

#include "napi.h"

namespace {

// listenVsock(port): a non-blocking listening descriptor
METHOD(listen_vsock) {
  ARGUMENTS(1);
  int32_t port;
  CHECK(read_int(env, arguments[0], &port));
  int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return throw_errno(env, "socket AF_VSOCK", errno);
  sockaddr_vm address = {};
  address.svm_family = AF_VSOCK;
  address.svm_cid = VMADDR_CID_ANY;
  address.svm_port = static_cast<unsigned>(port);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) < 0 || listen(fd, 16) < 0) {
    int error = errno;
    close(fd);
    return throw_errno(env, "bind AF_VSOCK", error);
  }
  return to_number(env, fd);
}

// acceptVsock(listener, cid): a connection from that context id, or -EAGAIN. Other connections are refused.
METHOD(accept_vsock) {
  ARGUMENTS(2);
  int32_t listener, cid;
  CHECK(read_int(env, arguments[0], &listener));
  CHECK(read_int(env, arguments[1], &cid));
  for (;;) {
    sockaddr_vm peer = {};
    socklen_t size = sizeof peer;
    int fd = accept4(listener, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0 && peer.svm_cid == static_cast<unsigned>(cid)) return to_number(env, fd);
    if (fd >= 0) close(fd);
    else if (errno == EAGAIN) return to_number(env, -EAGAIN);
    else if (errno != EINTR && errno != ECONNABORTED) return throw_errno(env, "accept4", errno);
  }
}

}  // namespace

bool add_vsock(napi_env env, napi_value exports) {
  const Method methods[] = {{"listenVsock", listen_vsock}, {"acceptVsock", accept_vsock}};
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
