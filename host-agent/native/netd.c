// Creates and removes the network namespaces of sandboxes, and runs nftables commands in them, for a daemon that cannot
// change its own namespace. It exits when its standard input ends; what it created stays.
//
// A request is a line `ID VERB ARGUMENT… BYTES`, followed by a body of BYTES bytes; a blank in an argument is written
// as `%20`, as in a URL. The answer is a line `ID ok BYTES` or `ID failed BYTES`, followed by a body: the JSON output
// of nftables, or the error. Requests are handled in order.
//   make PIN LINK GUEST GATEWAY RESOLVER GUEST-MAC GATEWAY-MAC
//                      creates a namespace, bind-mounted to the file PIN, with tap0 for the guest, up0 connected to
//                      LINK on the host, which has the address RESOLVER, and the rules of the body; all or nothing
//   remove PIN LINK    removes whatever exists of it
//   rules PIN          runs the nftables commands of the body in that namespace; `-` is the caller's own
//   watch PIN GUEST    reports each packet that a rule logs to group 1 as a line `logged GUEST HEX` (its first bytes),
//                      and what that guest opened when it is over as `ended GUEST HEX`: 20 digits as those of `flows`,
//                      then the bytes sent and received, with headers, and for TCP the milliseconds, in 16 digits each.
//                      `missed GUEST NUMBER`: that many were not reported, as there were too many
//   unwatch PIN        ends that
//   anchor LINK ADDRESS PREFIX HOW
//                      creates a dummy link on the host with an address and its network; HOW is `new` (fails if the
//                      link exists) or `again`
//   unlink LINK        removes a link of the host
//   forget ADDRESS     removes the conntrack entries of that guest on the host
//   cut PIN GUEST GUEST-PORT ADDRESS PORT
//                      ends the connections from outside to that port of the host, on that address or, for `-`, on any,
//                      which lead to that port of the guest; port 0 is any. Nothing may forward the port by then
//   inward ADDRESS PREFIX
//                      counts the established TCP connections to guests of that network that the host tracks
//   connections PIN ADDRESS
//                      lists the TCP connections of that guest that the namespace tracks, without those that were
//                      reset: 16 hex digits for each, the guest's port, the peer's port and the peer's address
//   flows PIN ADDRESS  lists what that guest opened, of every protocol: 20 hex digits for each, the protocol, the state
//                      of TCP, the guest's port, the peer's port and the peer's address
//   drop PIN ADDRESS   removes those of the body from the namespace's conntrack table
//   tell PIN ADDRESS GUEST-MAC GATEWAY-MAC
//                      has both ends of those of the body answered by the rules, so that they end at once
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LINE = 1024, MAX_BODY = 1 << 20, MAX_ARGS = 16, LOG_GROUP = 1, LOGGED_BYTES = 64, FAILED = 125 };
/**
 * Both ends of the link between a namespace and the host have a fixed MAC address, so neither needs ARP for the other.
 */
static const unsigned char LINK_MAC[6] = {2, 0, 0, 0, 0, 3};

static int host_namespace;
static jmp_buf refused;
static char reason[8192];

/** Ends the request with an error. */
static _Noreturn void fail(const char *format, ...) {
  int error = errno;
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  if (error != 0 && length >= 0 && (size_t)length < sizeof reason)
    snprintf(reason + length, sizeof reason - length, ": %s", strerror(error));
  longjmp(refused, 1);
}

static _Noreturn void die(const char *what) {
  fprintf(stderr, "netd: cannot %s: %s\n", what, strerror(errno));
  exit(FAILED);
}

#include "netd-links.h"
#include "netd-nft.h"

static void go_home(void) {
  if (setns(host_namespace, CLONE_NEWNET) < 0) die("return to the own network namespace");
}

static void enter(const char *pin) {
  if (strcmp(pin, "-") == 0) return;
  int file = open(pin, O_RDONLY | O_CLOEXEC);
  if (file < 0) fail("open the network namespace %s", pin);
  int status = setns(file, CLONE_NEWNET);
  int error = errno;
  close(file);
  errno = error;
  if (status < 0) fail("enter the network namespace %s", pin);
}

static int open_socket(void) {
  int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (sock < 0) fail("open a socket");
  return sock;
}

#include "netd-conntrack.h"
#include "netd-flows.h"
#include "netd-ended.h"
#include "netd-watch.h"

