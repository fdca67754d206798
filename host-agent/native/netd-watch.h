// Part of netd.c: packets that rules of a namespace log, and connections of its guest that are over.
struct watch {
  char *pin;
  char *name;
  int sock;
  struct ended ended;
  struct watch *next;
};
static struct watch *watches;
static int watch_count;

static void forget_watch(const char *pin) {
  for (struct watch **at = &watches; *at != NULL;) {
    struct watch *watch = *at;
    if (strcmp(watch->pin, pin) != 0) {
      at = &watch->next;
      continue;
    }
    *at = watch->next;
    close(watch->sock);
    close(watch->ended.sock);
    free(watch->pin);
    free(watch->name);
    free(watch);
    watch_count--;
  }
}

static void configure_log(int sock, int type, const void *data, size_t length) {
  struct { struct nlmsghdr header; struct nfgenmsg family; char attributes[64]; } message = {
    .header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct nfgenmsg)),
               .nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG,
               .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
    .family = {.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(LOG_GROUP)},
  };
  attribute(&message.header, type, data, length);
  char answer[1024];
  struct nlmsghdr *first = (struct nlmsghdr *)answer;
  if (send(sock, &message, message.header.nlmsg_len, 0) < 0) fail("ask for logged packets");
  if (recv(sock, answer, sizeof answer, 0) < (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr))) fail("get logged packets");
  errno = -((struct nlmsgerr *)NLMSG_DATA(first))->error;
  if (first->nlmsg_type == NLMSG_ERROR && errno != 0) fail("get logged packets");
}

static void watch_slot(const char *pin, const char *name) {
  forget_watch(pin);
  enter(pin);
  struct ended ended = watch_ended(address(name));
  int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
  if (sock < 0) {
    close(ended.sock);
    fail("open a netlink socket");
  }
  struct watch *watch = calloc(1, sizeof *watch);
  *watch = (struct watch){.pin = strdup(pin), .name = strdup(name), .sock = sock, .ended = ended, .next = watches};
  watches = watch;
  watch_count++;
  struct nfulnl_msg_config_cmd bind_group = {.command = NFULNL_CFG_CMD_BIND};
  configure_log(sock, NFULA_CFG_CMD, &bind_group, sizeof bind_group);
  struct nfulnl_msg_config_mode mode = {.copy_mode = NFULNL_COPY_PACKET, .copy_range = htonl(LOGGED_BYTES)};
  configure_log(sock, NFULA_CFG_MODE, &mode, sizeof mode);
  // Deliver each packet immediately, without batching.
  uint32_t threshold = htonl(1);
  configure_log(sock, NFULA_CFG_QTHRESH, &threshold, sizeof threshold);
}

static void tell_packet(const struct watch *watch, struct nlmsghdr *header) {
  if (header->nlmsg_type != (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET)) return;
  struct rtattr *at = (struct rtattr *)((char *)NLMSG_DATA(header) + NLMSG_ALIGN(sizeof(struct nfgenmsg)));
  int rest = (int)header->nlmsg_len - (int)NLMSG_LENGTH(sizeof(struct nfgenmsg));
  for (; RTA_OK(at, rest); at = RTA_NEXT(at, rest)) {
    if ((at->rta_type & ~NLA_F_NESTED) != NFULA_PAYLOAD) continue;
    int length = RTA_PAYLOAD(at);
    printf("logged %s ", watch->name);
    for (int byte = 0; byte < length && byte < LOGGED_BYTES; byte++)
      printf("%02x", ((unsigned char *)RTA_DATA(at))[byte]);
    printf("\n");
    fflush(stdout);
    return;
  }
}

static void read_log(const struct watch *watch) {
  static char buffer[65536];
  ssize_t length = recv(watch->sock, buffer, sizeof buffer, MSG_DONTWAIT);
  if (length < 0) return;
  int rest = length;
  for (struct nlmsghdr *at = (struct nlmsghdr *)buffer; NLMSG_OK(at, rest); at = NLMSG_NEXT(at, rest))
    tell_packet(watch, at);
}

/** Reads what there is of each; returns how long to wait for more, in milliseconds, or -1. */
static int read_watches(const struct pollfd *files) {
  static double expired_at;
  int wait_ms = watches == NULL ? -1 : EXPIRE_MS;
  for (struct watch *watch = watches; watch != NULL; watch = watch->next) {
    if (files++->revents != 0) read_log(watch);
    if (files++->revents != 0 || watch->ended.missed > 0) read_ended(&watch->ended);
    if (watch->ended.missed > 0) wait_ms = RETRY_MS;
  }
  if (watches != NULL && now_s() - expired_at >= EXPIRE_MS / 1000.0) {
    expire_entries(watches->pin);
    expired_at = now_s();
  }
  return wait_ms;
}
