// Captures on every interface of its network namespace, and prints packets of `escape` as INTERFACE <escape:NAME>,
// once each. Exits at the end of its standard input.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_SEEN = 4096, MAX_LINE = 160 };
static char seen[MAX_SEEN][MAX_LINE];
static int seen_count;

static void report(const char *line) {
  for (int i = 0; i < seen_count; i++)
    if (!strcmp(seen[i], line)) return;
  if (seen_count < MAX_SEEN) strcpy(seen[seen_count++], line);
  printf("%s\n", line);
  fflush(stdout);
}

static void look(const uint8_t *bytes, size_t size, const char *interface) {
  for (const char *const *kind = (const char *const[]){"<escape:", "<control:", NULL}; *kind; kind++) {
    const uint8_t *at = memmem(bytes, size, *kind, strlen(*kind));
    const uint8_t *end = at ? memchr(at, '>', size - (size_t)(at - bytes)) : NULL;
    if (!end || end - at > 100) continue;
    char line[MAX_LINE];
    snprintf(line, sizeof line, "%s %.*s", interface, (int)(end - at + 1), (const char *)at);
    report(line);
  }
}

int main(void) {
  int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), room = 8 << 20;
  if (fd < 0) return perror("socket"), 2;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
  printf("ready\n");
  fflush(stdout);
  struct pollfd waits[] = {{fd, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
  while (poll(waits, 2, -1) >= 0) {
    uint8_t bytes[65536];
    struct sockaddr_ll from;
    socklen_t size = sizeof from;
    if (waits[0].revents) {
      ssize_t got = recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &size);
      char name[IFNAMSIZ] = "?";
      if_indextoname((unsigned)from.sll_ifindex, name);
      if (got > 0) look(bytes, (size_t)got, name);
    } else if (waits[1].revents) {
      /* All earlier packets have been handled. */
      return 0;
    }
  }
  return 1;
}
