// Part of egressd.c: requests of HTTP/1, as strictly as all servers understand them alike. Every byte is the guest's.

enum { MAX_HEAD = 65536, MAX_CHUNK_LINE = 18 };

struct head {
  char name[MAX_NAME + 1];
  /** Of the Host header; 0: none. */
  int port;
  bool is_chunked, is_websocket;
  /** Of the body, where it is not chunked. */
  unsigned long long body;
  /** Of the head itself. */
  size_t length;
  /** Status code that says why it is invalid; 0: it is not HTTP. */
  int status;
};

static bool is_token(unsigned char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
         (byte != '\0' && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

static bool is_equal(struct view text, const char *other) {
  return text.left == strlen(other) && strncasecmp((const char *)text.at, other, text.left) == 0;
}

/** A line without its end; false if there is none. A line feed alone does not end it. */
static bool take_line(struct view *from, struct view *line) {
  for (size_t at = 0; at + 1 < from->left; at++) {
    if (from->at[at] != '\r' || from->at[at + 1] != '\n') continue;
    if (!take(from, at, line)) return false;
    from->at += 2;
    from->left -= 2;
    return true;
  }
  return false;
}

static bool take_word(struct view *line, struct view *word) {
  const unsigned char *space = memchr(line->at, ' ', line->left);
  return space != NULL && take(line, space - line->at, word) && take(line, 1, &(struct view){0});
}

static bool read_request_line(struct view line, struct head *head, bool *is_get, bool *is_old) {
  static const char *const REFUSED[] = {"CONNECT", "TRACE", "TRACK", "PRI"};
  struct view method, target;
  head->status = 0;
  if (!take_word(&line, &method) || !take_word(&line, &target)) return false;
  if (line.left < 5 || memcmp(line.at, "HTTP/", 5) != 0) return false;
  head->status = 400;
  *is_old = is_equal(line, "HTTP/1.0");
  if (line.left != 8 || memcmp(line.at, "HTTP/1.", 7) != 0 || (line.at[7] != '0' && line.at[7] != '1')) return false;
  if (method.left == 0 || method.left > 32) return false;
  for (size_t at = 0; at < method.left; at++)
    if (!is_token(method.at[at])) return false;
  *is_get = method.left == 3 && memcmp(method.at, "GET", 3) == 0;
  for (size_t at = 0; at < sizeof REFUSED / sizeof *REFUSED; at++) {
    if (!is_equal(method, REFUSED[at])) continue;
    head->status = 403;
    return false;
  }
  // Neither a proxy's form, which names another authority, nor `*`.
  if (target.left == 0 || target.at[0] != '/') return false;
  for (size_t at = 0; at < target.left; at++)
    if (target.at[at] <= ' ' || target.at[at] >= 0x7f || target.at[at] == '#') return false;
  return true;
}

static bool read_number(struct view text, unsigned base, size_t most, unsigned long long *number) {
  if (text.left == 0 || text.left > most) return false;
  *number = 0;
  for (size_t at = 0; at < text.left; at++) {
    unsigned char byte = text.at[at];
    unsigned digit = byte >= '0' && byte <= '9'   ? byte - '0'
                     : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
                     : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                                  : 16;
    if (digit >= base) return false;
    *number = *number * base + digit;
  }
  return true;
}

static bool read_host(struct view value, struct head *head) {
  const unsigned char *colon = memchr(value.at, ':', value.left);
  struct view name = value;
  head->port = 0;
  if (colon != NULL) {
    unsigned long long port;
    struct view digits = {colon + 1, value.left - (colon + 1 - value.at)};
    if (!read_number(digits, 10, 5, &port) || *digits.at == '0' || port > 65535) return false;
    head->port = (int)port;
    name.left = colon - value.at;
  }
  return read_name(name.at, name.left, head->name);
}

static bool take_field(struct view *rest, struct view *name, struct view *value) {
  struct view line;
  if (!take_line(rest, &line)) return false;
  size_t at = 0;
  while (at < line.left && is_token(line.at[at])) at++;
  if (at == 0 || at == line.left || line.at[at] != ':' || !take(&line, at, name)) return false;
  take(&line, 1, value);
  while (line.left > 0 && (*line.at == ' ' || *line.at == '\t')) line.at++, line.left--;
  while (line.left > 0 && (line.at[line.left - 1] == ' ' || line.at[line.left - 1] == '\t')) line.left--;
  *value = line;
  for (at = 0; at < line.left; at++)
    if ((line.at[at] < ' ' && line.at[at] != '\t') || line.at[at] == 0x7f) return false;
  return true;
}

/**
 * What is not whole, of which `progress` says how much an earlier call has looked at. The same as if all of it came at
 * once: false if no more bytes could make it valid.
 */
static bool may_become_head(const unsigned char *bytes, size_t count, struct head *head, struct progress *progress) {
  bool is_get, is_old;
  for (size_t at = progress->count; at < count; at++)
    if (bytes[at] == '\0' || (bytes[at] == '\n' && (at == 0 || bytes[at - 1] != '\r'))) return false;
  size_t from = progress->count == 0 ? 0 : progress->count - 1;
  const unsigned char *end = progress->has_line ? NULL : memmem(bytes + from, count - from, "\r\n", 2);
  if (end != NULL && !read_request_line((struct view){bytes, end - bytes}, head, &is_get, &is_old)) return false;
  progress->has_line |= end != NULL;
  progress->count = count;
  return true;
}

/**
 * `bytes` are changed where an upgrade to anything but WebSocket is asked for: its header loses its name. `progress`: of
 * earlier calls, with fewer of the same bytes.
 */
static enum parsed read_head(unsigned char *bytes, size_t count, struct head *head, struct progress *progress) {
  size_t from = progress->count < 3 ? 0 : progress->count - 3;
  const unsigned char *end = memmem(bytes + from, count - from, "\r\n\r\n", 4);
  struct view rest = {bytes, end == NULL ? 0 : (size_t)(end - bytes) + 2}, line, name, value;
  struct view upgrade = {0};
  bool is_get, is_old, has_host = false, has_length = false;
  *head = (struct head){.status = 431};
  if (end == NULL && count >= MAX_HEAD) return INVALID;
  // No answer to what is not HTTP, and at once.
  head->status = 0;
  size_t method = 0;
  while (method < count && is_token(bytes[method])) method++;
  if (method > 32 || (method < count && (method == 0 || bytes[method] != ' '))) return INVALID;
  head->status = 400;
  if (end == NULL) return may_become_head(bytes, count, head, progress) ? INCOMPLETE : INVALID;
  *progress = (struct progress){0};
  if (!take_line(&rest, &line) || !read_request_line(line, head, &is_get, &is_old)) return INVALID;
  head->status = 400;
  while (rest.left > 0) {
    if (!take_field(&rest, &name, &value)) return INVALID;
    if (is_equal(name, "host")) {
      if (has_host || !read_host(value, head)) return INVALID;
      has_host = true;
    } else if (is_equal(name, "content-length")) {
      if (has_length || !read_number(value, 10, 18, &head->body)) return INVALID;
      has_length = true;
    } else if (is_equal(name, "transfer-encoding")) {
      if (head->is_chunked || is_old || !is_equal(value, "chunked")) return INVALID;
      head->is_chunked = true;
    } else if (is_equal(name, "upgrade")) {
      if (upgrade.left > 0 && head->is_websocket) return INVALID;
      upgrade = name;
      head->is_websocket = is_equal(value, "websocket");
      if (!head->is_websocket) bytes[name.at - bytes] = 'X';
    }
  }
  if (!has_host || (head->is_chunked && has_length)) return INVALID;
  if (head->is_websocket && (!is_get || is_old || head->is_chunked || head->body > 0)) return INVALID;
  head->length = end + 4 - bytes;
  return WHOLE;
}

/** A line with the size of a chunk, which nothing follows. */
static enum parsed read_chunk(const unsigned char *bytes, size_t count, size_t *length, unsigned long long *size) {
  struct view rest = {bytes, count < MAX_CHUNK_LINE ? count : MAX_CHUNK_LINE}, line;
  if (!take_line(&rest, &line)) return count >= MAX_CHUNK_LINE ? INVALID : INCOMPLETE;
  *length = line.left + 2;
  return read_number(line, 16, 15, size) ? WHOLE : INVALID;
}
