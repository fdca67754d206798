/*
 * The agent's port for test programs that run instead of the agent: a virtio-serial port, or for an engine without one
 * a vsock port that serves one connection after another.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <unistd.h>

#define AGENT_VSOCK_PORT 1024

static int port;
static int listener = -1;

static void end(const char *why) {
  printf("test program: %s: %s\n", why, strerror(errno));
  fflush(stdout);
  reboot(RB_POWER_OFF);
  pause();
}

static void accept_next(void) {
  if (port > 0) close(port);
  while ((port = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) < 0)
    if (errno != EINTR && errno != ECONNABORTED) end("accept");
}

static void open_vsock(void) {
  struct sockaddr_vm address = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = AGENT_VSOCK_PORT};
  signal(SIGPIPE, SIG_IGN);
  listener = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 8) < 0)
    end("neither a port named sandbox.agent nor a vsock");
  accept_next();
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
  open_vsock();
}

/* Waits for the port. POLLHUP means that the host is disconnected, and must not cause a busy loop. */
static void wait_for(short events) {
  struct pollfd poll_fd = {port, events, 0};
  poll(&poll_fd, 1, -1);
  if (!(poll_fd.revents & events)) usleep(1000);
}

static size_t read_some(char *into, size_t most) {
  for (;;) {
    ssize_t got = read(port, into, most);
    if (got > 0) return got;
    if (got < 0 && errno == EAGAIN) wait_for(POLLIN);
    else if (listener >= 0) accept_next();
    else if (got < 0) end("read");
    else wait_for(POLLIN);
  }
}

static void write_all(const char *from, size_t left) {
  while (left > 0) {
    ssize_t put = write(port, from, left);
    if (put > 0) {
      from += put;
      left -= put;
    } else if (put < 0 && errno != EAGAIN && listener >= 0) {
      accept_next();
    } else if (put < 0 && errno != EAGAIN) {
      end("write");
    } else {
      wait_for(POLLOUT);
    }
  }
}
