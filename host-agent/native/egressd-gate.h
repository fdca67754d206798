// Part of egressd.c: connections of the gateway, the process that reads requests. It takes connections of the guest
// that the daemon says it must read, and has servers dialled for them. It never names a server: only a connection.
//
// The gateway opens a connection and writes a line:
//   wait       for a connection of the guest; comes back with `ID KIND NAME PORT ALPN`, and then its bytes
//   dial ID    for a server of that connection's name and port; comes back with `ok`, and then its bytes, or `no REASON`

enum { GATE_LINE = 64 };

static struct side gate_port = {.sock = -1};

/** The bytes of a guest's connection go to the gateway from here on. */
static void hand_over(struct link *link, struct link *waiting) {
  char line[MAX_NAME + 64];
  watch(&waiting->client, 0);
  link->server.sock = waiting->client.sock;
  link->server.is_watched = false;
  waiting->client.sock = -1;
  finish(waiting, "allowed", "-", false);
  link->stage = PASSING;
  link->deadline = now_ms() + IDLE_MS;
  if (link->kind != HTTP) link->rule = OPAQUE;
  int length = snprintf(line, sizeof line, "%llu %s %s %d %s\n", link->id, link->kind == HTTP ? "http" : "tls", link->name,
                        link->port, link->has_h2 ? "h2" : "-");
  if (send(link->server.sock, line, length, MSG_NOSIGNAL) != length) refuse(link, "no-gateway", 502);
  else pass(link);
}

static struct link *find_waiting(void) {
  for (struct link *each = links; each != NULL; each = each->next)
    if (!each->is_over && each->stage == WAITING) return each;
  return NULL;
}

/** The daemon wants it read. Without a gateway it waits for one, as long as for an answer. */
static void find_gateway(struct link *link) {
  link->stage = HANDING;
  link->deadline = now_ms() + ANSWER_MS;
  struct link *waiting = find_waiting();
  if (waiting != NULL) hand_over(link, waiting);
}

static void find_guest(struct link *waiting) {
  struct link *first = NULL;
  waiting->stage = WAITING;
  waiting->deadline = LLONG_MAX;
  for (struct link *each = links; each != NULL; each = each->next)
    if (!each->is_over && each->stage == HANDING && (first == NULL || each->id < first->id)) first = each;
  if (first == NULL) return;
  hand_over(first, waiting);
  if (!first->is_over) watch_link(first);
}

static void dial_for(struct link *link, const char *text) {
  struct link *of = find_link(strtoull(text, NULL, 10));
  if (of == NULL || of->role != READ || of->stage != PASSING) {
    refuse(link, "gone", 0);
    return;
  }
  link->kind = of->kind;
  link->port = of->port;
  strcpy(link->name, of->name);
  link->role = DIAL;
  link->rule = OPAQUE;
  link->stage = ASKING;
  link->deadline = now_ms() + ANSWER_MS;
  ask(link);
}

/** Reads the line of a connection of the gateway; what follows it at once is not allowed. */
static void read_gate(struct link *link) {
  struct side *side = &link->client;
  ssize_t got = recv(side->sock, side->buffer + side->to, GATE_LINE - side->to, 0);
  if (got < 0 && errno == EAGAIN) return;
  if (got > 0) side->to += got;
  char *line = (char *)side->buffer, *end = memchr(line, '\n', side->to);
  bool is_last = end != NULL && end + 1 == line + side->to;
  if (got <= 0 || link->stage == WAITING || (end == NULL && side->to == GATE_LINE) || (end != NULL && !is_last)) {
    finish(link, "denied", "-", false);
    return;
  }
  if (end == NULL) return;
  *end = '\0';
  side->to = 0;
  if (strcmp(line, "wait") == 0) find_guest(link);
  else if (strncmp(line, "dial ", 5) == 0) dial_for(link, line + 5);
  else finish(link, "denied", "-", false);
}

static void welcome_gate(void) {
  int next = accept4(gate_port.sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (next < 0) return;
  struct link *link = gate_count < MAX_GATE ? add_link(next) : NULL;
  if (link == NULL) {
    close(next);
    return;
  }
  gate_count++;
  link->role = GATE;
  link->stage = LINE;
  watch_link(link);
}
