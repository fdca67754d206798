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

/** Removes the entry if either side of it is the guest's. */
static void forget_entry(struct nlmsghdr *entry, struct in_addr guest) {
  struct rtattr *first = (struct rtattr *)((char *)NLMSG_DATA(entry) + NLMSG_ALIGN(sizeof(struct nfgenmsg)));
  int length = (int)entry->nlmsg_len - (int)NLMSG_LENGTH(sizeof(struct nfgenmsg));
  struct rtattr *original = find_attribute(first, length, CTA_TUPLE_ORIG);
  struct rtattr *reply = find_attribute(first, length, CTA_TUPLE_REPLY);
  if (original == NULL || (!is_from(original, guest) && !is_from(reply, guest))) return;
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

static FILE *listing;

/** The value of an attribute, by a path of nested ones; NULL if there is none of that length. */
static const void *find_value(struct rtattr *at, int outer, int inner, size_t length) {
  if (at != NULL) at = find_attribute(RTA_DATA(at), RTA_PAYLOAD(at), outer);
  if (at != NULL) at = find_attribute(RTA_DATA(at), RTA_PAYLOAD(at), inner);
  return at != NULL && RTA_PAYLOAD(at) == length ? RTA_DATA(at) : NULL;
}

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
