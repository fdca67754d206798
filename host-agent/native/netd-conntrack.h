// Part of netd.c: removes a guest's entries from the host's conntrack table, and lists those of a guest's namespace.
// The host's would outlive the guest, an established one for days, and the table is limited for the whole host.

/** Finds an attribute by its type; NULL if there is none. */
static struct rtattr *find_attribute(void *first, int length, int type) {
  for (struct rtattr *at = first; RTA_OK(at, length); at = RTA_NEXT(at, length))
    if ((at->rta_type & NLA_TYPE_MASK) == type) return at;
  return NULL;
}

/** Whether a tuple's source is the address. */
static bool is_from(struct rtattr *tuple, struct in_addr guest) {
  struct rtattr *ip = tuple == NULL ? NULL : find_attribute(RTA_DATA(tuple), RTA_PAYLOAD(tuple), CTA_TUPLE_IP);
  struct rtattr *source = ip == NULL ? NULL : find_attribute(RTA_DATA(ip), RTA_PAYLOAD(ip), CTA_IP_V4_SRC);
  return source != NULL && RTA_PAYLOAD(source) == sizeof guest && memcmp(RTA_DATA(source), &guest, sizeof guest) == 0;
}

static struct nlmsghdr *begin_conntrack(union message *message, int type, int flags) {
  struct nlmsghdr *header = (struct nlmsghdr *)message->bytes;
  *header = (struct nlmsghdr){.nlmsg_len = NLMSG_LENGTH(sizeof(struct nfgenmsg)),
                              .nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 | type,
                              .nlmsg_flags = NLM_F_REQUEST | flags};
  *(struct nfgenmsg *)NLMSG_DATA(header) = (struct nfgenmsg){.nfgen_family = AF_INET, .version = NFNETLINK_V0};
  return header;
}

static void remove_entry(struct nlmsghdr *entry) {
  struct rtattr *first = (struct rtattr *)((char *)NLMSG_DATA(entry) + NLMSG_ALIGN(sizeof(struct nfgenmsg)));
  int length = (int)entry->nlmsg_len - (int)NLMSG_LENGTH(sizeof(struct nfgenmsg));
  union message message = {.bytes = {0}};
  struct nlmsghdr *header = begin_conntrack(&message, IPCTNL_MSG_CT_DELETE, 0);
  // Also matches its id: another entry may have replaced it.
  const int copied[] = {CTA_TUPLE_ORIG, CTA_ZONE, CTA_ID};
  for (size_t at = 0; at < sizeof copied / sizeof *copied; at++) {
    struct rtattr *part = find_attribute(first, length, copied[at]);
    if (part != NULL) attribute(header, part->rta_type, RTA_DATA(part), RTA_PAYLOAD(part));
  }
  int error = ask_kernel(NETLINK_NETFILTER, header);
  errno = -error;
  if (error != 0 && error != -ENOENT) fail("end a tracked connection");
}

/** Removes the entry if either side of it is the guest's. */
static void forget_entry(struct nlmsghdr *entry, struct in_addr guest) {
  struct rtattr *first = (struct rtattr *)((char *)NLMSG_DATA(entry) + NLMSG_ALIGN(sizeof(struct nfgenmsg)));
  int length = (int)entry->nlmsg_len - (int)NLMSG_LENGTH(sizeof(struct nfgenmsg));
  struct rtattr *original = find_attribute(first, length, CTA_TUPLE_ORIG);
  struct rtattr *reply = find_attribute(first, length, CTA_TUPLE_REPLY);
  if (original != NULL && (is_from(original, guest) || is_from(reply, guest))) remove_entry(entry);
}

/** Iterates over all entries of the caller's namespace, one netlink message at a time. */
static void each_connection(void (*each)(struct nlmsghdr *entry, struct in_addr guest), struct in_addr guest) {
  union message message = {.bytes = {0}};
  struct nlmsghdr *header = begin_conntrack(&message, IPCTNL_MSG_CT_GET, NLM_F_DUMP);
  static int sock;
  sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
  if (sock < 0) fail("open a netlink socket");
  static char buffer[1 << 16];
  ssize_t length = send(sock, header, header->nlmsg_len, 0);
  for (bool is_done = false; !is_done && length >= 0;) {
    length = recv(sock, buffer, sizeof buffer, 0);
    int rest = length;
    for (struct nlmsghdr *at = (struct nlmsghdr *)buffer; NLMSG_OK(at, rest); at = NLMSG_NEXT(at, rest)) {
      if (at->nlmsg_type == NLMSG_ERROR) {
        errno = -((struct nlmsgerr *)NLMSG_DATA(at))->error;
        length = -1;
      }
      is_done = is_done || at->nlmsg_type == NLMSG_DONE;
      if (at->nlmsg_type == (NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW)) each(at, guest);
    }
  }
  int error = errno;
  close(sock);
  errno = error;
  if (length < 0) fail("list tracked connections");
}

