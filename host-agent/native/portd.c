// Holds the published ports of a sandbox: listens on them, so that no other process gets them, and proxies the
// connections that the host's rules do not forward to the guest: IPv6, and those from the host itself. It has no
// privileges once it listens, and runs until it is killed, independent of the daemon. Prints `ready` on its standard
// output, or an error on its standard error, and then exits with 1.
//
// usage: portd UID GUEST SOURCE { ADDRESS PORT GUEST-PORT }…
//   UID      user and group id of no other process: another process of the same user could take over its ports
//   GUEST    IPv4 address that connections are forwarded to, from SOURCE
//   ADDRESS  address of the host, IPv4 or IPv6, to listen on
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 512, MAX_CONNECTIONS = 2000, BUFFER_BYTES = 65536, MAX_EVENTS = 64 };

/** One end of a connection, or a listening port. */
struct end {
  int sock;
  /** The other end; NULL for a listening port. */
  struct end *other;
  /** For a listening port: the port in the guest. */
  int guest_port;
  bool is_connecting, is_broken;
  /** End of input was read, and was passed on. */
  bool is_read_out, is_shut;
  /** Range of the buffer that was read from it and not yet written to the other end. */
  size_t from, to;
  char *buffer;
  struct end *next_dead;
};

static int poller;
static int connections;
static struct sockaddr_in guest, source;
static struct end *dead;

static void die(const char *what, const char *where, const char *port) {
  fprintf(stderr, "%s %s %s: %s\n", what, where, port, strerrorname_np(errno));
  exit(1);
}

static void watch(struct end *end, int operation) {
  struct epoll_event event = {.data.ptr = end};
  bool has_room = end->to < BUFFER_BYTES && !end->is_read_out;
  struct end *other = end->other;
  if (end->other == NULL || (has_room && !end->is_connecting && !other->is_connecting)) event.events |= EPOLLIN;
  if (other != NULL && (end->is_connecting || other->to > other->from)) event.events |= EPOLLOUT;
  // A socket closed in both directions would signal EPOLLHUP endlessly while the other end is slow.
  if (operation == EPOLL_CTL_MOD && end->is_read_out && other->is_shut) operation = EPOLL_CTL_DEL;
  epoll_ctl(poller, operation, end->sock, &event);
}

static void listen_on(const char *address, const char *port, int guest_port) {
  bool is_six = strchr(address, ':') != NULL;
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(atoi(port))};
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
  errno = EINVAL;
  if (inet_pton(is_six ? AF_INET6 : AF_INET, address, is_six ? (void *)&six.sin6_addr : (void *)&four.sin_addr) != 1)
    die("listen", address, port);
  int sock = socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // A host without IPv6 has no such port that another process could take.
  if (sock < 0 && errno == EAFNOSUPPORT && strcmp(address, "::") == 0) return;
  int on = 1;
  if (sock < 0 || setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
      (is_six && setsockopt(sock, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) < 0) ||
      bind(sock, is_six ? (void *)&six : (void *)&four, is_six ? sizeof six : sizeof four) < 0 ||
      listen(sock, BACKLOG) < 0)
    die("listen", address, port);
  struct end *end = calloc(1, sizeof *end);
  *end = (struct end){.sock = sock, .guest_port = guest_port};
  watch(end, EPOLL_CTL_ADD);
}

