// Aborts TCP connections: of a copied guest, as their peers communicate with the snapshotted guest, and of a guest that
// was paused, as far as the network has forgotten them.
#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <set>
#include <vector>

#include "napi.h"

namespace {

constexpr uint32_t ALL_BUT_LISTENING = 0xfff & ~(1U << TCP_LISTEN);
// A program may wait for the peer; a connect tries again by itself.
constexpr uint32_t OPEN = 1U << TCP_ESTABLISHED | 1U << TCP_FIN_WAIT1 | 1U << TCP_FIN_WAIT2 | 1U << TCP_CLOSE_WAIT;

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

// One end of a connection, as in the protocol: the own port, the peer's port and IPv4 address, in network order.
using Peer = std::array<uint8_t, 8>;

// False for a connection without an IPv4 address of its own at that address, or with itself.
bool find_peer(const inet_diag_msg& socket, const uint8_t* own, Peer* peer) {
  size_t at = 0;
  if (socket.idiag_family != AF_INET) {
    in6_addr address;
    memcpy(&address, socket.id.idiag_src, sizeof address);
    if (!IN6_IS_ADDR_V4MAPPED(&address)) return false;
    at = 3;
  }
  if (memcmp(&socket.id.idiag_src[at], own, 4) != 0 || memcmp(&socket.id.idiag_dst[at], own, 4) == 0) return false;
  memcpy(peer->data(), &socket.id.idiag_sport, 2);
  memcpy(peer->data() + 2, &socket.id.idiag_dport, 2);
  memcpy(peer->data() + 4, &socket.id.idiag_dst[at], 4);
  return true;
}

// Keeps connections within the guest, or all but those of `own` that are not in `kept`.
struct Choice {
  const uint8_t* own = nullptr;
  std::set<Peer> kept;

  bool aborts(const inet_diag_msg& socket) const {
    if (own == nullptr) return !is_loopback(socket);
    Peer peer;
    return find_peer(socket, own, &peer) && kept.count(peer) == 0;
  }
};

int list_sockets(int fd, uint8_t family, const Choice& choice, std::vector<inet_diag_req_v2>* sockets) {
  inet_diag_req_v2 request = {};
  request.sdiag_family = family;
  request.sdiag_protocol = IPPROTO_TCP;
  request.idiag_states = choice.own == nullptr ? ALL_BUT_LISTENING : OPEN;
  if (!send_request(fd, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, request)) return errno;
  return read_answers(fd, [&](const inet_diag_msg& found) {
    if (!choice.aborts(found)) return;
    inet_diag_req_v2 one = {};
    one.sdiag_family = found.idiag_family;
    one.sdiag_protocol = IPPROTO_TCP;
    one.id = found.id;
    sockets->push_back(one);
  });
}

napi_value abort_chosen(napi_env env, const Choice& choice) {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (fd < 0) return throw_errno(env, "socket NETLINK_SOCK_DIAG", errno);
  std::vector<inet_diag_req_v2> sockets;
  int error = list_sockets(fd, AF_INET, choice, &sockets);
  if (!error) error = list_sockets(fd, AF_INET6, choice, &sockets);
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

// abortConnections(): returns their number. Connections within the guest stay. Programs get ECONNABORTED at once.
METHOD(abort_connections) {
  (void)info;
  return abort_chosen(env, {});
}

// abortForgotten(address, kept): the same for open connections of that address that are not in `kept`.
METHOD(abort_forgotten) {
  ARGUMENTS(2);
  uint8_t *own, *kept;
  size_t own_size, kept_size;
  CHECK(read_bytes(env, arguments[0], &own, &own_size) && read_bytes(env, arguments[1], &kept, &kept_size));
  if (own_size != 4) return throw_errno(env, "abort connections", EINVAL);
  Choice choice;
  choice.own = own;
  Peer peer;
  for (size_t at = 0; at + peer.size() <= kept_size; at += peer.size()) {
    memcpy(peer.data(), kept + at, peer.size());
    choice.kept.insert(peer);
  }
  return abort_chosen(env, choice);
}

}  // namespace

bool add_connections(napi_env env, napi_value exports) {
  const Method methods[] = {{"abortConnections", abort_connections}, {"abortForgotten", abort_forgotten}};
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
