// Holds the published ports of a sandbox: listens on them, so that no other process gets them, and proxies the
// connections that the host's rules do not forward to the guest: IPv6, and those from the host itself. It has no
// privileges once it listens, and runs until it is killed, independent of the daemon. Prints `ready` on its standard
// output, or an error on its standard error, and then exits with 1.
//
// usage: portd UID GUEST SOURCE CONTROL MODE { ADDRESS PORT GUEST-PORT }…
//   UID      user and group id of no other process: another process of the same user could take over its ports
//   GUEST    IPv4 address that connections are forwarded to, from SOURCE
//   CONTROL  path of a unix socket for root; the latest connection to it controls this process
//   MODE     what happens to new connections:
//              o  they are forwarded
//              h  they are held until the mode is o
//              r  they are refused
//   ADDRESS  address of the host, IPv4 or IPv6, to listen on
//
// A byte on the control connection is the new mode, and is sent back. `k`: the first connection is held since then.
// `c` and two bytes, the higher first, close the port with that index among those of the arguments, and end its
// connections; `c` is sent back. `x` ends all connections but those that are held, and is sent back.
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
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { BACKLOG = 512, MAX_CONNECTIONS = 2000, BUFFER_BYTES = 65536, MAX_EVENTS = 64 };
/**
 * A guest that has just booted may not listen yet: connections that were held try for this long, or for as long as they
 * were held: where a guest took that long to boot, its programs take long to start.
 */
enum { MAX_HELD = 256, RETRY_MS = 50, PATIENCE_MS = 10000 };

/** One end of a connection, or a listening port. */
struct end {
  int sock;
  /** The other end; NULL for a listening port. */
  struct end *other;
  /** For a listening port, and for the guest's end: the port in the guest. */
  int guest_port;
  /** For the guest's end: it is held since then, and may be refused until then, in milliseconds. */
  long long held_since, patient_until;
  bool is_connecting, is_broken;
  /** End of input was read, and was passed on. */
  bool is_read_out, is_shut;
  /** Range of the buffer that was read from it and not yet written to the other end. */
  size_t from, to;
  char *buffer;
  struct end *next_dead;
  /** For the client's end: its port, and its neighbours in the list of all. */
  struct end *port, *next, **previous;
};

static int poller;
static int connections;
static struct sockaddr_in guest, source;
static struct end *dead;
static struct end *clients;
/** Listening ports, as in the arguments; NULL for one that is closed. */
static struct end **ports;
static int port_count;
static char mode;
/** Guest's ends without a socket: they are held, or are to be connected again. */
static struct end *waiting[MAX_HELD];
static int waiting_count;
static long long next_try;
/** Only their addresses and sockets are used. */
static struct end control_port, control = {.sock = -1};
static bool has_knocked;

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
  if (sock < 0 && errno == EAFNOSUPPORT && strcmp(address, "::") == 0) {
    port_count++;
    return;
  }
  int on = 1;
  if (sock < 0 || setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
      (is_six && setsockopt(sock, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) < 0) ||
      bind(sock, is_six ? (void *)&six : (void *)&four, is_six ? sizeof six : sizeof four) < 0 ||
      listen(sock, BACKLOG) < 0)
    die("listen", address, port);
  struct end *end = calloc(1, sizeof *end);
  *end = (struct end){.sock = sock, .guest_port = guest_port};
  ports[port_count++] = end;
  watch(end, EPOLL_CTL_ADD);
}

static void listen_for_control(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  errno = ENAMETOOLONG;
  if (strlen(path) >= sizeof address.sun_path) die("listen", path, "control");
  strcpy(address.sun_path, path);
  unlink(path);
  control_port.sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  mode_t mask = umask(077);
  if (control_port.sock < 0 || bind(control_port.sock, (struct sockaddr *)&address, sizeof address) < 0 ||
      listen(control_port.sock, 8) < 0)
    die("listen", path, "control");
  umask(mask);
  watch(&control_port, EPOLL_CTL_ADD);
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
  for (int at = 0; at < waiting_count; at++)
    if (waiting[at] == end || waiting[at] == end->other) waiting[at--] = waiting[--waiting_count];
  for (struct end *each = end; each != NULL; each = each == end ? end->other : NULL) {
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    if (is_failure) setsockopt(each->sock, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(each->sock);
    each->is_broken = true;
    each->next_dead = dead;
    dead = each;
    if (each->port == NULL) continue;
    *each->previous = each->next;
    if (each->next != NULL) each->next->previous = each->previous;
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

#include "portd-held.h"

static void welcome(struct end *port) {
  int client = accept4(port->sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (client < 0) return;
  struct end *outer = calloc(1, sizeof *outer), *inner = calloc(1, sizeof *inner);
  *inner = (struct end){.sock = -1, .other = outer, .buffer = malloc(BUFFER_BYTES), .is_connecting = true,
                        .guest_port = port->guest_port};
  *outer = (struct end){.sock = client, .other = inner, .buffer = malloc(BUFFER_BYTES),
                        .port = port, .next = clients, .previous = &clients};
  if (clients != NULL) clients->previous = &outer->next;
  clients = outer;
  bool is_full = connections++ >= MAX_CONNECTIONS;
  if (is_full || mode == 'r') {
    end_pair(inner, !is_full);
    return;
  }
  int on = 1;
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  watch(outer, EPOLL_CTL_ADD);
  if (mode == 'h') wait_for_guest(inner);
  else dial(inner);
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
      if (mode == 'o' && end->patient_until < now_ms()) {
        end_pair(end, true);
        return;
      }
      close(end->sock);
      end->sock = -1;
      wait_for_guest(end);
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
  if (count < 9 || (count - 6) % 3 != 0) {
    fprintf(stderr, "usage: portd UID GUEST SOURCE CONTROL MODE { ADDRESS PORT GUEST-PORT }...\n");
    return 2;
  }
  // A library of the daemon may have left files open.
  if (close_range(3, ~0U, 0) < 0) die("close", "its", "files");
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
  mode = *args[5];
  listen_for_control(args[4]);
  ports = calloc(count, sizeof *ports);
  for (int at = 6; at < count; at += 3) listen_on(args[at], args[at + 1], atoi(args[at + 2]));
  signal(SIGPIPE, SIG_IGN);
  drop_privileges(uid);
  printf("ready\n");
  fflush(stdout);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd <= 2; fd++) dup2(null, fd);
  for (;;) {
    struct epoll_event events[MAX_EVENTS];
    bool is_trying = mode == 'o' && waiting_count > 0;
    int happened = epoll_wait(poller, events, MAX_EVENTS, is_trying ? RETRY_MS : -1);
    bool is_controlled = false, has_control = false;
    for (int at = 0; at < happened; at++) {
      if (events[at].data.ptr == &control) is_controlled = true;
      else if (events[at].data.ptr == &control_port) has_control = true;
      else handle(events[at].data.ptr, events[at].events);
    }
    // A later event of the batch may be of a socket that they replace.
    if (is_controlled) obey();
    if (has_control) welcome_control();
    if (is_trying && now_ms() >= next_try) settle_waiting();
    bury();
  }
}
