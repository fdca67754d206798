/*
 * Connects its standard streams with a vsock connection: vsock-relay <cid> <port>. Exits with 0 when the peer closed
 * gracefully, with 1 when it could not connect, with 2 when the connection was reset.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
/* After sys/socket.h, which it needs. */
#include <linux/vm_sockets.h>

static char buffer[65536];

static void write_all(int fd, ssize_t size) {
  for (ssize_t done = 0; done < size;) {
    ssize_t put = write(fd, buffer + done, size - done);
    if (put < 0) exit(2);
    done += put;
  }
}

int main(int argc, char **argv) {
  if (argc < 3) return 1;
  int vsock = socket(AF_VSOCK, SOCK_STREAM, 0);
  struct sockaddr_vm address = {.svm_family = AF_VSOCK, .svm_cid = atoi(argv[1]), .svm_port = atoi(argv[2])};
  if (vsock < 0 || connect(vsock, (struct sockaddr *)&address, sizeof address) < 0) {
    perror("vsock-relay");
    return 1;
  }
  struct pollfd polled[2] = {{.fd = 0, .events = POLLIN}, {.fd = vsock, .events = POLLIN}};
  for (;;) {
    if (poll(polled, 2, -1) < 0) return 2;
    if (polled[1].revents) {
      ssize_t got = read(vsock, buffer, sizeof buffer);
      if (got <= 0) return got == 0 ? 0 : 2;
      write_all(1, got);
    }
    if (polled[0].revents) {
      ssize_t got = read(0, buffer, sizeof buffer);
      if (got <= 0) return 0;
      write_all(vsock, got);
    }
  }
}
