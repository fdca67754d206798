// Part of egressd.c: what it opens before it has no privileges any more.

static void open_port(struct side *port, const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  errno = ENAMETOOLONG;
  if (strlen(path) >= sizeof address.sun_path) die("listen", path);
  strcpy(address.sun_path, path);
  unlink(path);
  port->sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  umask(077);
  if (port->sock < 0 || bind(port->sock, (struct sockaddr *)&address, sizeof address) < 0 ||
      listen(port->sock, BACKLOG) < 0)
    die("listen", path);
  watch(port, EPOLLIN);
}

static void enter(const char *pin) {
  int file = open(pin, O_RDONLY | O_CLOEXEC);
  if (file < 0 || setns(file, CLONE_NEWNET) < 0) die("enter", pin);
  close(file);
}

static void drop_privileges(const char *text) {
  char *end;
  unsigned long uid = strtoul(text, &end, 10);
  errno = EINVAL;
  if (*text == '\0' || *end != '\0' || uid == 0) die("become user", text);
  if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 ||
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || chdir("/") < 0)
    die("become user", text);
}

/** The rules know sockets by the user who made them. */
static void open_listener(const char *address, const char *port) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
  int on = 1;
  errno = EINVAL;
  if (inet_pton(AF_INET, address, &at.sin_addr) != 1) die("listen", address);
  listener.sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // Before it listens: its connections have the same.
  limit_buffers(listener.sock);
  if (listener.sock < 0 || setsockopt(listener.sock, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
      bind(listener.sock, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener.sock, BACKLOG) < 0)
    die("listen", address);
  watch(&listener, EPOLLIN);
}
