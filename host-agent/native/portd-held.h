// Part of portd.c: connections that are held while the guest is asleep, and the control connection.

static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void tell(char byte) {
  if (control.sock >= 0) send(control.sock, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void knock(void) {
  if (mode != 'h' || waiting_count == 0 || has_knocked || control.sock < 0) return;
  has_knocked = true;
  tell('k');
}

static void wait_for_guest(struct end *inner) {
  if (waiting_count == MAX_HELD || mode == 'r') {
    end_pair(inner, true);
    return;
  }
  long long now = now_ms();
  if (inner->held_since == 0) inner->held_since = now;
  if (waiting_count == 0) next_try = now + RETRY_MS;
  waiting[waiting_count++] = inner;
  knock();
}

static void dial(struct end *inner) {
  int own = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (own < 0) {
    end_pair(inner, true);
    return;
  }
  inner->sock = own;
  int on = 1;
  setsockopt(own, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  struct sockaddr_in to = guest;
  to.sin_port = htons(inner->guest_port);
  // If the source address is not available, another one works as well.
  if (bind(own, (struct sockaddr *)&source, sizeof source) < 0) errno = 0;
  bool is_failure = connect(own, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS;
  watch(inner, EPOLL_CTL_ADD);
  if (is_failure) end_pair(inner, true);
}

/** Connects all that wait, or ends them. */
static void settle_waiting(void) {
  long long now = now_ms();
  next_try = now + RETRY_MS;
  struct end *all[MAX_HELD];
  int count = waiting_count;
  memcpy(all, waiting, count * sizeof *all);
  waiting_count = 0;
  for (int at = 0; at < count; at++) {
    long long held_ms = now - all[at]->held_since;
    if (all[at]->patient_until == 0) all[at]->patient_until = now + (held_ms > PATIENCE_MS ? held_ms : PATIENCE_MS);
    if (mode == 'r' || now > all[at]->patient_until) end_pair(all[at], true);
    else dial(all[at]);
  }
}

static void change_mode(char byte) {
  if (byte != 'o' && byte != 'h' && byte != 'r') return;
  mode = byte;
  has_knocked = false;
  if (mode == 'h')
    for (int at = 0; at < waiting_count; at++) waiting[at]->patient_until = 0;
  else settle_waiting();
  tell(byte);
  knock();
}

/** No event of it may be pending. */
static void close_port(int index) {
  struct end *port = index < port_count ? ports[index] : NULL;
  if (port == NULL) return;
  ports[index] = NULL;
  close(port->sock);
  for (struct end *client = clients, *next; client != NULL; client = next) {
    next = client->next;
    if (client->port == port) end_pair(client, true);
  }
  free(port);
}

/** No event of them may be pending. */
static void end_clients(void) {
  for (struct end *client = clients, *next; client != NULL; client = next) {
    next = client->next;
    if (!client->other->is_connecting) end_pair(client, true);
  }
  tell('x');
}

static void obey_byte(unsigned char byte) {
  static int missing, index;
  if (missing == 0 && byte == 'c') {
    missing = 2;
    index = 0;
  } else if (missing == 0 && byte == 'x') {
    end_clients();
  } else if (missing == 0) {
    change_mode(byte);
  } else {
    index = index << 8 | byte;
    if (--missing > 0) return;
    close_port(index);
    tell('c');
  }
}

static void obey(void) {
  char bytes[16];
  ssize_t length = recv(control.sock, bytes, sizeof bytes, 0);
  if (length < 0 && errno == EAGAIN) return;
  for (int at = 0; at < length; at++) obey_byte(bytes[at]);
  if (length > 0) return;
  close(control.sock);
  control.sock = -1;
}

static void welcome_control(void) {
  int next = accept4(control_port.sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (next < 0) return;
  if (control.sock >= 0) close(control.sock);
  control.sock = next;
  has_knocked = false;
  watch(&control, EPOLL_CTL_ADD);
}
