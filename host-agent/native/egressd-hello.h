// Part of egressd.c: the first message of TLS, in one or more records. Every byte is the guest's.

enum parsed { INCOMPLETE, WHOLE, INVALID };

enum {
  /** Of the message; no client sends as much. */
  MAX_HELLO = 16384,
  /** With the heads of its records. */
  MAX_HELLO_RECORDS = MAX_HELLO + 4096,
  RECORD_HEAD = 5,
  HANDSHAKE = 22,
};

struct hello {
  char name[MAX_NAME + 1];
  /** A name may be encrypted within it. */
  bool has_ech;
  /** The client speaks HTTP/2, if the server does. */
  bool has_h2;
  /** Bytes of its records. */
  size_t length;
};

/** How far a message was read that is not whole yet: bytes may come one by one, and each is looked at once. */
struct progress {
  /** Of HTTP: what was looked at. Of TLS: the whole records. */
  size_t count;
  /** The request line was among them. */
  bool has_line;
  /** Of TLS: of the message, within these records, and its first bytes. */
  size_t gathered;
  unsigned char first[4];
};

/** A range of bytes that gets shorter as it is read. */
struct view {
  const unsigned char *at;
  size_t left;
};

static bool take(struct view *from, size_t count, struct view *taken) {
  if (from->left < count) return false;
  *taken = (struct view){from->at, count};
  from->at += count;
  from->left -= count;
  return true;
}

static bool take_number(struct view *from, int bytes, size_t *number) {
  struct view digits;
  if (!take(from, bytes, &digits)) return false;
  *number = 0;
  for (int at = 0; at < bytes; at++) *number = *number << 8 | digits.at[at];
  return true;
}

/** A range with its length before it. */
static bool take_vector(struct view *from, int bytes, struct view *taken) {
  size_t length;
  return take_number(from, bytes, &length) && take(from, length, taken);
}

/** One name, of the only type that there is. */
static bool read_server_name(struct view extension, char *name) {
  struct view list, entry;
  size_t type;
  if (!take_vector(&extension, 2, &list) || extension.left > 0) return false;
  if (!take_number(&list, 1, &type) || type != 0 || !take_vector(&list, 2, &entry) || list.left > 0) return false;
  return read_name(entry.at, entry.left, name);
}

/** Whether a list of protocols (ALPN) has HTTP/2. A server judges the list itself. */
static bool has_h2(struct view extension) {
  struct view list, entry;
  if (!take_vector(&extension, 2, &list)) return false;
  while (take_vector(&list, 1, &entry))
    if (entry.left == 2 && memcmp(entry.at, "h2", 2) == 0) return true;
  return false;
}

/** The message, without the head of its records. */
static bool read_message(struct view message, struct hello *hello) {
  struct view body, part, extensions;
  size_t type, version;
  bool has_name = false;
  if (!take_number(&message, 1, &type) || type != 1 || !take_vector(&message, 3, &body) || message.left > 0) return false;
  if (!take_number(&body, 2, &version) || version >> 8 != 3 || !take(&body, 32, &part)) return false;
  if (!take_vector(&body, 1, &part) || part.left > 32) return false;
  if (!take_vector(&body, 2, &part) || part.left == 0 || part.left % 2 != 0) return false;
  if (!take_vector(&body, 1, &part) || part.left == 0) return false;
  if (!take_vector(&body, 2, &extensions) || body.left > 0) return false;
  hello->has_ech = hello->has_h2 = false;
  while (extensions.left > 0) {
    if (!take_number(&extensions, 2, &type) || !take_vector(&extensions, 2, &part)) return false;
    if (type == 0xfe0d) hello->has_ech = true;
    if (type == 16) hello->has_h2 = has_h2(part);
    if (type != 0) continue;
    if (has_name || !read_server_name(part, hello->name)) return false;
    has_name = true;
  }
  return has_name;
}

/** The message is in `length` bytes of whole records. */
static bool read_records(const unsigned char *bytes, size_t length, struct hello *hello) {
  static unsigned char message[MAX_HELLO + 4];
  size_t gathered = 0;
  for (size_t at = 0; at < length;) {
    size_t part = (size_t)bytes[at + 3] << 8 | bytes[at + 4];
    memcpy(message + gathered, bytes + at + RECORD_HEAD, part);
    gathered += part;
    at += RECORD_HEAD + part;
  }
  return read_message((struct view){message, gathered}, hello);
}

/** Of a message of which 4 bytes are known. */
static size_t message_length(const unsigned char *first) {
  return 4 + ((size_t)first[1] << 16 | (size_t)first[2] << 8 | first[3]);
}

/** Judges the bytes at the beginning of a stream. `progress`: of earlier calls, with fewer of the same bytes. */
static enum parsed read_hello(const unsigned char *bytes, size_t count, struct hello *hello,
                              struct progress *progress) {
  unsigned char *first = progress->first;
  size_t at = progress->count, gathered = progress->gathered;
  size_t wanted = gathered < 4 ? 4 : message_length(first);
  while (gathered < wanted) {
    size_t length = 0;
    if (count - at >= 1 && bytes[at] != HANDSHAKE) return INVALID;
    if (count - at >= 2 && bytes[at + 1] != 3) return INVALID;
    if (count - at >= RECORD_HEAD) {
      length = (size_t)bytes[at + 3] << 8 | bytes[at + 4];
      if (length == 0 || length > 16384) return INVALID;
    }
    // What is complete of a record is not waited for longer than the rest of it.
    size_t part = count - at < RECORD_HEAD ? 0 : count - at - RECORD_HEAD;
    bool is_whole = count - at >= RECORD_HEAD && part >= length;
    if (part > length) part = length;
    if (gathered + part > MAX_HELLO + 4) return INVALID;
    for (size_t next = 0; next < part && gathered + next < 4; next++)
      first[gathered + next] = bytes[at + RECORD_HEAD + next];
    gathered += part;
    if (gathered >= 1 && first[0] != 1) return INVALID;
    if (gathered >= 4) {
      wanted = message_length(first);
      if (wanted > MAX_HELLO + 4) return INVALID;
    }
    if (!is_whole) return count >= MAX_HELLO_RECORDS ? INVALID : INCOMPLETE;
    at += RECORD_HEAD + length;
    progress->count = at;
    progress->gathered = gathered;
  }
  *progress = (struct progress){0};
  if (at > MAX_HELLO_RECORDS) return INVALID;
  hello->length = at;
  // Another message in the last record would not be judged.
  return gathered == wanted && read_records(bytes, at, hello) ? WHOLE : INVALID;
}

/** Whether a server's first bytes ask for a second hello (RFC 8446, 4.1.3), which then has to be judged as well. */
static bool asks_again(const unsigned char *bytes, size_t count) {
  static const unsigned char RETRY[32] = {
      0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
      0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c};
  enum { RANDOM_AT = RECORD_HEAD + 4 + 2 };
  return count >= RANDOM_AT + sizeof RETRY && bytes[0] == HANDSHAKE && bytes[RECORD_HEAD] == 2 &&
         memcmp(bytes + RANDOM_AT, RETRY, sizeof RETRY) == 0;
}
