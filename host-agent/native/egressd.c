// Relays the connections of a guest whose rules are bound to names: it reads the name that a connection is for, asks
// the daemon, and connects to that name's own address, whatever the address was that the guest used. It lives in the
// network namespace of the sandbox, has no privileges, secrets or files once it listens, and runs until it is killed,
// independent of the daemon. Without a daemon, only names that were judged within the last seconds pass. Prints `ready`
// on its standard output, or an error on its standard error, and then exits with 1.
//
// usage: egressd UID PIN ADDRESS PORT CONTROL GATE
//   UID      user and group id of no other process: the rules of the namespace let only this user connect
//   PIN      file of the network namespace
//   ADDRESS  of that namespace, to listen on; rules redirect the guest's connections to PORT there
//   CONTROL  path of a unix socket for root; the latest connection to it is the daemon's
//   GATE     path of a unix socket for all users who can reach it; its connections are the gateway's (egressd-gate.h)
//
// Lines to the daemon, of words; `-` is an absent one:
//   ask ID KIND NAME PORT          may this connection pass? KIND: tls, tls+ech, http, postgres; with +dial: the
//                                  gateway wants it for a connection that it reads, of KIND+read from then on
//   end ID VERDICT REASON KIND NAME ADDRESS PORT UP DOWN MS TAG
//                                  a connection is over; ADDRESS: where it led, or was meant to
//   lost COUNT                     so many are over of which nothing else is reported
//   flow ID KIND NAME PORT         one for each connection that had a verdict, then `flows`
//   synced WORD                    everything before it is done
// Lines from the daemon:
//   yes ID SECONDS TAG ADDRESS…    it may, to these; the verdict holds that long for others like it
//   read ID SECONDS TAG            the gateway has to read it; holds for others as long as a gateway waits for them
//   no ID REASON TAG · close ID REASON TAG
//   list                           forgets all verdicts, and lists what had one
//   sync WORD
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
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

#include "egressd-name.h"
#include "egressd-hello.h"
#include "egressd-head.h"
#include "egressd-link.h"

enum { BACKLOG = 512, MAX_LINKS = 1024, BUFFER_BYTES = 65536, MAX_EVENTS = 64, TICK_MS = 250 };
/** Of the gateway: one to a server for each of the guest, and some that wait or begin. */
enum { MAX_GATE = MAX_LINKS + 256 };
/** New connections: a burst, and how many a second. */
enum { BURST = 400, PER_S = 100 };
/** Of the kernel, for each direction of a socket: by itself it takes several MiB. */
enum { KERNEL_BYTES = 256 * 1024 };
enum { HELLO_MS = 5000, HEAD_MS = 10000, ANSWER_MS = 10000, DIAL_MS = 5000, LINGER_MS = 2000, IDLE_MS = 3600 * 1000 };

/** How a client of Postgres asks for TLS. */
static const unsigned char SSL_REQUEST[8] = {0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f};

static int poller, link_count, gate_count;
/** A link is over, and not freed yet. */
static bool has_over;
static struct link *links;
static unsigned long long next_id = 1, lost;
static struct side listener = {.sock = -1};

static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static _Noreturn void die(const char *what, const char *about) {
  fprintf(stderr, "%s %s: %s\n", what, about, strerror(errno));
  exit(1);
}

static void watch(struct side *side, uint32_t events) {
  if (side->sock < 0 || (side->is_watched && side->events == events) || (!side->is_watched && events == 0)) return;
  struct epoll_event event = {.events = events, .data.ptr = side};
  // A socket that is watched for nothing would still report its end, again and again.
  int operation = !side->is_watched ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  epoll_ctl(poller, operation, side->sock, &event);
  side->is_watched = events != 0;
  side->events = events;
}

static bool say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *KINDS[] = {"-", "tls", "tls+ech", "http", "postgres"}, *ROLES[] = {"", "+read", "+gate", "+dial"};

