// Part of netd.c: connections that a guest opened and that its policy does not allow any more. They are removed from the
// conntrack table of its namespace, and both ends are told.
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/ip.h>
#include <linux/icmp.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <sys/random.h>

/** One connection, from the guest's side. For ICMP the ports are its id, and its type and code. */
struct flow {
  uint8_t protocol;
  uint8_t state;
  uint16_t port;
  uint16_t peer_port;
  uint32_t peer;
};

enum { FLOW_DIGITS = 20, MAX_FLOWS = 65536, MAX_NAMED = 64 };

static struct flow *flows;
static int flow_count;

/** Whether the rules lead it to a program of the namespace, or to the resolver, which closes what is not allowed. */
static bool is_redirected(struct rtattr *first, int length) {
  struct rtattr *status = find_attribute(first, length, CTA_STATUS);
  uint32_t bits = 0;
  if (status != NULL && RTA_PAYLOAD(status) == sizeof bits) memcpy(&bits, RTA_DATA(status), sizeof bits);
  return (ntohl(bits) & IPS_DST_NAT) != 0;
}

/** False for a connection from outside, for one that is redirected, and for protocols without ports. */
static bool read_flow(struct nlmsghdr *entry, struct in_addr guest, struct flow *flow) {
  struct rtattr *first = (struct rtattr *)((char *)NLMSG_DATA(entry) + NLMSG_ALIGN(sizeof(struct nfgenmsg)));
  int length = (int)entry->nlmsg_len - (int)NLMSG_LENGTH(sizeof(struct nfgenmsg));
  struct rtattr *tuple = find_attribute(first, length, CTA_TUPLE_ORIG);
  const uint8_t *protocol = find_value(tuple, CTA_TUPLE_PROTO, CTA_PROTO_NUM, 1);
  const uint32_t *peer = find_value(tuple, CTA_TUPLE_IP, CTA_IP_V4_DST, 4);
  if (!is_from(tuple, guest) || is_redirected(first, length) || protocol == NULL || peer == NULL) return false;
  *flow = (struct flow){.protocol = *protocol, .peer = ntohl(*peer)};
  const uint16_t *port = find_value(tuple, CTA_TUPLE_PROTO, CTA_PROTO_SRC_PORT, 2);
  const uint16_t *peer_port = find_value(tuple, CTA_TUPLE_PROTO, CTA_PROTO_DST_PORT, 2);
  const uint16_t *id = find_value(tuple, CTA_TUPLE_PROTO, CTA_PROTO_ICMP_ID, 2);
  const uint8_t *type = find_value(tuple, CTA_TUPLE_PROTO, CTA_PROTO_ICMP_TYPE, 1);
  if (port != NULL) flow->port = ntohs(*port);
  if (peer_port != NULL) flow->peer_port = ntohs(*peer_port);
  if (id != NULL) flow->port = ntohs(*id);
  if (type != NULL) flow->peer_port = *type << 8;
  struct rtattr *about = find_attribute(first, length, CTA_PROTOINFO);
  const uint8_t *state = find_value(about, CTA_PROTOINFO_TCP, CTA_PROTOINFO_TCP_STATE, 1);
  if (state != NULL) flow->state = *state;
  return true;
}

static void list_flow(struct nlmsghdr *entry, struct in_addr guest) {
  struct flow flow;
  if (!read_flow(entry, guest, &flow)) return;
  fprintf(listing, "%02x%02x%04x%04x%08x", flow.protocol, flow.state, flow.port, flow.peer_port, flow.peer);
}

/** By everything but the state, which changes. */
static int compare_flows(const void *one, const void *other) {
  const struct flow *a = one, *b = other;
  if (a->peer != b->peer) return a->peer < b->peer ? -1 : 1;
  if (a->port != b->port) return a->port < b->port ? -1 : 1;
  if (a->peer_port != b->peer_port) return a->peer_port < b->peer_port ? -1 : 1;
  return (int)a->protocol - (int)b->protocol;
}