/** Runs in the new namespace. */
static void configure_guest_side(int sock, char **args, const char *rules) {
  char *name = args[1];
  struct in_addr guest = address(args[2]), gateway = address(args[3]);
  write_setting(false, "1", "/proc/sys/net/ipv6/conf/all/disable_ipv6");
  write_setting(false, "1", "/proc/sys/net/ipv6/conf/default/disable_ipv6");
  write_setting(true, "1", "/proc/sys/net/ipv4/ip_forward");
  for (int at = 0; at < 2; at++) {
    const char *which = at == 0 ? "all" : "default";
    write_setting(true, "0", "/proc/sys/net/ipv4/conf/%s/send_redirects", which);
    write_setting(true, "0", "/proc/sys/net/ipv4/conf/%s/accept_redirects", which);
    write_setting(true, "1", "/proc/sys/net/ipv4/conf/%s/arp_ignore", which);
  }
  make_tun("tap0", IFF_TAP | IFF_VNET_HDR, false);
  struct ifreq mac = link_named("tap0");
  mac.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  read_mac(args[6], mac.ifr_hwaddr.sa_data);
  if (ioctl(sock, SIOCSIFHWADDR, &mac) < 0) fail("give tap0 its MAC address");
  // Before any packet can pass.
  free(run_nft(rules));
  count_traffic();
  // Without a connected network: another of the guest's four addresses belongs to the resolver, which is behind up0.
  set_address(sock, "tap0", gateway, 32);
  link_up(sock, "tap0", 0);
  add_route(sock, "tap0", guest, 32);
  struct arpreq neighbour = {.arp_flags = ATF_PERM | ATF_COM, .arp_dev = "tap0"};
  neighbour.arp_pa = to_sockaddr(guest);
  neighbour.arp_ha.sa_family = ARPHRD_ETHER;
  read_mac(args[5], neighbour.arp_ha.sa_data);
  if (ioctl(sock, SIOCSARP, &neighbour) < 0) fail("tell tap0 its neighbour");
  make_pair(name);
  link_up(sock, "up0", IFF_NOARP);
  add_route(sock, "up0", (struct in_addr){0}, 0);
}

/** Runs in the host's namespace. */
static void configure_host_side(int sock, char *name, struct in_addr guest, struct in_addr resolver) {
  write_setting(false, "1", "/proc/sys/net/ipv6/conf/%s/disable_ipv6", name);
  write_setting(true, "1", "/proc/sys/net/ipv4/conf/%s/forwarding", name);
  write_setting(true, "0", "/proc/sys/net/ipv4/conf/%s/send_redirects", name);
  write_setting(true, "0", "/proc/sys/net/ipv4/conf/%s/accept_redirects", name);
  set_address(sock, name, resolver, 32);
  link_up(sock, name, IFF_NOARP);
  add_route(sock, name, guest, 32);
}

static void remove_slot(const char *pin, const char *name) {
  go_home();
  forget_watch(pin);
  unlink_link(name);
  if (umount2(pin, MNT_DETACH) < 0 && errno != ENOENT && errno != EINVAL) fail("unmount %s", pin);
  if (unlink(pin) < 0 && errno != ENOENT) fail("remove %s", pin);
}

