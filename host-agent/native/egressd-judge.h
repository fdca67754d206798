// Part of egressd.c: which bytes of the guest may go on to the server. One connection has one name.

static bool is_same(const struct link *link, const char *name) {
  return strcmp(link->name, name) == 0;
}

/** Finds the name that a new connection is for, and asks for a verdict. */
static void judge_first(struct link *link) {
  struct side *client = &link->client;
  unsigned char *bytes = client->buffer + client->from;
  size_t count = client->to - client->from;
  enum parsed parsed = INCOMPLETE;
  if (count > 0 && link->kind == UNKNOWN)
    link->kind = bytes[0] == HANDSHAKE ? TLS : bytes[0] == 0 ? POSTGRES : HTTP;
  if (link->kind == HTTP) link->deadline = link->started + HEAD_MS;
  if (link->kind == POSTGRES && !link->is_greeted) {
    if (memcmp(bytes, SSL_REQUEST, count < 8 ? count : 8) != 0 || count > 8) return refuse(link, "protocol", 0);
    if (count < 8) return;
    client->from = client->to = 0;
    link->is_greeted = send(client->sock, "S", 1, MSG_NOSIGNAL) == 1;
    if (!link->is_greeted) refuse(link, "reset", 0);
    return;
  }
  if (count == 0) {
    if (client->is_read_out) refuse(link, "silent", 0);
    return;
  }
  if (link->kind == HTTP) {
    struct head head;
    parsed = read_head(bytes, count, &head, &link->progress);
    if (parsed == INVALID) return refuse(link, head.status == 0 ? "protocol" : "request", head.status);
    if (parsed == WHOLE) strcpy(link->name, head.name);
    if (parsed == WHOLE && head.port != 0 && head.port != link->port) return refuse(link, "authority", 421);
    link->rule = HEAD;
  } else {
    struct hello hello;
    parsed = read_hello(bytes, count, &hello, &link->progress);
    if (parsed == INVALID) return refuse(link, link->kind == TLS ? "hello" : "protocol", 0);
    if (parsed == WHOLE) {
      strcpy(link->name, hello.name);
      if (link->kind == TLS && hello.has_ech) link->kind = TLS_ECH;
      link->has_h2 = hello.has_h2;
      link->judged = hello.length;
    }
    link->rule = HELD;
  }
  if (parsed == INCOMPLETE) {
    if (client->is_read_out) refuse(link, "silent", 0);
    return;
  }
  link->stage = ASKING;
  link->deadline = now_ms() + ANSWER_MS;
  ask(link);
}

/** After a server asked for a second hello: what else is on its way may pass, and nothing but a hello of that name. */
static bool judge_record(struct link *link, const unsigned char *bytes, size_t count) {
  struct hello hello;
  if (count < RECORD_HEAD) return false;
  size_t length = RECORD_HEAD + ((size_t)bytes[3] << 8 | bytes[4]);
  if (bytes[0] != HANDSHAKE) {
    if (count < length) return false;
    link->judged += length;
    return true;
  }
  enum parsed parsed = read_hello(bytes, count, &hello, &link->progress);
  bool is_other = parsed == WHOLE && !is_same(link, hello.name);
  // The verdict was on a hello without ECH, which the rule may refuse.
  bool is_new_ech = parsed == WHOLE && link->kind == TLS && hello.has_ech;
  if (parsed == INVALID || is_other || is_new_ech) refuse(link, "hello", 0);
  if (parsed != WHOLE || link->is_over) return false;
  link->judged += hello.length;
  link->rule = OPAQUE;
  return true;
}

static bool judge_head(struct link *link, unsigned char *bytes, size_t count) {
  struct head head;
  enum parsed parsed = read_head(bytes, count, &head, &link->progress);
  bool is_first = link->client.bytes == 0 && link->judged == link->client.from;
  if (parsed == INCOMPLETE) {
    if (link->head_until == 0) link->head_until = now_ms() + HEAD_MS;
    return false;
  }
  if (parsed == INVALID || (head.is_websocket && !is_first)) refuse(link, "request", head.status);
  else if (!is_same(link, head.name) || (head.port != 0 && head.port != link->port)) refuse(link, "authority", 421);
  if (link->is_over || link->stage == LINGERING) return false;
  link->head_until = 0;
  link->judged += head.length;
  link->left = head.body;
  link->rule = head.is_websocket ? UPGRADE : head.is_chunked ? CHUNK : head.body > 0 ? BODY : HEAD;
  return true;
}

static bool judge_chunk(struct link *link, const unsigned char *bytes, size_t count) {
  size_t length;
  enum parsed parsed = read_chunk(bytes, count, &length, &link->left);
  if (parsed == INVALID) refuse(link, "request", 400);
  if (parsed != WHOLE) return false;
  link->judged += length;
  link->rule = link->left > 0 ? CHUNK_BODY : CHUNKS_END;
  return true;
}

/** One step; false if there is nothing more to judge now. */
static bool judge_step(struct link *link) {
  struct side *client = &link->client, *server = &link->server;
  unsigned char *bytes = client->buffer + link->judged;
  size_t count = client->to - link->judged;
  bool has_answer = link->first_count == sizeof link->first || server->is_read_out;
  switch (link->rule) {
    case OPAQUE:
      link->judged = client->to;
      return false;
    case HELD:
      if (!has_answer && (link->first_count == 0 || link->first[0] == HANDSHAKE)) return false;
      link->rule = asks_again(link->first, link->first_count) ? HELLO : OPAQUE;
      return true;
    case HELLO:
      return judge_record(link, bytes, count);
    case HEAD:
      return count > 0 && judge_head(link, bytes, count);
    case UPGRADE:
      if (!has_answer && link->first_count < 12) return false;
      link->rule = link->first_count >= 12 && memcmp(link->first, "HTTP/1.1 101", 12) == 0 ? OPAQUE : HEAD;
      return true;
    case BODY:
    case CHUNK_BODY:
      if (count > link->left) count = link->left;
      link->judged += count;
      link->left -= count;
      if (link->left > 0) return false;
      link->rule = link->rule == BODY ? HEAD : CHUNK_END;
      return true;
    case CHUNK:
      return judge_chunk(link, bytes, count);
    case CHUNK_END:
    case CHUNKS_END:
      if (count < 2) return false;
      // No trailers: a header could be among them.
      if (memcmp(bytes, "\r\n", 2) != 0) return refuse(link, "request", 400), false;
      link->judged += 2;
      link->rule = link->rule == CHUNK_END ? CHUNK : HEAD;
      return true;
  }
  return false;
}

static void judge(struct link *link) {
  while (!link->is_over && link->stage == PASSING && judge_step(link));
}
