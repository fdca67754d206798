// Part of netd.c: removes a guest's entries from the host's conntrack table. They would outlive the guest, an
// established one for days, and the table is limited for the whole host.

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
static void forget_connections(struct in_addr guest) {
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
      if (at->nlmsg_type == (NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW)) forget_entry(at, guest);
    }
  }
  int error = errno;
  close(sock);
  errno = error;
  if (length < 0) fail("list tracked connections");
}