static void make_slot(char **args, const char *rules) {
  static char *pin, *name;
  static int sock, outside;
  pin = args[0];
  name = args[1];
  sock = outside = -1;
  jmp_buf outer;
  memcpy(&outer, &refused, sizeof outer);
  if (setjmp(refused) != 0) {
    // Keep the first error; the cleanup may fail as well.
    char first[sizeof reason];
    memcpy(first, reason, sizeof first);
    if (sock >= 0) close(sock);
    if (outside >= 0) close(outside);
    if (setjmp(refused) == 0) remove_slot(pin, name);
    memcpy(reason, first, sizeof first);
    memcpy(&refused, &outer, sizeof outer);
    longjmp(refused, 1);
  }
  outside = open_socket();
  int file = open(pin, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
  if (file < 0) fail("make %s", pin);
  close(file);
  if (unshare(CLONE_NEWNET) < 0) fail("make a network namespace");
  if (mount("/proc/thread-self/ns/net", pin, NULL, MS_BIND, NULL) < 0) fail("keep a network namespace in %s", pin);
  sock = open_socket();
  configure_guest_side(sock, args, rules);
  close(sock);
  sock = -1;
  go_home();
  configure_host_side(outside, name, address(args[2]), address(args[4]));
  close(outside);
  memcpy(&refused, &outer, sizeof outer);
}

static void make_anchor(char *name, const char *text, int prefix, bool is_new) {
  int sock = open_socket();
  make_tun(name, IFF_TUN | (is_new ? IFF_TUN_EXCL : 0), true);
  write_setting(false, "1", "/proc/sys/net/ipv6/conf/%s/disable_ipv6", name);
  set_address(sock, name, address(text), prefix);
  link_up(sock, name, 0);
  close(sock);
}

static char *handle(char **args, int count, const char *body) {
  const char *verb = args[1];
  char **arguments = args + 2;
  int given = count - 3;
  char *output = NULL;
  if (strcmp(verb, "make") == 0 && given == 7) make_slot(arguments, body);
  else if (strcmp(verb, "remove") == 0 && given == 2) remove_slot(arguments[0], arguments[1]);
  else if (strcmp(verb, "watch") == 0 && given == 2) watch_slot(arguments[0], arguments[1]);
  else if (strcmp(verb, "unwatch") == 0 && given == 1) forget_watch(arguments[0]);
  else if (strcmp(verb, "anchor") == 0 && given == 4)
    make_anchor(arguments[0], arguments[1], atoi(arguments[2]), strcmp(arguments[3], "new") == 0);
  else if (strcmp(verb, "unlink") == 0 && given == 1) unlink_link(arguments[0]);
  else if (strcmp(verb, "forget") == 0 && given == 1) forget_connections(address(arguments[0]));
  else if (strcmp(verb, "cut") == 0 && given == 5) {
    cut_connections(arguments);
    tell_clients();
  } else if (strcmp(verb, "inward") == 0 && given == 2) {
    output = count_connections(address(arguments[0]), atoi(arguments[1]));
  } else if (strcmp(verb, "connections") == 0 && given == 2) {
    enter(arguments[0]);
    output = list_connections(address(arguments[1]), list_entry);
  } else if (strcmp(verb, "flows") == 0 && given == 2) {
    enter(arguments[0]);
    output = list_connections(address(arguments[1]), list_flow);
  } else if (strcmp(verb, "drop") == 0 && given == 2) {
    enter(arguments[0]);
    drop_flows(body, address(arguments[1]));
  } else if (strcmp(verb, "tell") == 0 && given == 4) {
    enter(arguments[0]);
    tell_ends(body, address(arguments[1]), arguments[2], arguments[3]);
  } else if (strcmp(verb, "rules") == 0 && given == 1) {
    enter(arguments[0]);
    output = run_nft(body);
  } else {
    errno = EINVAL;
    fail("do %s with %d arguments", verb, given);
  }
  return output;
}

/** Reads exactly `length` bytes; false at the end of the input. */
static bool read_all(char *to, size_t length) {
  for (size_t done = 0; done < length;) {
    ssize_t got = read(STDIN_FILENO, to + done, length - done);
    if (got <= 0) return false;
    done += got;
  }
  return true;
}

static bool read_line(char *line) {
  for (int length = 0; length < MAX_LINE - 1; length++) {
    if (!read_all(line + length, 1)) return false;
    if (line[length] != '\n') continue;
    line[length] = '\0';
    return true;
  }
  errno = E2BIG;
  die("read a request");
}

/** Decodes percent-encoding in place. */
static void decode(char *arg) {
  char *to = arg;
  for (char *from = arg; *from != '\0'; from++) {
    unsigned byte;
    if (*from == '%' && sscanf(from + 1, "%2x", &byte) == 1) {
      *to++ = (char)byte;
      from += 2;
    } else {
      *to++ = *from;
    }
  }
  *to = '\0';
}

/** Handles one request; false at the end of the input. */
static bool serve(void) {
  static char line[MAX_LINE], body[MAX_BODY + 1];
  char *args[MAX_ARGS];
  int count = 0;
  if (!read_line(line)) return false;
  for (char *arg = strtok(line, " "); arg != NULL && count < MAX_ARGS; arg = strtok(NULL, " ")) args[count++] = arg;
  errno = EINVAL;
  if (count < 3) die("read a request");
  for (int at = 2; at < count - 1; at++) decode(args[at]);
  long length = strtol(args[count - 1], NULL, 10);
  if (length < 0 || length > MAX_BODY) die("read a request");
  if (!read_all(body, length)) return false;
  body[length] = '\0';
  char *volatile output = NULL;
  volatile bool is_done = false;
  if (setjmp(refused) == 0) {
    output = handle(args, count, body);
    is_done = true;
  }
  go_home();
  const char *text = !is_done ? reason : output != NULL ? output : "";
  printf("%s %s %zu\n%s", args[0], is_done ? "ok" : "failed", strlen(text), text);
  fflush(stdout);
  close_spent();
  free(output);
  return true;
}

int main(void) {
  host_namespace = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (host_namespace < 0) die("open the own network namespace");
  umask(077);
  // After a killed daemon, the next one removes unused networks: this process must not create any after that.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) die("end with the daemon");
  for (int wait_ms = -1;;) {
    struct pollfd files[2 * watch_count + 1];
    files[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    int count = 1;
    for (struct watch *watch = watches; watch != NULL; watch = watch->next) {
      files[count++] = (struct pollfd){.fd = watch->sock, .events = POLLIN};
      files[count++] = (struct pollfd){.fd = watch->ended.sock, .events = POLLIN};
    }
    if (poll(files, count, wait_ms) < 0 && errno != EINTR) die("wait");
    wait_ms = read_watches(files + 1);
    if (files[0].revents == 0) continue;
    if (!serve()) return 0;
    wait_ms = 0;
  }
}