/** Reads what `list_flow` wrote. */
static void read_flows(const char *text) {
  flow_count = 0;
  if (flows == NULL) flows = calloc(MAX_FLOWS, sizeof *flows);
  if (flows == NULL) fail("remember connections");
  size_t length = strlen(text);
  errno = EINVAL;
  if (length % FLOW_DIGITS != 0 || length / FLOW_DIGITS > MAX_FLOWS) fail("read connections");
  for (const char *at = text; *at != '\0'; at += FLOW_DIGITS) {
    unsigned protocol, state, port, peer_port, peer;
    if (sscanf(at, "%2x%2x%4x%4x%8x", &protocol, &state, &port, &peer_port, &peer) != 5) fail("read connections");
    flows[flow_count++] = (struct flow){protocol, state, port, peer_port, peer};
  }
  qsort(flows, flow_count, sizeof *flows, compare_flows);
}

static void cut_flow(struct nlmsghdr *entry, struct in_addr guest) {
  struct flow flow;
  if (!read_flow(entry, guest, &flow)) return;
  if (bsearch(&flow, flows, flow_count, sizeof *flows, compare_flows) != NULL) forget_entry(entry, guest);
}

/** Removes one that `list_flow` found; the kernel finds it by itself. */
static void cut_named(const struct flow *flow, struct in_addr guest) {
  union message message = {.bytes = {0}};
  struct nlmsghdr *header = begin_conntrack(&message, IPCTNL_MSG_CT_DELETE, 0);
  uint32_t peer = htonl(flow->peer);
  uint16_t port = htons(flow->port), peer_port = htons(flow->peer_port);
  struct rtattr *tuple = attribute(header, CTA_TUPLE_ORIG | NLA_F_NESTED, NULL, 0);
  struct rtattr *ip = attribute(header, CTA_TUPLE_IP | NLA_F_NESTED, NULL, 0);
  attribute(header, CTA_IP_V4_SRC, &guest, sizeof guest);
  attribute(header, CTA_IP_V4_DST, &peer, sizeof peer);
  close_attribute(header, ip);
  struct rtattr *protocol = attribute(header, CTA_TUPLE_PROTO | NLA_F_NESTED, NULL, 0);
  attribute(header, CTA_PROTO_NUM, &flow->protocol, sizeof flow->protocol);
  attribute(header, CTA_PROTO_SRC_PORT, &port, sizeof port);
  attribute(header, CTA_PROTO_DST_PORT, &peer_port, sizeof peer_port);
  close_attribute(header, protocol);
  close_attribute(header, tuple);
  int error = ask_kernel(NETLINK_NETFILTER, header);
  errno = -error;
  if (error != 0 && error != -ENOENT) fail("end a tracked connection");
}

/** Removes connections of `text`. To look at all that are tracked takes as long as the host's table is large. */
static void drop_flows(const char *text, struct in_addr guest) {
  read_flows(text);
  bool is_named = flow_count <= MAX_NAMED;
  for (int at = 0; at < flow_count; at++)
    is_named = is_named && (flows[at].protocol == IPPROTO_TCP || flows[at].protocol == IPPROTO_UDP);
  if (!is_named) each_connection(cut_flow, guest);
  for (int at = 0; is_named && at < flow_count; at++) cut_named(&flows[at], guest);
}

static uint16_t checksum(uint32_t sum, const void *data, size_t length) {
  const uint8_t *bytes = data;
  for (size_t at = 0; at < length; at += 2) sum += bytes[at] << 8 | (at + 1 < length ? bytes[at + 1] : 0);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return htons(~sum & 0xffff);
}

static struct iphdr ip_header(uint8_t protocol, uint32_t from, uint32_t to, size_t payload) {
  struct iphdr ip = {.version = 4, .ihl = 5, .ttl = 64, .protocol = protocol, .frag_off = htons(0x4000)};
  ip.tot_len = htons(sizeof ip + payload);
  ip.saddr = htonl(from);
  ip.daddr = htonl(to);
  ip.check = checksum(0, &ip, sizeof ip);
  return ip;
}

struct probe {
  struct ethhdr ethernet;
  struct iphdr ip;
  struct tcphdr tcp;
} __attribute__((packed));

/**
 * A segment that either end answers by an acknowledgement, whatever the state of its connection (RFC 5961). The rules
 * answer this one by a reset with the right sequence number, as it belongs to no connection any more.
 */