static void end_socket(struct side *side, bool is_reset) {
  struct linger at_once = {.l_onoff = 1, .l_linger = 0};
  if (side->sock < 0) return;
  if (is_reset) setsockopt(side->sock, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(side->sock);
  side->sock = -1;
}

static void limit_buffers(int sock) {
  int bytes = KERNEL_BYTES;
  setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

/** Is freed after the current batch of events. */
static void finish(struct link *link, const char *verdict, const char *reason, bool is_reset) {
  char address[INET_ADDRSTRLEN] = "-";
  if (link->is_over) return;
  link->is_over = has_over = true;
  end_socket(&link->client, is_reset);
  end_socket(&link->server, is_reset);
  bool is_gateways = link->role == GATE || link->role == DIAL;
  *(is_gateways ? &gate_count : &link_count) -= 1;
  if (link->stage == LINGERING || is_gateways) return;
  inet_ntop(AF_INET, &link->address, address, sizeof address);
  bool is_said = say("end %llu %s %s %s%s %s %s %d %llu %llu %lld %s\n", link->id, verdict, reason,
                     KINDS[link->kind], ROLES[link->role], *link->name == '\0' ? "-" : link->name, address, link->port, link->client.bytes,
                     link->server.bytes, now_ms() - link->started, *link->tag == '\0' ? "-" : link->tag);
  if (!is_said) lost++;
}

/** Of little, to one whose buffers are empty. */
static bool tell(struct link *link, const char *text) {
  ssize_t length = strlen(text);
  return send(link->client.sock, text, length, MSG_NOSIGNAL) == length;
}

/** `status`: of the answer that a client of HTTP gets; 0: a reset. */
static void refuse(struct link *link, const char *reason, int status) {
  if (link->is_over) return;
  if (link->role == DIAL && link->stage != PASSING && tell(link, "no ") && tell(link, reason)) tell(link, "\n");
  if (link->role == GATE || link->role == DIAL) status = 0;
  if (status == 0 || link->kind != HTTP || link->stage == LINGERING || link->server.to > link->server.from) {
    finish(link, "denied", reason, true);
    return;
  }
  char text[512];
  int length = snprintf(text, sizeof text,
                        "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n"
                        "sandbox network: %s\n",
                        status, status == 403 ? "Forbidden" : status == 421 ? "Misdirected Request"
                                : status == 431 ? "Request Header Fields Too Large" : status == 502 ? "Bad Gateway"
                                                                                  : "Bad Request",
                        strlen(reason) + 18, reason);
  bool is_sent = length < (int)sizeof text && send(link->client.sock, text, length, MSG_NOSIGNAL) == length;
  int sock = link->client.sock;
  if (is_sent) link->client.sock = -1;
  finish(link, "denied", reason, true);
  if (!is_sent) return;
  // What it still sends is read, because a reset could overtake the answer.
  link->client.sock = sock;
  link->is_over = false;
  link_count++;
  link->stage = LINGERING;
  link->deadline = now_ms() + LINGER_MS;
  shutdown(sock, SHUT_WR);
}

static void dial_next(struct link *link) {
  while (link->next_address < link->address_count) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(link->port)};
    to.sin_addr = link->address = link->addresses[link->next_address++];
    end_socket(&link->server, false);
    link->server.is_watched = false;
    link->server.sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;
    setsockopt(link->server.sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(link->server.sock, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    limit_buffers(link->server.sock);
    link->deadline = now_ms() + DIAL_MS;
    if (connect(link->server.sock, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS) return;
  }
  refuse(link, "unreachable", 502);
}

static void apply_verdict(struct link *link, const struct verdict *verdict);
static void find_gateway(struct link *link);
static struct link *find_waiting(void);
#include "egressd-control.h"

static void apply_verdict(struct link *link, const struct verdict *verdict) {
  strcpy(link->tag, verdict->tag);
  if (verdict->is_read) {
    link->role = READ;
    find_gateway(link);
    return;
  }
  memcpy(link->addresses, verdict->addresses, sizeof link->addresses);
  link->address_count = verdict->count;
  link->stage = DIALLING;
  dial_next(link);
}

#include "egressd-judge.h"

static void read_gate(struct link *link);
#include "egressd-relay.h"

static struct link *add_link(int sock);
#include "egressd-gate.h"

/** Whether a new connection is within the rate. */
static bool is_within_rate(void) {
  static long long tokens_at, tokens = BURST * 1000LL;
  long long now = now_ms();
  tokens += (now - tokens_at) * PER_S;
  if (tokens > BURST * 1000LL) tokens = BURST * 1000LL;
  tokens_at = now;
  if (tokens < 1000) return false;
  tokens -= 1000;
  return true;
}

/** NULL without memory. */
static struct link *add_link(int sock) {
  struct link *link = calloc(1, sizeof *link);
  unsigned char *buffers = link == NULL ? NULL : malloc(2 * BUFFER_BYTES);
  if (buffers == NULL) {
    free(link);
    return NULL;
  }
  long long now = now_ms();
  *link = (struct link){.id = next_id++, .started = now, .deadline = now + HELLO_MS, .next = links, .previous = &links};
  link->client = (struct side){.sock = sock, .link = link, .buffer = buffers};
  link->server = (struct side){.sock = -1, .link = link, .buffer = buffers + BUFFER_BYTES};
  if (links != NULL) links->previous = &link->next;
  links = link;
  return link;
}

static void welcome(void) {
  struct sockaddr_in original;
  socklen_t length = sizeof original;
  int client = accept4(listener.sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (client < 0) return;
  bool has_room = link_count < MAX_LINKS && is_within_rate();
  bool is_redirected = getsockopt(client, SOL_IP, SO_ORIGINAL_DST, &original, &length) == 0;
  struct link *link = has_room && is_redirected ? add_link(client) : NULL;
  if (link == NULL) {
    struct side refused = {.sock = client};
    lost++;
    end_socket(&refused, true);
    return;
  }
  link->address = original.sin_addr;
  link->port = ntohs(original.sin_port);
  link_count++;
  int on = 1;
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  watch_link(link);
}

static void expire(struct link *link, long long now) {
  bool is_late_head = link->head_until != 0 && now > link->head_until;
  if (!is_late_head && now <= link->deadline) return;
  if (link->stage == LINGERING) finish(link, "denied", "-", true);
  else if (link->stage == READING) refuse(link, link->kind == UNKNOWN ? "silent" : "slow", 0);
  else if (link->stage == LINE) finish(link, "denied", "-", false);
  else if (link->stage == ASKING) refuse(link, "no-answer", 502);
  else if (link->stage == HANDING) refuse(link, "no-gateway", 502);
  else if (link->stage == DIALLING) dial_next(link);
  else if (link->stage == GREETING) refuse(link, "unreachable", 0);
  else if (is_late_head) refuse(link, "slow", 0);
  else finish(link, "allowed", "idle", true);
  if (!link->is_over) watch_link(link);
}

static void bury(void) {
  if (!has_over) return;
  has_over = false;
  for (struct link *link = links, *next; link != NULL; link = next) {
    next = link->next;
    if (!link->is_over) continue;
    *link->previous = next;
    if (next != NULL) next->previous = link->previous;
    free(link->client.buffer);
    free(link);
  }
}

#include "egressd-filter.h"
#include "egressd-setup.h"

int main(int count, char **args) {
  if (count != 7) {
    fprintf(stderr, "usage: egressd UID PIN ADDRESS PORT CONTROL GATE\n");
    return 2;
  }
  // A library of the daemon may have left files open.
  if (close_range(3, ~0U, 0) < 0) die("close", "files");
  struct rlimit files = {.rlim_cur = 2 * (MAX_LINKS + MAX_GATE) + 64, .rlim_max = 2 * (MAX_LINKS + MAX_GATE) + 64};
  setrlimit(RLIMIT_NOFILE, &files);
  signal(SIGPIPE, SIG_IGN);
  poller = epoll_create1(EPOLL_CLOEXEC);
  open_port(&control_port, args[5]);
  open_port(&gate_port, args[6]);
  if (chmod(args[6], 0666) < 0) die("open", args[6]);
  enter(args[2]);
  drop_privileges(args[1]);
  open_listener(args[3], args[4]);
  printf("ready\n");
  fflush(stdout);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd <= 2; fd++) dup2(null, fd);
  if (filter_calls() < 0) return 1;
  for (long long checked = 0;;) {
    struct epoll_event events[MAX_EVENTS];
    bool is_idle = links == NULL && (lost == 0 || control.sock < 0);
    int happened = epoll_wait(poller, events, MAX_EVENTS, is_idle ? -1 : TICK_MS);
    bool has_control = false, is_controlled = false, is_asked = false, has_gate = false;
    for (int at = 0; at < happened; at++) {
      struct side *side = events[at].data.ptr;
      if (side == &control_port) has_control = true;
      else if (side == &control) is_controlled = true;
      else if (side == &listener) is_asked = true;
      else if (side == &gate_port) has_gate = true;
      else handle(side, events[at].events);
    }
    long long now = now_ms();
    if (now - checked >= TICK_MS) {
      for (struct link *link = links; link != NULL; link = link->next)
        if (!link->is_over) expire(link, now);
      if (lost > 0 && say("lost %llu\n", lost)) lost = 0;
      checked = now;
    }
    if (is_controlled && control.sock >= 0) obey();
    if (has_control) welcome_control();
    if (is_asked) welcome();
    if (has_gate) welcome_gate();
    // Verdicts may have changed any of them.
    for (struct link *link = is_controlled || has_control ? links : NULL; link != NULL; link = link->next)
      if (!link->is_over) watch_link(link);
    bury();
    flush_control();
  }
}
