// A network's guest without a virtual machine: forwards frames between two taps, sends raw frames, captures traffic.
//   wire cable NAMESPACE TAP NAMESPACE TAP   creates the second tap if missing; copies frames both ways until killed
//   wire send LINK FRAME…    hexadecimal, with Ethernet headers; pauses between them
//   wire sniff LINK          prints a line for each frame that the link receives or sends, until it is killed
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static int open_tap(const char *namespace, const char *name) {
  int file = open(namespace, O_RDONLY | O_CLOEXEC);
  if (file < 0 || setns(file, CLONE_NEWNET) < 0) fail(namespace);
  close(file);
  int tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
  strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  if (tap < 0 || ioctl(tap, TUNSETIFF, &request) < 0) fail(name);
  return tap;
}

static void cable(char **words) {
  int taps[] = {open_tap(words[0], words[1]), open_tap(words[2], words[3])};
  printf("ready\n");
  fflush(stdout);
  struct pollfd files[] = {{.fd = taps[0], .events = POLLIN}, {.fd = taps[1], .events = POLLIN}};
  static char frame[70000];
  while (poll(files, 2, -1) > 0)
    for (int at = 0; at < 2; at++) {
      if (files[at].revents == 0) continue;
      ssize_t length = read(taps[at], frame, sizeof frame);
      // A link that is down accepts no frames.
      if (length > 0 && write(taps[1 - at], frame, length) < 0 && errno != EIO) fail("pass a frame");
    }
}

static int open_link(const char *name) {
  int sock = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
  struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = if_nametoindex(name)};
  if (sock < 0 || at.sll_ifindex == 0 || bind(sock, (struct sockaddr *)&at, sizeof at) < 0) fail(name);
  return sock;
}

static void send_frames(char **words) {
  int sock = open_link(words[0]);
  for (char **hex = words + 1; *hex != NULL; hex++) {
    unsigned char frame[4096];
    size_t length = 0;
    for (; length < sizeof frame && sscanf(*hex + 2 * length, "%2hhx", frame + length) == 1; length++) continue;
    if (send(sock, frame, length, 0) < 0) fail("send");
    usleep(2000);
  }
}

static void sniff(char **words) {
  int sock = open_link(words[0]);
  printf("ready\n");
  fflush(stdout);
  static unsigned char frame[70000];
  for (;;) {
    ssize_t length = recv(sock, frame, sizeof frame, 0);
    if (length < 0) fail("receive");
    for (ssize_t at = 0; at < length && at < 128; at++) printf("%02x", frame[at]);
    printf("\n");
    fflush(stdout);
  }
}

int main(int count, char **words) {
  if (count == 6 && strcmp(words[1], "cable") == 0) cable(words + 2);
  else if (count >= 4 && strcmp(words[1], "send") == 0) send_frames(words + 2);
  else if (count == 3 && strcmp(words[1], "sniff") == 0) sniff(words + 2);
  else return 2;
}
