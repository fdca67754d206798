// Attacks on networks and sockets.
#pragma once
#include <arpa/inet.h>
#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "outcome.h"

static void attack_network(const char *port) {
  struct sockaddr_in daemon = {AF_INET, htons(atoi(port)), {htonl(INADDR_LOOPBACK)}, {0}};
  int tcp = socket(AF_INET, SOCK_STREAM, 0);
  report("connect", "", tcp < 0 ? tcp : connect(tcp, (struct sockaddr *)&daemon, sizeof daemon));
  report("raw socket", "", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
  report("packet socket", "", socket(AF_PACKET, SOCK_RAW, 0));
  report("datagram socket", "", socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  report("IPv6 datagram socket", "", socket(AF_INET6, SOCK_DGRAM, 0));
  report("netlink socket", "", socket(AF_NETLINK, SOCK_RAW, 0));
  report("crypto socket", "", socket(AF_ALG, SOCK_SEQPACKET, 0));
  // The kernel has no such pairs. It reports that after loading the family's module and creating the first socket.
  int pair[2];
  report("pair of network sockets", "", socketpair(AF_INET, SOCK_STREAM, 0, pair) < 0 && errno == EOPNOTSUPP ? 0 : -1);
}

/** Not an attack: a VMM with a network must be able to open its tap; the same with a tap that does not exist. */
static void open_taps(const char *name) {
  struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
  strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  int tap = open("/dev/net/tun", O_RDWR);
  report("attach", name, tap < 0 ? tap : ioctl(tap, TUNSETIFF, &request));
  char frame[74] = {0};
  report("send by", name, write(tap, frame, sizeof frame));
  struct ifreq hardware = {.ifr_hwaddr = {ARPHRD_ETHER, {2}}};
  report("end the life of", name, ioctl(tap, TUNSETPERSIST, 0));
  report("give away", name, ioctl(tap, TUNSETOWNER, 0));
  report("change the kind of", name, ioctl(tap, TUNSETLINK, ARPHRD_ETHER));
  report("change the address of", name, ioctl(tap, SIOCSIFHWADDR, &hardware));
  // VMMs read these of their tap, by the only kind of socket that they may have.
  int control = socket(AF_UNIX, SOCK_STREAM, 0);
  report("read the address of", name, ioctl(control, SIOCGIFHWADDR, &request));
  report("read the MTU of", name, ioctl(control, SIOCGIFMTU, &request));
  report("read the flags of", name, ioctl(control, SIOCGIFFLAGS, &request));
  report("change the flags of", name, ioctl(control, SIOCSIFFLAGS, &request));
  report("rename", name, ioctl(control, SIOCSIFNAME, &request));
  strcpy(request.ifr_name, "another0");
  tap = open("/dev/net/tun", O_RDWR);
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  report("make a tap", "", tap < 0 ? tap : ioctl(tap, TUNSETIFF, &request));
}

static void attack_abstract(const char *name) {
  struct sockaddr_un address = {AF_UNIX, ""};
  strncpy(address.sun_path + 1, name, sizeof address.sun_path - 2);
  int stream = socket(AF_UNIX, SOCK_STREAM, 0);
  socklen_t length = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name);
  report("connect without a file", "", connect(stream, (struct sockaddr *)&address, length));
}

static struct sockaddr_un listen_at(const char *path, int *server) {
  struct sockaddr_un address = {AF_UNIX, ""};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  *server = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(*server, (struct sockaddr *)&address, sizeof address) < 0 || listen(*server, 0) < 0) exit(3);
  return address;
}

static void fill(const char *path) {
  int server;
  struct sockaddr_un address = listen_at(path, &server);
  while (connect(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), (struct sockaddr *)&address, sizeof address) == 0) continue;
  report("fill", "", 0);
  fflush(stdout);
  for (;;) sleep(600);
}

/** Sends a byte with the maximum number of descriptors. */
static ssize_t send_descriptors(int stream, int file) {
  enum { MOST = 253 };
  static char control[CMSG_SPACE(MOST * sizeof(int))];
  char byte = 'x';
  struct iovec bytes = {&byte, 1};
  struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(MOST * sizeof(int))};
  for (int i = 0; i < MOST; i++) memcpy(CMSG_DATA(header) + i * sizeof(int), &file, sizeof file);
  return sendmsg(stream, &message, MSG_NOSIGNAL);
}

static void pass_on(const char *path) {
  int server;
  listen_at(path, &server);
  int file = open("/dev/null", O_RDONLY);
  report("listen", "", 0);
  fflush(stdout);
  for (;;) {
    int stream = accept(server, NULL, NULL);
    for (int i = 0; i < 200 && send_descriptors(stream, file) > 0; i++) usleep(1000);
    close(stream);
  }
}