static void drop_privileges(uid_t uid) {
  if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 ||
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || chdir("/") < 0)
    die("drop", "privileges", "");
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/** Closes both ends; they are freed after the current batch of events. */
static void end_pair(struct end *end, bool is_failure) {
  if (end->is_broken) return;
  for (struct end *each = end; each != NULL; each = each == end ? end->other : NULL) {
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    if (is_failure) setsockopt(each->sock, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(each->sock);
    each->is_broken = true;
    each->next_dead = dead;
    dead = each;
  }
  connections--;
}

static void bury(void) {
  while (dead != NULL) {
    struct end *end = dead;
    dead = end->next_dead;
    free(end->buffer);
    free(end);
  }
}

static void welcome(struct end *port) {
  int client = accept4(port->sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (client < 0) return;
  int own = connections < MAX_CONNECTIONS ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
  if (own < 0) {
    close(client);
    return;
  }
  int on = 1;
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(own, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  struct end *outer = calloc(1, sizeof *outer), *inner = calloc(1, sizeof *inner);
  *outer = (struct end){.sock = client, .other = inner, .buffer = malloc(BUFFER_BYTES)};
  *inner = (struct end){.sock = own, .other = outer, .buffer = malloc(BUFFER_BYTES), .is_connecting = true};
  connections++;
  struct sockaddr_in to = guest;
  to.sin_port = htons(port->guest_port);
  // If the source address is not available, another one works as well.
  if (bind(own, (struct sockaddr *)&source, sizeof source) < 0) errno = 0;
  bool is_failure = connect(own, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS;
  watch(outer, EPOLL_CTL_ADD);
  watch(inner, EPOLL_CTL_ADD);
  if (is_failure) end_pair(inner, true);
}

/**
 * Moves data from one end's socket to its buffer, and from there to the other end. False if the connection has ended.
 */
static bool pass(struct end *end) {
  struct end *other = end->other;
  if (!end->is_read_out && end->to < BUFFER_BYTES) {
    ssize_t got = recv(end->sock, end->buffer + end->to, BUFFER_BYTES - end->to, 0);
    if (got == 0) end->is_read_out = true;
    else if (got > 0) end->to += got;
    else if (errno != EAGAIN) return false;
  }
  if (end->to > end->from) {
    ssize_t sent = send(other->sock, end->buffer + end->from, end->to - end->from, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent > 0) end->from += sent;
    if (end->from == end->to) end->from = end->to = 0;
  }
  if (end->is_read_out && end->from == end->to && !end->is_shut) {
    shutdown(other->sock, SHUT_WR);
    end->is_shut = true;
  }
  return true;
}

static void handle(struct end *end, unsigned events) {
  if (end->is_broken) return;
  if (end->other == NULL) {
    welcome(end);
    return;
  }
  struct end *other = end->other;
  if (end->is_connecting) {
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(end->sock, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0 || (events & (EPOLLERR | EPOLLHUP)) != 0) {
      end_pair(end, true);
      return;
    }
    end->is_connecting = false;
  }
  if ((events & EPOLLERR) != 0 || (!other->is_connecting && (!pass(end) || !pass(other)))) end_pair(end, true);
  // The other end was closed while it was still connecting.
  else if (other->is_connecting && (events & EPOLLHUP) != 0) end_pair(end, true);
  else if (end->is_shut && other->is_shut) end_pair(end, false);
  else {
    watch(end, EPOLL_CTL_MOD);
    watch(other, EPOLL_CTL_MOD);
  }
}

int main(int count, char **args) {
  if (count < 7 || (count - 4) % 3 != 0) {
    fprintf(stderr, "usage: portd UID GUEST SOURCE { ADDRESS PORT GUEST-PORT }...\n");
    return 2;
  }
  char *end;
  unsigned long uid = strtoul(args[1], &end, 10);
  errno = EINVAL;
  if (*args[1] == '\0' || *end != '\0' || uid == 0) die("become", "user", args[1]);
  struct rlimit files = {2 * MAX_CONNECTIONS + 256 + count, 2 * MAX_CONNECTIONS + 256 + count};
  setrlimit(RLIMIT_NOFILE, &files);
  poller = epoll_create1(EPOLL_CLOEXEC);
  guest.sin_family = source.sin_family = AF_INET;
  errno = EINVAL;
  if (inet_pton(AF_INET, args[2], &guest.sin_addr) != 1 || inet_pton(AF_INET, args[3], &source.sin_addr) != 1)
    die("read", args[2], args[3]);
  for (int at = 4; at < count; at += 3) listen_on(args[at], args[at + 1], atoi(args[at + 2]));
  signal(SIGPIPE, SIG_IGN);
  drop_privileges(uid);
  printf("ready\n");
  fflush(stdout);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd <= 2; fd++) dup2(null, fd);
  for (;;) {
    struct epoll_event events[MAX_EVENTS];
    int happened = epoll_wait(poller, events, MAX_EVENTS, -1);
    for (int at = 0; at < happened; at++) handle(events[at].data.ptr, events[at].events);
    bury();
  }
}