static void forget_connections(struct in_addr guest) {
  each_connection(forget_entry, guest);
}

/** The value of an attribute, by a path of nested ones; NULL if there is none of that length. */
static const void *find_value(struct rtattr *at, int outer, int inner, size_t length) {
  if (at != NULL) at = find_attribute(RTA_DATA(at), RTA_PAYLOAD(at), outer);
  if (at != NULL) at = find_attribute(RTA_DATA(at), RTA_PAYLOAD(at), inner);
  return at != NULL && RTA_PAYLOAD(at) == length ? RTA_DATA(at) : NULL;
}

/** The connections to end: the clients' ends and the host's, with addresses and ports in network order. */
struct client {
  uint32_t address, to;
  uint16_t port, to_port;
};
static struct client *cut_clients;
static size_t cut_count;
/** In network order; 0: any. */
static uint32_t cut_address;
static uint16_t cut_port, cut_guest_port;

/** The client's end of a TCP connection from outside to the guest's port; NULL for another entry. */
static struct client *client_of(struct nlmsghdr *entry, struct in_addr guest) {
  static struct client client;
  struct rtattr *first = (struct rtattr *)((char *)NLMSG_DATA(entry) + NLMSG_ALIGN(sizeof(struct nfgenmsg)));
  int length = (int)entry->nlmsg_len - (int)NLMSG_LENGTH(sizeof(struct nfgenmsg));
  struct rtattr *original = find_attribute(first, length, CTA_TUPLE_ORIG);
  struct rtattr *reply = find_attribute(first, length, CTA_TUPLE_REPLY);
  const uint8_t *protocol = find_value(original, CTA_TUPLE_PROTO, CTA_PROTO_NUM, 1);
  const uint16_t *guest_port = find_value(reply, CTA_TUPLE_PROTO, CTA_PROTO_SRC_PORT, 2);
  const uint32_t *from = find_value(original, CTA_TUPLE_IP, CTA_IP_V4_SRC, 4);
  const uint16_t *from_port = find_value(original, CTA_TUPLE_PROTO, CTA_PROTO_SRC_PORT, 2);
  const uint32_t *address = find_value(original, CTA_TUPLE_IP, CTA_IP_V4_DST, 4);
  const uint16_t *port = find_value(original, CTA_TUPLE_PROTO, CTA_PROTO_DST_PORT, 2);
  if (protocol == NULL || *protocol != IPPROTO_TCP || guest_port == NULL || from == NULL) return NULL;
  if (from_port == NULL || address == NULL || port == NULL) return NULL;
  if (!is_from(reply, guest) || (cut_guest_port != 0 && *guest_port != cut_guest_port)) return NULL;
  client = (struct client){.address = *from, .to = *address, .port = *from_port, .to_port = *port};
  return &client;
}

/** Not one of portd, which connects to the guest's own address. */
static bool is_to_cut_port(const struct client *client, struct in_addr guest) {
  bool is_address = cut_address == 0 || client->to == cut_address;
  return is_address && client->to != guest.s_addr && (cut_port == 0 || client->to_port == cut_port);
}

static void note_client(struct nlmsghdr *entry, struct in_addr guest) {
  struct client *client = client_of(entry, guest);
  if (client == NULL || !is_to_cut_port(client, guest)) return;
  struct client *more = realloc(cut_clients, (cut_count + 1) * sizeof *more);
  if (more == NULL) fail("list connections");
  cut_clients = more;
  cut_clients[cut_count++] = *client;
}

/** In the guest's namespace, where the destination is the guest itself. */
static void cut_inside(struct nlmsghdr *entry, struct in_addr guest) {
  struct client *client = client_of(entry, guest);
  for (size_t at = 0; client != NULL && at < cut_count; at++) {
    if (cut_clients[at].address != client->address || cut_clients[at].port != client->port) continue;
    remove_entry(entry);
    return;
  }
}

static void cut_outside(struct nlmsghdr *entry, struct in_addr guest) {
  struct client *client = client_of(entry, guest);
  if (client != NULL && is_to_cut_port(client, guest)) remove_entry(entry);
}

