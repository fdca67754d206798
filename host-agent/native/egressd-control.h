// Part of egressd.c: the control connection, and the verdicts of the daemon.

enum { MAX_ADDRESSES = 16, MAX_TAG = 639, MAX_VERDICTS = 128, MAX_LINE = 4096, OUT_BYTES = 1 << 21, IN_BYTES = 1 << 16 };

struct verdict {
  char key[MAX_NAME + 32];
  struct in_addr addresses[MAX_ADDRESSES];
  int count;
  long long until;
  /** By the gateway; holds only while one waits. */
  bool is_read;
  /** The daemon's own word about it, which records of connections repeat. */
  char tag[MAX_TAG + 1];
};

static struct verdict verdicts[MAX_VERDICTS];
static int next_verdict;
/** Only their sockets and addresses are used. */
static struct side control_port = {.sock = -1}, control = {.sock = -1};
static char input[IN_BYTES], output[OUT_BYTES];
static size_t input_count, output_from, output_to;

static void drop_control(void) {
  if (control.sock >= 0) close(control.sock);
  control.sock = -1;
  control.is_watched = false;
  input_count = output_from = output_to = 0;
}

static void flush_control(void) {
  while (control.sock >= 0 && output_from < output_to) {
    ssize_t sent = send(control.sock, output + output_from, output_to - output_from, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) drop_control();
    else output_from += sent;
  }
  if (output_from == output_to) output_from = output_to = 0;
  if (control.sock >= 0) watch(&control, EPOLLIN | (output_to > 0 ? EPOLLOUT : 0));
}

/** False where no daemon is, it does not read, or the line is too long. */
static bool say(const char *format, ...) {
  if (control.sock < 0) return false;
  if (OUT_BYTES - output_to < MAX_LINE && output_from > 0) {
    memmove(output, output + output_from, output_to - output_from);
    output_to -= output_from;
    output_from = 0;
  }
  if (OUT_BYTES - output_to < MAX_LINE) return false;
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(output + output_to, MAX_LINE, format, arguments);
  va_end(arguments);
  if (length < 0 || length >= MAX_LINE) return false;
  output_to += length;
  return true;
}

static void key_of(const struct link *link, char *key, size_t size) {
  snprintf(key, size, "%s%s %s %d", KINDS[link->kind], ROLES[link->role], link->name, link->port);
}

static void ask(struct link *link) {
  char key[sizeof verdicts->key];
  key_of(link, key, sizeof key);
  for (int at = 0; at < MAX_VERDICTS; at++) {
    struct verdict *verdict = &verdicts[at];
    if (verdict->until <= now_ms() || strcmp(verdict->key, key) != 0) continue;
    if (verdict->is_read && find_waiting() == NULL) break;
    apply_verdict(link, verdict);
    return;
  }
  // Without a daemon it waits for the next one, as long as for an answer.
  say("ask %llu %s\n", link->id, key);
}

static struct link *find_link(unsigned long long id) {
  for (struct link *link = links; link != NULL; link = link->next)
    if (link->id == id && !link->is_over) return link;
  return NULL;
}

/** `ID SECONDS TAG ADDRESS…` */
static void accept_verdict(char *words, bool is_read) {
  char *rest, *id = strtok_r(words, " ", &rest), *seconds = strtok_r(NULL, " ", &rest);
  char *tag = strtok_r(NULL, " ", &rest);
  if (tag == NULL || strlen(tag) > MAX_TAG) return;
  struct link *link = find_link(strtoull(id, NULL, 10));
  if (link == NULL || link->stage != ASKING || (is_read && link->role != PLAIN)) return;
  struct verdict *verdict = &verdicts[next_verdict];
  next_verdict = (next_verdict + 1) % MAX_VERDICTS;
  *verdict = (struct verdict){.until = now_ms() + strtoll(seconds, NULL, 10) * 1000, .is_read = is_read};
  strcpy(verdict->tag, tag);
  key_of(link, verdict->key, sizeof verdict->key);
  for (char *word; verdict->count < MAX_ADDRESSES && (word = strtok_r(NULL, " ", &rest)) != NULL;)
    if (inet_pton(AF_INET, word, &verdict->addresses[verdict->count]) == 1) verdict->count++;
  apply_verdict(link, verdict);
}

/** `ID REASON TAG` */
static void accept_refusal(char *words, bool is_change) {
  char *rest, *id = strtok_r(words, " ", &rest), *reason = strtok_r(NULL, " ", &rest);
  char *tag = strtok_r(NULL, " ", &rest);
  if (tag == NULL || strlen(tag) > MAX_TAG) return;
  struct link *link = find_link(strtoull(id, NULL, 10));
  if (link == NULL || (link->stage != ASKING && !is_change)) return;
  // What was allowed keeps its own word.
  if (!is_change) strcpy(link->tag, tag);
  refuse(link, reason, is_change ? 0 : 403);
}

/** Verdicts do not hold any more. The daemon judges the connections that had one. */
static void list_judged(void) {
  char key[sizeof verdicts->key];
  for (int at = 0; at < MAX_VERDICTS; at++) verdicts[at].until = 0;
  for (struct link *link = links; link != NULL; link = link->next) {
    if (link->is_over || link->stage < HANDING) continue;
    key_of(link, key, sizeof key);
    // One that cannot be judged must not stay.
    if (!say("flow %llu %s\n", link->id, key)) refuse(link, "policy", 0);
  }
  say("flows\n");
}

static void obey_line(char *line) {
  if (strncmp(line, "yes ", 4) == 0) accept_verdict(line + 4, false);
  else if (strncmp(line, "read ", 5) == 0) accept_verdict(line + 5, true);
  else if (strncmp(line, "no ", 3) == 0) accept_refusal(line + 3, false);
  else if (strncmp(line, "close ", 6) == 0) accept_refusal(line + 6, true);
  else if (strcmp(line, "list") == 0) list_judged();
  else if (strncmp(line, "sync ", 5) == 0) say("synced %s\n", line + 5);
}

static void obey(void) {
  ssize_t got = recv(control.sock, input + input_count, IN_BYTES - input_count, MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0) {
    drop_control();
    return;
  }
  input_count += got;
  size_t from = 0;
  for (char *end; (end = memchr(input + from, '\n', input_count - from)) != NULL; from = end - input + 1) {
    *end = '\0';
    obey_line(input + from);
  }
  memmove(input, input + from, input_count - from);
  input_count -= from;
  if (input_count == IN_BYTES) drop_control();
}

static void welcome_control(void) {
  int next = accept4(control_port.sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (next < 0) return;
  drop_control();
  control.sock = next;
  watch(&control, EPOLLIN);
  for (struct link *link = links; link != NULL; link = link->next)
    if (!link->is_over && link->stage == ASKING) ask(link);
}
