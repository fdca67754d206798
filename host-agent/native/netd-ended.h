// Part of netd.c: connections that a guest opened, when they are over, as the kernel has counted them. A guest decides
// how many there are: what is read at once and what is reported are bounded for each.
#include <endian.h>
#include <time.h>

/** Reports a second and at once, as many as the egress log keeps; beyond, they are counted. */
enum { ENDED_PER_S = 50, ENDED_BURST = 400, ENDED_READS = 16, ENDED_BUFFER = 512 << 10 };
/** How long the kernel keeps what is over, by the states of TCP; the first is set for each namespace. */
enum { TIME_WAIT_S = 10, CLOSE_S = 10 };
/** Between looks at what was missed, and at entries that are over. */
enum { RETRY_MS = 1000, EXPIRE_MS = 5000 };

struct ended {
  int sock;
  struct in_addr guest;
  double budget, filled_at;
  unsigned missed;
};

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}

/** In the guest's namespace, before its first connection. */
static void count_traffic(void) {
  write_setting(false, "1", "/proc/sys/net/netfilter/nf_conntrack_acct");
  write_setting(false, "1", "/proc/sys/net/netfilter/nf_conntrack_timestamp");
  char seconds[16];
  snprintf(seconds, sizeof seconds, "%d", TIME_WAIT_S);
  write_setting(false, seconds, "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait");
}

/** In the guest's namespace. */
static struct ended watch_ended(struct in_addr guest) {
  int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER);
  if (sock < 0) fail("open a netlink socket");
  int size = ENDED_BUFFER, group = NFNLGRP_CONNTRACK_DESTROY;
  setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
  // One without an address of its own gets no events.
  struct sockaddr_nl own = {.nl_family = AF_NETLINK};
  bool is_bound = bind(sock, (struct sockaddr *)&own, sizeof own) == 0;
  if (!is_bound || setsockopt(sock, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) < 0) {
    close(sock);
    fail("watch tracked connections");
  }
  return (struct ended){.sock = sock, .guest = guest, .budget = ENDED_BURST, .filled_at = now_s()};
}

static bool take_budget(struct ended *ended) {
  double now = now_s();
  ended->budget += (now - ended->filled_at) * ENDED_PER_S;
  if (ended->budget > ENDED_BURST) ended->budget = ENDED_BURST;
  ended->filled_at = now;
  if (ended->budget < 1) return false;
  ended->budget -= 1;
  return true;
}

static uint64_t number_of(struct rtattr *first, int length, int outer, int inner) {
  struct rtattr *nest = find_attribute(first, length, outer);
  struct rtattr *at = nest == NULL ? NULL : find_attribute(RTA_DATA(nest), RTA_PAYLOAD(nest), inner);
  uint64_t value = 0;
  if (at != NULL && RTA_PAYLOAD(at) == sizeof value) memcpy(&value, RTA_DATA(at), sizeof value);
  return be64toh(value);
}

/** In milliseconds, as the guest saw it; 0 if that is not known. Only TCP has an end. */
static uint64_t duration_of(struct rtattr *first, int length, const struct flow *flow) {
  uint64_t start = number_of(first, length, CTA_TIMESTAMP, CTA_TIMESTAMP_START);
  uint64_t stop = number_of(first, length, CTA_TIMESTAMP, CTA_TIMESTAMP_STOP);
  uint64_t kept_ms = flow->state == TCP_CONNTRACK_TIME_WAIT ? TIME_WAIT_S * 1000
                     : flow->state == TCP_CONNTRACK_CLOSE   ? CLOSE_S * 1000
                                                            : 0;
  if (flow->protocol != IPPROTO_TCP || start == 0 || stop < start) return 0;
  uint64_t ms = (stop - start) / 1000000;
  return ms > kept_ms ? ms - kept_ms : 1;
}

static void tell_ended(struct ended *ended, struct nlmsghdr *header) {
  struct flow flow;
  // What a program removed, rather than time, is reported by who removed it.
  if (header->nlmsg_type != (NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE) || header->nlmsg_pid != 0) return;
  if (!read_flow(header, ended->guest, &flow)) return;
  if (!take_budget(ended)) {
    ended->missed++;
    return;
  }
  struct rtattr *first = (struct rtattr *)((char *)NLMSG_DATA(header) + NLMSG_ALIGN(sizeof(struct nfgenmsg)));
  int length = (int)header->nlmsg_len - (int)NLMSG_LENGTH(sizeof(struct nfgenmsg));
  unsigned long long up = number_of(first, length, CTA_COUNTERS_ORIG, CTA_COUNTERS_BYTES);
  unsigned long long down = number_of(first, length, CTA_COUNTERS_REPLY, CTA_COUNTERS_BYTES);
  unsigned long long ms = duration_of(first, length, &flow);
  printf("ended %s %02x%02x%04x%04x%08x%016llx%016llx%016llx\n", inet_ntoa(ended->guest), flow.protocol, flow.state,
         flow.port, flow.peer_port, flow.peer, up, down, ms);
}

/** Some of them, so that other guests and requests have their turn. */
static void read_ended(struct ended *ended) {
  static char buffer[1 << 15];
  for (int reads = 0; reads < ENDED_READS; reads++) {
    ssize_t length = recv(ended->sock, buffer, sizeof buffer, MSG_DONTWAIT);
    // How many the kernel dropped is not known.
    if (length < 0 && errno == ENOBUFS) ended->missed++;
    if (length <= 0) break;
    int rest = length;
    for (struct nlmsghdr *at = (struct nlmsghdr *)buffer; NLMSG_OK(at, rest); at = NLMSG_NEXT(at, rest))
      tell_ended(ended, at);
  }
  if (ended->missed > 0 && take_budget(ended)) {
    printf("missed %s %u\n", inet_ntoa(ended->guest), ended->missed);
    ended->missed = 0;
  }
  fflush(stdout);
}

static void pass_over(struct nlmsghdr *entry, struct in_addr guest) {
  (void)entry;
  (void)guest;
}

/**
 * The kernel looks for entries that are over once a minute at the least, and when it lists a namespace: then those of
 * all namespaces go.
 */
static void expire_entries(const char *pin) {
  if (setjmp(refused) == 0) {
    enter(pin);
    each_connection(pass_over, (struct in_addr){0});
  }
  go_home();
}
