// TCP connections of the agent to servers in its guest. A failed call returns -errno, and throws nothing.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <unistd.h>

#include "napi.h"

namespace {

// The owner of the sockets, as firewalls and programs of the guest see it ("nobody"): a connection from outside must
// not be taken for one of root.
constexpr unsigned kOwner = 65534;

struct Address {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  bool is_loopback = false;
};

bool parse(const std::string& text, int port, Address* address) {
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address->storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address->storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    address->size = sizeof *v4;
    address->is_loopback = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    return true;
  }
  if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) != 1) return false;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(static_cast<uint16_t>(port));
  address->size = sizeof *v6;
  address->is_loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
  return true;
}

// Binds to the address that will be connected to, which fails unless it is one of this guest.
int bind_to(int fd, Address own) {
  int on = 1;
  setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  if (own.storage.ss_family == AF_INET) reinterpret_cast<sockaddr_in*>(&own.storage)->sin_port = 0;
  else reinterpret_cast<sockaddr_in6*>(&own.storage)->sin6_port = 0;
  return bind(fd, reinterpret_cast<sockaddr*>(&own.storage), own.size);
}

int open_socket(int family) {
  setfsgid(kOwner);
  setfsuid(kOwner);
  int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int error = errno;
  setfsuid(0);
  setfsgid(0);
  errno = error;
  return fd;
}

// connectPort(address, port): begins a connection within the guest. Returns its descriptor.
METHOD(connect_port) {
  ARGUMENTS(2);
  std::string text;
  int32_t port;
  CHECK(read_string(env, arguments[0], &text));
  CHECK(read_int(env, arguments[1], &port));
  Address address;
  if (!parse(text, port, &address)) return to_number(env, -EINVAL);
  int fd = open_socket(address.storage.ss_family);
  if (fd < 0) return to_number(env, -errno);
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  int result = address.is_loopback ? 0 : bind_to(fd, address);
  if (result == 0) result = connect(fd, reinterpret_cast<sockaddr*>(&address.storage), address.size);
  if (result == 0 || errno == EINPROGRESS) return to_number(env, fd);
  int error = errno;
  close(fd);
  return to_number(env, -error);
}

// portConnected(fd): 0 once the connection is established, otherwise why it is not
METHOD(port_connected) {
  ARGUMENTS(1);
  int32_t fd;
  CHECK(read_int(env, arguments[0], &fd));
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0) error = errno;
  if (error != 0) return to_number(env, -error);
  sockaddr_storage ours = {}, theirs = {};
  socklen_t our_size = sizeof ours, their_size = sizeof theirs;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&ours), &our_size) < 0) return to_number(env, -errno);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&theirs), &their_size) < 0) return to_number(env, -errno);
  // Where nothing listens, a socket may get the very port that it connects to, and then reaches itself.
  if (our_size == their_size && memcmp(&ours, &theirs, our_size) == 0) return to_number(env, -ECONNREFUSED);
  return to_number(env, 0);
}

// receive(fd, buffer, offset, length): one call, because the kernel reports a reset once: bytes, 0 at the end
METHOD(receive) {
  ARGUMENTS(4);
  int32_t fd;
  uint8_t* data;
  size_t size;
  CHECK(read_int(env, arguments[0], &fd));
  CHECK(read_range(env, arguments + 1, &data, &size));
  ssize_t got;
  do got = recv(fd, data, size, 0);
  while (got < 0 && errno == EINTR);
  return to_number(env, got < 0 ? -errno : static_cast<double>(got));
}

// send(fd, buffer, offset, length): bytes
METHOD(send_some) {
  ARGUMENTS(4);
  int32_t fd;
  uint8_t* data;
  size_t size;
  CHECK(read_int(env, arguments[0], &fd));
  CHECK(read_range(env, arguments + 1, &data, &size));
  ssize_t put;
  do put = send(fd, data, size, MSG_NOSIGNAL);
  while (put < 0 && errno == EINTR);
  return to_number(env, put < 0 ? -errno : static_cast<double>(put));
}

// endSending(fd): 0
METHOD(end_sending) {
  ARGUMENTS(1);
  int32_t fd;
  CHECK(read_int(env, arguments[0], &fd));
  return to_number(env, shutdown(fd, SHUT_WR) < 0 ? -errno : 0);
}

// resetAndClose(fd)
METHOD(reset_and_close) {
  ARGUMENTS(1);
  int32_t fd;
  CHECK(read_int(env, arguments[0], &fd));
  linger at_once = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(fd);
  return undefined(env);
}

}  // namespace

bool add_ports(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"connectPort", connect_port}, {"portConnected", port_connected}, {"receive", receive},
      {"send", send_some},           {"endSending", end_sending},       {"resetAndClose", reset_and_close},
  };
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
