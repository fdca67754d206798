/* The agent's virtio-serial port for test programs that run instead of the agent. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <unistd.h>

static int port;

static void end(const char *why) {
  printf("test program: %s: %s\n", why, strerror(errno));
  fflush(stdout);
  reboot(RB_POWER_OFF);
  pause();
}

static void open_port(void) {
  char path[300], name[64];
  DIR *ports = opendir("/sys/class/virtio-ports");
  for (struct dirent *entry; ports && (entry = readdir(ports));) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/sys/class/virtio-ports/%s/name", entry->d_name);
    FILE *file = fopen(path, "r");
    if (!file) continue;
    int is_agent = fgets(name, sizeof name, file) && !strncmp(name, "sandbox.agent", 13);
    fclose(file);
    snprintf(path, sizeof path, "/dev/%s", entry->d_name);
    if (is_agent) {
      port = open(path, O_RDWR | O_NONBLOCK);
      if (port < 0) end(path);
      return;
    }
  }
  end("no port named sandbox.agent");
}

/* Waits for the port; a host that is away shows as POLLHUP, which must not become a busy loop. */
static void wait_for(short events) {
  struct pollfd poll_fd = {port, events, 0};
  poll(&poll_fd, 1, -1);
  if (!(poll_fd.revents & events)) usleep(1000);
}

static size_t read_some(char *into, size_t most) {
  for (;;) {
    ssize_t got = read(port, into, most);
    if (got > 0) return got;
    if (got < 0 && errno != EAGAIN) end("read");
    wait_for(POLLIN);
  }
}

static void write_all(const char *from, size_t left) {
  while (left > 0) {
    ssize_t put = write(port, from, left);
    if (put > 0) {
      from += put;
      left -= put;
    } else if (put < 0 && errno != EAGAIN) {
      end("write");
    } else {
      wait_for(POLLOUT);
    }
  }
}
