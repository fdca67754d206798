// Aborts the TCP connections of a copied guest: their peers communicate with the snapshotted guest.
#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "napi.h"

namespace {

constexpr uint32_t ALL_BUT_LISTENING = 0xfff & ~(1U << TCP_LISTEN);

struct Message {
  nlmsghdr header;
  inet_diag_req_v2 request;
};

bool send_request(int fd, uint16_t type, uint16_t flags, const inet_diag_req_v2& request) {
  Message message = {};
  message.header.nlmsg_len = sizeof message;
  message.header.nlmsg_type = type;
  message.header.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  message.request = request;
  return send(fd, &message, sizeof message, 0) == sizeof message;
}

bool is_loopback(const inet_diag_msg& socket) {
  const uint32_t* source = socket.id.idiag_src;
  if (socket.idiag_family == AF_INET) return ntohl(source[0]) >> 24 == 127;
  in6_addr address;
  memcpy(&address, source, sizeof address);
  if (IN6_IS_ADDR_V4MAPPED(&address)) return ntohl(source[3]) >> 24 == 127;
  return IN6_IS_ADDR_LOOPBACK(&address);
}

// Reads netlink replies until the last one and calls `each` for a socket. Returns 0 or an error number.
template <typename Each>
int read_answers(int fd, Each each) {
  alignas(nlmsghdr) char buffer[16384];
  for (;;) {
    ssize_t got = recv(fd, buffer, sizeof buffer, 0);
    if (got < 0) return errno;
    size_t left = static_cast<size_t>(got);
    for (nlmsghdr* at = reinterpret_cast<nlmsghdr*>(buffer); NLMSG_OK(at, left); at = NLMSG_NEXT(at, left)) {
      if (at->nlmsg_type == NLMSG_DONE) return 0;
      if (at->nlmsg_type == NLMSG_ERROR) return -static_cast<nlmsgerr*>(NLMSG_DATA(at))->error;
      each(*static_cast<inet_diag_msg*>(NLMSG_DATA(at)));
    }
  }
}

int list_sockets(int fd, uint8_t family, std::vector<inet_diag_req_v2>* sockets) {
  inet_diag_req_v2 request = {};
  request.sdiag_family = family;
  request.sdiag_protocol = IPPROTO_TCP;
  request.idiag_states = ALL_BUT_LISTENING;
  if (!send_request(fd, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, request)) return errno;
  return read_answers(fd, [&](const inet_diag_msg& found) {
    if (is_loopback(found)) return;
    inet_diag_req_v2 one = {};
    one.sdiag_family = found.idiag_family;
    one.sdiag_protocol = IPPROTO_TCP;
    one.id = found.id;
    sockets->push_back(one);
  });
}

// abortConnections(): returns their number. Connections within the guest stay. Programs get ECONNABORTED at once.
METHOD(abort_connections) {
  (void)info;
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (fd < 0) return throw_errno(env, "socket NETLINK_SOCK_DIAG", errno);
  std::vector<inet_diag_req_v2> sockets;
  int error = list_sockets(fd, AF_INET, &sockets);
  if (!error) error = list_sockets(fd, AF_INET6, &sockets);
  for (const auto& one : sockets) {
    if (error) break;
    if (!send_request(fd, SOCK_DESTROY, NLM_F_ACK, one)) error = errno;
    else error = read_answers(fd, [](const inet_diag_msg&) {});
    // The connection was closed meanwhile.
    if (error == ENOENT) error = 0;
  }
  close(fd);
  if (error) return throw_errno(env, "abort connections", error);
  return to_number(env, static_cast<double>(sockets.size()));
}

}  // namespace

bool add_connections(napi_env env, napi_value exports) {
  const Method methods[] = {{"abortConnections", abort_connections}};
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
