// Part of egressd.c: bytes in both directions.

/** False if the socket failed. */
static bool receive(struct side *side) {
  struct link *link = side->link;
  if (side->from == side->to && link->judged == side->to && side == &link->client)
    side->from = side->to = link->judged = 0;
  else if (side->from == side->to && side == &link->server) side->from = side->to = 0;
  if (side->to == BUFFER_BYTES && side->from > 0) {
    memmove(side->buffer, side->buffer + side->from, side->to - side->from);
    if (side == &link->client) link->judged -= side->from < link->judged ? side->from : link->judged;
    side->to -= side->from;
    side->from = 0;
  }
  if (side->is_read_out || side->to == BUFFER_BYTES) return true;
  ssize_t got = recv(side->sock, side->buffer + side->to, BUFFER_BYTES - side->to, 0);
  if (got == 0) side->is_read_out = true;
  if (got < 0) return errno == EAGAIN;
  if (side == &link->server && link->first_count < sizeof link->first) {
    size_t count = sizeof link->first - link->first_count;
    if (count > (size_t)got) count = got;
    memcpy(link->first + link->first_count, side->buffer + side->to, count);
    link->first_count += count;
  }
  side->to += got;
  return true;
}

/** Writes up to `until` of what was read from `from`. */
static bool transmit(struct side *from, struct side *to, size_t until) {
  if (until > from->from) {
    ssize_t sent = send(to->sock, from->buffer + from->from, until - from->from, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent > 0) from->from += sent, from->bytes += sent;
  }
  if (from->is_read_out && from->from == from->to && !from->is_shut) {
    shutdown(to->sock, SHUT_WR);
    from->is_shut = true;
  }
  return true;
}

static void pass(struct link *link) {
  struct side *client = &link->client, *server = &link->server;
  judge(link);
  if (link->is_over || link->stage != PASSING) return;
  // The gateway never half-closes: a connection to a server that it leaves is of no use to it, with all that it holds.
  if (link->role == DIAL && client->is_read_out) return finish(link, "allowed", "ended", true);
  // A request that is not whole never will be.
  bool is_torn = client->is_read_out && link->rule != OPAQUE && link->rule != HELD && link->judged < client->to;
  if (is_torn && link->rule != UPGRADE) refuse(link, "request", 0);
  else if (!transmit(client, server, link->judged) || !transmit(server, client, server->to))
    finish(link, "allowed", "reset", true);
  else if (client->is_shut && server->is_shut) finish(link, "allowed", "ended", false);
}

static void connected(struct link *link) {
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(link->server.sock, SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return dial_next(link);
  if (link->role == DIAL && !tell(link, "ok\n")) return finish(link, "allowed", "reset", true);
  link->stage = link->kind == POSTGRES ? GREETING : PASSING;
  link->deadline = now_ms() + (link->kind == POSTGRES ? DIAL_MS : IDLE_MS);
  if (link->kind != POSTGRES) pass(link);
  else if (send(link->server.sock, SSL_REQUEST, 8, MSG_NOSIGNAL) != 8) finish(link, "allowed", "reset", true);
}

/** The server of a database says in one byte whether it has TLS. */
static void greeted(struct link *link) {
  char answer = 0;
  ssize_t got = recv(link->server.sock, &answer, 1, 0);
  if (got < 0 && errno == EAGAIN) return;
  if (answer != 'S') return refuse(link, "server-without-tls", 0);
  link->stage = PASSING;
  link->deadline = now_ms() + IDLE_MS;
  pass(link);
}

static void watch_link(struct link *link) {
  struct side *client = &link->client, *server = &link->server;
  bool is_passing = link->stage == PASSING;
  uint32_t of_client = 0, of_server = 0;
  bool has_room = client->to - client->from < BUFFER_BYTES && !client->is_read_out;
  if ((is_passing || link->stage == READING) && has_room) of_client |= EPOLLIN;
  if (link->stage == LINGERING || link->stage == LINE || link->stage == WAITING) of_client |= EPOLLIN;
  if (is_passing && server->to > server->from) of_client |= EPOLLOUT;
  if (is_passing && server->to - server->from < BUFFER_BYTES && !server->is_read_out) of_server |= EPOLLIN;
  if (link->stage == GREETING) of_server |= EPOLLIN;
  if (link->stage == DIALLING || (is_passing && link->judged > client->from)) of_server |= EPOLLOUT;
  watch(client, of_client);
  watch(server, of_server);
}

static void handle(struct side *side, uint32_t events) {
  struct link *link = side->link;
  if (link->is_over) return;
  if (link->stage == LINGERING) {
    char rest[4096];
    ssize_t got = recv(link->client.sock, rest, sizeof rest, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN)) finish(link, "denied", "-", false);
  } else if (link->stage == LINE || link->stage == WAITING) {
    read_gate(link);
  } else if (link->stage == READING) {
    if (!receive(side)) finish(link, "denied", "reset", true);
    else judge_first(link);
  } else if (link->stage == DIALLING && side == &link->server) {
    connected(link);
  } else if (link->stage == GREETING && side == &link->server) {
    greeted(link);
  } else if (link->stage == PASSING) {
    link->deadline = now_ms() + IDLE_MS;
    bool is_readable = (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
    if (is_readable && !receive(side)) finish(link, "allowed", "reset", true);
    else pass(link);
  }
  if (!link->is_over) watch_link(link);
}