static struct probe make_probe(uint32_t from, uint16_t port, uint32_t to, uint16_t to_port) {
  struct probe probe = {.tcp = {.source = htons(port), .dest = htons(to_port), .doff = 5, .syn = 1}};
  uint32_t sequence = 0;
  if (getrandom(&sequence, sizeof sequence, GRND_NONBLOCK) < 0) sequence = port;
  probe.tcp.seq = sequence;
  probe.ip = ip_header(IPPROTO_TCP, from, to, sizeof probe.tcp);
  uint32_t pseudo = (from >> 16) + (from & 0xffff) + (to >> 16) + (to & 0xffff) + IPPROTO_TCP + sizeof probe.tcp;
  probe.tcp.check = checksum(pseudo, &probe.tcp, sizeof probe.tcp);
  return probe;
}

/** Tells the clients that `cut_connections` has found. Nothing of the host has a connection to them any more. */
static void tell_clients(void) {
  int sock = cut_count == 0 ? -1 : socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
  if (cut_count > 0 && sock < 0) fail("open a raw socket");
  for (size_t at = 0; at < cut_count; at++) {
    const struct client *client = &cut_clients[at];
    uint16_t from_port = ntohs(client->to_port), to_port = ntohs(client->port);
    struct probe probe = make_probe(ntohl(client->to), from_port, ntohl(client->address), to_port);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = client->address};
    // One that is lost, or not let through, leaves a client that notices when it sends.
    if (sendto(sock, &probe.ip, sizeof probe.ip + sizeof probe.tcp, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof to) < 0)
      errno = 0;
  }
  if (sock >= 0) close(sock);
}

struct notice {
  struct ethhdr ethernet;
  struct iphdr ip;
  struct icmphdr icmp;
  struct iphdr about;
  struct udphdr udp;
} __attribute__((packed));

/** What a rule answers to a datagram that it refuses. */
static struct notice make_notice(const struct flow *flow, uint32_t guest) {
  struct notice notice = {.icmp = {.type = ICMP_DEST_UNREACH, .code = ICMP_PKT_FILTERED}};
  notice.about = ip_header(IPPROTO_UDP, guest, flow->peer, sizeof notice.udp);
  notice.udp = (struct udphdr){htons(flow->port), htons(flow->peer_port), htons(sizeof notice.udp), 0};
  size_t length = sizeof notice.icmp + sizeof notice.about + sizeof notice.udp;
  notice.icmp.checksum = checksum(0, &notice.icmp, length);
  notice.ip = ip_header(IPPROTO_ICMP, flow->peer, guest, length);
  return notice;
}

static void send_frame(int sock, const char *link, const void *frame, size_t length) {
  struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_halen = ETH_ALEN, .sll_ifindex = if_nametoindex(link)};
  memcpy(to.sll_addr, frame, ETH_ALEN);
  // A link that is full or down loses it, as it would lose any packet.
  if (sendto(sock, frame, length, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof to) < 0) errno = 0;
}

/** -1: none. The kernel waits for all processors when it is closed, for which no answer waits. */
static int spent_sock = -1;

static void close_spent(void) {
  if (spent_sock >= 0) close(spent_sock);
  spent_sock = -1;
}

/** Tells both ends of the connections of `text` that they are gone. */
static void tell_ends(const char *text, struct in_addr address, const char *mac, const char *gateway_mac) {
  struct ethhdr to_guest = {.h_proto = htons(ETH_P_IP)}, outward = {.h_proto = htons(ETH_P_IP)};
  read_mac(mac, to_guest.h_dest);
  read_mac(gateway_mac, to_guest.h_source);
  memcpy(outward.h_dest, LINK_MAC, ETH_ALEN);
  memcpy(outward.h_source, LINK_MAC, ETH_ALEN);
  read_flows(text);
  uint32_t guest = ntohl(address.s_addr);
  int sock = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (sock < 0) fail("open a packet socket");
  for (int at = 0; at < flow_count; at++) {
    const struct flow *flow = &flows[at];
    if (flow->protocol == IPPROTO_UDP) {
      struct notice notice = make_notice(flow, guest);
      notice.ethernet = to_guest;
      send_frame(sock, "tap0", &notice, sizeof notice);
    }
    if (flow->protocol != IPPROTO_TCP) continue;
    struct probe probe = make_probe(flow->peer, flow->peer_port, guest, flow->port);
    probe.ethernet = to_guest;
    send_frame(sock, "tap0", &probe, sizeof probe);
    probe = make_probe(guest, flow->port, flow->peer, flow->peer_port);
    probe.ethernet = outward;
    send_frame(sock, "up0", &probe, sizeof probe);
  }
  spent_sock = sock;
}