/** First in the namespace: the gate there then refuses packets of both ends, and nothing tracks them again. */
static void cut_connections(char **args) {
  struct in_addr guest = address(args[1]);
  cut_guest_port = htons(atoi(args[2]));
  cut_address = strcmp(args[3], "-") == 0 ? 0 : address(args[3]).s_addr;
  cut_port = htons(atoi(args[4]));
  cut_count = 0;
  each_connection(note_client, guest);
  if (cut_count == 0) return;
  enter(args[0]);
  each_connection(cut_inside, guest);
  go_home();
  each_connection(cut_outside, guest);
}

static uint32_t counted_mask;
static size_t inward_count;

/** Counts an established TCP connection to a guest of the range. */
static void count_inward(struct nlmsghdr *entry, struct in_addr range) {
  struct rtattr *first = (struct rtattr *)((char *)NLMSG_DATA(entry) + NLMSG_ALIGN(sizeof(struct nfgenmsg)));
  int length = (int)entry->nlmsg_len - (int)NLMSG_LENGTH(sizeof(struct nfgenmsg));
  const uint32_t *guest = find_value(find_attribute(first, length, CTA_TUPLE_REPLY), CTA_TUPLE_IP, CTA_IP_V4_SRC, 4);
  struct rtattr *about = find_attribute(first, length, CTA_PROTOINFO);
  const uint8_t *tcp = find_value(about, CTA_PROTOINFO_TCP, CTA_PROTOINFO_TCP_STATE, 1);
  if (guest == NULL || (*guest & counted_mask) != range.s_addr || tcp == NULL) return;
  if (*tcp == TCP_CONNTRACK_ESTABLISHED) inward_count++;
}

static char *count_connections(struct in_addr range, int prefix) {
  char *text = NULL;
  counted_mask = htonl(prefix == 0 ? 0 : ~0u << (32 - prefix));
  inward_count = 0;
  each_connection(count_inward, range);
  if (asprintf(&text, "%zu", inward_count) < 0) fail("count connections");
  return text;
}

static FILE *listing;

/** Prints a TCP connection of the guest that has not been reset: its port, the peer's port and address, in hex. */
static void list_entry(struct nlmsghdr *entry, struct in_addr guest) {
  struct rtattr *first = (struct rtattr *)((char *)NLMSG_DATA(entry) + NLMSG_ALIGN(sizeof(struct nfgenmsg)));
  int length = (int)entry->nlmsg_len - (int)NLMSG_LENGTH(sizeof(struct nfgenmsg));
  struct rtattr *tuple = find_attribute(first, length, CTA_TUPLE_ORIG);
  bool is_own = is_from(tuple, guest);
  // Of a connection from outside, the reply is the guest's.
  if (!is_own) tuple = find_attribute(first, length, CTA_TUPLE_REPLY);
  const uint8_t *protocol = find_value(tuple, CTA_TUPLE_PROTO, CTA_PROTO_NUM, 1);
  struct rtattr *about = find_attribute(first, length, CTA_PROTOINFO);
  struct rtattr *tcp = about == NULL ? NULL : find_attribute(RTA_DATA(about), RTA_PAYLOAD(about), CTA_PROTOINFO_TCP);
  struct rtattr *state = tcp == NULL ? NULL : find_attribute(RTA_DATA(tcp), RTA_PAYLOAD(tcp), CTA_PROTOINFO_TCP_STATE);
  const uint16_t *port = find_value(tuple, CTA_TUPLE_PROTO, CTA_PROTO_SRC_PORT, 2);
  const uint16_t *peer_port = find_value(tuple, CTA_TUPLE_PROTO, CTA_PROTO_DST_PORT, 2);
  const uint32_t *peer = find_value(tuple, CTA_TUPLE_IP, CTA_IP_V4_DST, 4);
  if (!is_from(tuple, guest) || protocol == NULL || *protocol != IPPROTO_TCP) return;
  if (state == NULL || *(uint8_t *)RTA_DATA(state) == TCP_CONNTRACK_CLOSE) return;
  if (port == NULL || peer_port == NULL || peer == NULL) return;
  fprintf(listing, "%04x%04x%08x", ntohs(*port), ntohs(*peer_port), ntohl(*peer));
}

static char *list_connections(struct in_addr guest, void (*each)(struct nlmsghdr *entry, struct in_addr guest)) {
  static char *text;
  size_t length;
  listing = open_memstream(&text, &length);
  if (listing == NULL) fail("list connections");
  jmp_buf outer;
  memcpy(&outer, &refused, sizeof outer);
  if (setjmp(refused) != 0) {
    fclose(listing);
    free(text);
    memcpy(&refused, &outer, sizeof outer);
    longjmp(refused, 1);
  }
  each_connection(each, guest);
  memcpy(&refused, &outer, sizeof outer);
  fclose(listing);
  return text;
}
