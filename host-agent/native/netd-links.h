// Part of netd.c: sysctl settings, links, addresses and routes of the caller's namespace.
static void write_setting(bool is_needed, const char *value, const char *format, ...) {
  char path[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(path, sizeof path, format, arguments);
  va_end(arguments);
  int file = open(path, O_WRONLY | O_CLOEXEC);
  bool is_done = file >= 0 && write(file, value, strlen(value)) >= 0;
  int error = errno;
  if (file >= 0) close(file);
  errno = error;
  // A kernel without IPv6 lacks its settings.
  if (!is_done && (is_needed || errno != ENOENT)) fail("write %s to %s", value, path);
}

static struct in_addr address(const char *text) {
  struct in_addr parsed;
  errno = EINVAL;
  if (inet_pton(AF_INET, text, &parsed) != 1) fail("read the address %s", text);
  return parsed;
}

static void read_mac(const char *text, void *mac) {
  unsigned octets[6];
  errno = EINVAL;
  if (sscanf(text, "%x:%x:%x:%x:%x:%x", octets, octets + 1, octets + 2, octets + 3, octets + 4, octets + 5) != 6)
    fail("read the MAC address %s", text);
  for (int at = 0; at < 6; at++) ((unsigned char *)mac)[at] = octets[at];
}

static struct sockaddr to_sockaddr(struct in_addr of) {
  struct sockaddr_in typed = {.sin_family = AF_INET, .sin_addr = of};
  struct sockaddr generic;
  memcpy(&generic, &typed, sizeof generic);
  return generic;
}

static struct ifreq link_named(const char *name) {
  struct ifreq request = {0};
  errno = ENAMETOOLONG;
  if (strlen(name) >= IFNAMSIZ) fail("name a link %s", name);
  strcpy(request.ifr_name, name);
  return request;
}

static void link_up(int sock, const char *name, short flags) {
  struct ifreq request = link_named(name);
  if (ioctl(sock, SIOCGIFFLAGS, &request) < 0) fail("find link %s", name);
  request.ifr_flags |= IFF_UP | flags;
  if (ioctl(sock, SIOCSIFFLAGS, &request) < 0) fail("set link %s up", name);
}

static void set_address(int sock, const char *name, struct in_addr to, int prefix) {
  struct ifreq request = link_named(name);
  request.ifr_addr = to_sockaddr(to);
  if (ioctl(sock, SIOCSIFADDR, &request) < 0) fail("give link %s its address", name);
  request.ifr_netmask = to_sockaddr((struct in_addr){htonl(prefix == 0 ? 0 : ~0U << (32 - prefix))});
  if (ioctl(sock, SIOCSIFNETMASK, &request) < 0) fail("give link %s its network", name);
}

/** A route over the link itself, without a gateway. */
static void add_route(int sock, char *name, struct in_addr to, int prefix) {
  struct rtentry route = {.rt_flags = RTF_UP, .rt_dev = name};
  route.rt_dst = to_sockaddr(to);
  route.rt_genmask = to_sockaddr((struct in_addr){prefix == 0 ? 0 : htonl(~0U << (32 - prefix))});
  if (ioctl(sock, SIOCADDRT, &route) < 0) fail("add a route by link %s", name);
}

/** Creates a persistent tun device. In the host's namespace it gets an owner: every user may open one without. */
static void make_tun(const char *name, short flags, bool is_roots) {
  struct ifreq request = link_named(name);
  request.ifr_flags = flags | IFF_NO_PI;
  int device = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (device < 0) fail("open /dev/net/tun");
  if (ioctl(device, TUNSETIFF, &request) < 0 || (is_roots && ioctl(device, TUNSETOWNER, 0) < 0) ||
      ioctl(device, TUNSETPERSIST, 1) < 0) {
    int error = errno;
    close(device);
    errno = error;
    fail("make the link %s", name);
  }
  close(device);
}

/** A netlink request about a link, with space for its attributes. */
union message {
  struct nlmsghdr header;
  char bytes[512];
};

static struct nlmsghdr *begin(union message *message, int type, int flags) {
  struct nlmsghdr *header = (struct nlmsghdr *)message->bytes;
  *header = (struct nlmsghdr){
    .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)), .nlmsg_type = type, .nlmsg_flags = flags};
  return header;
}

static struct rtattr *attribute(struct nlmsghdr *header, int type, const void *data, size_t length) {
  struct rtattr *at = (struct rtattr *)((char *)header + NLMSG_ALIGN(header->nlmsg_len));
  at->rta_type = type;
  at->rta_len = RTA_LENGTH(length);
  if (length > 0) memcpy(RTA_DATA(at), data, length);
  header->nlmsg_len = NLMSG_ALIGN(header->nlmsg_len) + RTA_ALIGN(at->rta_len);
  return at;
}

static void close_attribute(struct nlmsghdr *header, struct rtattr *at) {
  at->rta_len = (char *)header + header->nlmsg_len - (char *)at;
}

/** Sends a request and waits for its acknowledgement; 0 or -errno. */
static int ask_kernel(int protocol, struct nlmsghdr *header) {
  int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
  if (sock < 0) return -errno;
  char answer[8192];
  ssize_t length = -1;
  header->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
  if (send(sock, header, header->nlmsg_len, 0) >= 0) length = recv(sock, answer, sizeof answer, 0);
  int error = length < 0 ? -errno : -EPROTO;
  close(sock);
  struct nlmsghdr *first = (struct nlmsghdr *)answer;
  if (length >= (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)) && first->nlmsg_type == NLMSG_ERROR)
    error = ((struct nlmsgerr *)NLMSG_DATA(first))->error;
  return error;
}

/** Creates a veth pair: up0 here, `name` in the host's namespace. */
static void make_pair(const char *name) {
  union message message = {.bytes = {0}};
  struct nlmsghdr *header = begin(&message, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
  attribute(header, IFLA_IFNAME, "up0", 4);
  attribute(header, IFLA_ADDRESS, LINK_MAC, sizeof LINK_MAC);
  struct rtattr *info = attribute(header, IFLA_LINKINFO, NULL, 0);
  attribute(header, IFLA_INFO_KIND, "veth", 4);
  struct rtattr *data = attribute(header, IFLA_INFO_DATA, NULL, 0);
  struct rtattr *peer = attribute(header, VETH_INFO_PEER, NULL, 0);
  memset((char *)header + header->nlmsg_len, 0, sizeof(struct ifinfomsg));
  header->nlmsg_len += sizeof(struct ifinfomsg);
  attribute(header, IFLA_IFNAME, name, strlen(name) + 1);
  attribute(header, IFLA_ADDRESS, LINK_MAC, sizeof LINK_MAC);
  attribute(header, IFLA_NET_NS_FD, &host_namespace, sizeof host_namespace);
  close_attribute(header, peer);
  close_attribute(header, data);
  close_attribute(header, info);
  int error = ask_kernel(NETLINK_ROUTE, header);
  errno = -error;
  if (error != 0) fail("make the link %s", name);
}

static void unlink_link(const char *name) {
  union message message = {.bytes = {0}};
  struct nlmsghdr *header = begin(&message, RTM_DELLINK, 0);
  attribute(header, IFLA_IFNAME, name, strlen(name) + 1);
  int error = ask_kernel(NETLINK_ROUTE, header);
  errno = -error;
  if (error != 0 && error != -ENODEV) fail("remove the link %s", name);
}
