// Tries to escape from a sandbox: sends every frame of a list through an interface. Each frame contains its name, so
// that a capture elsewhere shows which ones got through. Prints each name once it is sent. usage: escape INTERFACE
// NAME=ADDRESS…   own, gateway, open (allowed), closed, host, host2, transit, peer (another sandbox),
//   dns, metadata, and any others: all their packets are tried
#include "frames.h"

static int link_fd;
static const char *prefix = "escape";
static uint8_t own_mac[6], gateway_mac[6] = {2, 0, 0, 0, 0, 1};
static const uint8_t BROADCAST[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, OTHER_MAC[6] = {2, 0, 0, 0, 0, 0x77};
static const uint8_t MULTICAST[6] = {1, 0, 0x5e, 0, 0, 0xfb}, BRIDGES[6] = {1, 0x80, 0xc2, 0, 0, 0}, V6_NODES[6] = {0x33, 0x33, 0, 0, 0, 1};

static char **arguments;

static uint32_t address_of(const char *name) {
  size_t length = strlen(name);
  for (char **at = arguments; *at; at++)
    if (!strncmp(*at, name, length) && (*at)[length] == '=') return parse_ipv4(*at + length + 1);
  fprintf(stderr, "which address is %s?\n", name);
  exit(2);
}

static char tag[96];

/* An ordinary UDP packet to the open address; every other packet is a variation of it. */
static struct packet ordinary(const char *name) {
  snprintf(tag, sizeof tag, "<%s:%s>", prefix, name);
  return (struct packet){.tag = tag, .source_mac = own_mac, .target_mac = gateway_mac, .source = address_of("own"),
                         .target = address_of("open"), .protocol = IPPROTO_UDP, .port = 7};
}

static void send_frame(const struct frame *frame, const char *name) {
  if (send(link_fd, frame->bytes, frame->size, 0) < 0) {
    perror(name);
    exit(1);
  }
  printf("%s\n", name);
  fflush(stdout);
  /* A pause, so that no packet is dropped for lack of buffers or by a rate limit. */
  usleep(3000);
}

static void send_ipv4(const struct packet *packet, const char *name) {
  struct frame frame = {.size = 0};
  add_ethernet(&frame, packet, 0x0800);
  add_ipv4(&frame, packet);
  send_frame(&frame, name);
}

#define TRY(name, ...)                              \
  do {                                              \
    struct packet packet = ordinary(name);          \
    __VA_ARGS__;                                    \
    send_ipv4(&packet, name);                       \
  } while (0)

/**
 * ---- the link
 * ------------------------------------------------------------------------------------------------------------
 */

static void try_typed(const char *name, const uint8_t *target, unsigned type, const void *bytes, size_t size) {
  struct packet packet = ordinary(name);
  struct frame frame = {.size = 0};
  packet.target_mac = target;
  add_ethernet(&frame, &packet, type);
  add(&frame, bytes, size);
  add_tag(&frame, &packet);
  send_frame(&frame, name);
}

static void try_arp(const char *name, const uint8_t *to, unsigned type, unsigned operation, uint32_t sender, uint32_t asked) {
  struct frame body = {.size = 0};
  add16(&body, 1), add16(&body, 0x0800), add8(&body, 6), add8(&body, 4), add16(&body, operation);
  add(&body, own_mac, 6), add32(&body, sender), add(&body, to, 6), add32(&body, asked);
  try_typed(name, to, type, body.bytes, body.size);
}

/* An ordinary packet after tags or labels. */
static void try_tagged(const char *name, unsigned type, const void *tags, size_t size) {
  struct packet packet = ordinary(name);
  struct frame frame = {.size = 0};
  add_ethernet(&frame, &packet, type);
  add(&frame, tags, size);
  add_ipv4(&frame, &packet);
  send_frame(&frame, name);
}

static void attack_link(void) {
  uint32_t own = address_of("own"), gateway = address_of("gateway"), host = address_of("host"), peer = address_of("peer");
  try_arp("arp for the host", BROADCAST, 0x0806, 1, own, host);
  try_arp("arp for another sandbox", BROADCAST, 0x0806, 1, own, peer);
  try_arp("arp that claims the gateway", BROADCAST, 0x0806, 2, gateway, gateway);
  try_arp("arp that claims another sandbox", gateway_mac, 0x0806, 2, peer, gateway);
  try_arp("arp that claims the host", gateway_mac, 0x0806, 2, host, gateway);
  try_arp("arp in the name of another", BROADCAST, 0x0806, 1, peer, gateway);
  try_arp("reverse arp", BROADCAST, 0x8035, 3, own, own);
  try_tagged("vlan 1", 0x8100, (uint8_t[]){0, 1, 8, 0}, 4);
  try_tagged("vlan priority tag", 0x8100, (uint8_t[]){0xe0, 0, 8, 0}, 4);
  try_tagged("vlan in a vlan", 0x88a8, (uint8_t[]){0, 2, 0x81, 0, 0, 1, 8, 0}, 8);
  try_tagged("mpls", 0x8847, (uint8_t[]){0, 0x10, 1, 64}, 4);
  try_tagged("pppoe session", 0x8864, (uint8_t[]){0x11, 0, 0, 1, 0, 90, 0, 0x21}, 8);
  try_typed("pppoe discovery", BROADCAST, 0x8863, (uint8_t[]){0x11, 9, 0, 0, 0, 4, 1, 1, 0, 0}, 10);
  try_typed("lldp", BRIDGES, 0x88cc, (uint8_t[]){2, 7, 4, 2, 0, 0, 0, 0, 2}, 9);
  try_typed("spanning tree", BRIDGES, 38, (uint8_t[]){0x42, 0x42, 3, 0, 0, 0, 0, 0}, 8);
  try_typed("eapol", BRIDGES, 0x888e, (uint8_t[]){1, 1, 0, 0}, 4);
  try_typed("no protocol that anybody knows", gateway_mac, 0x88b5, "", 0);
  TRY("another source mac", packet.source_mac = OTHER_MAC);
  TRY("the gateway's mac as source", packet.source_mac = gateway_mac);
  TRY("a multicast source mac", packet.source_mac = MULTICAST);
  TRY("broadcast mac", packet.target_mac = BROADCAST);
  TRY("multicast mac", packet.target_mac = MULTICAST);
  TRY("another target mac", packet.target_mac = OTHER_MAC);
}

/**
 * ---- IPv6
 * ----------------------------------------------------------------------------------------------------------------
 */

static void try_ipv6(const char *name, const uint8_t *mac, const char *source, const char *target, unsigned next, const void *bytes, size_t size) {
  struct packet packet = ordinary(name);
  struct frame frame = {.size = 0}, content = {.size = 0};
  packet.target_mac = mac;
  add(&content, bytes, size);
  add_ethernet(&frame, &packet, 0x86dd);
  add_ipv6(&frame, &packet, source, target, next, &content);
  send_frame(&frame, name);
}

static const uint8_t UDP_HEADER[8] = {0x9c, 0x40, 0, 7, 0, 60, 0, 0};

static void attack_ipv6(void) {
  const char *own = "fe80::ff:fe00:2", *web = "2a02:4780:20::34", *host = "2a02:4780:10::10";
  try_ipv6("ipv6 to the internet", gateway_mac, own, web, 17, UDP_HEADER, 8);
  try_ipv6("ipv6 to the host", gateway_mac, own, host, 17, UDP_HEADER, 8);
  try_ipv6("ipv6 to the gateway's link", gateway_mac, own, "fe80::ff:fe00:1", 17, UDP_HEADER, 8);
  try_ipv6("ipv6 to all nodes", V6_NODES, own, "ff02::1", 17, UDP_HEADER, 8);
  try_ipv6("ipv6 mapped ipv4", gateway_mac, "::ffff:10.0.0.2", "::ffff:93.184.216.34", 17, UDP_HEADER, 8);
  try_ipv6("ipv6 router solicitation", V6_NODES, own, "ff02::2", 58, (uint8_t[]){133, 0, 0, 0, 0, 0, 0, 0}, 8);
  try_ipv6("ipv6 router advertisement", V6_NODES, own, "ff02::1", 58, (uint8_t[]){134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0}, 16);
  try_ipv6("ipv6 neighbour solicitation", V6_NODES, own, "ff02::1", 58, (uint8_t[24]){135}, 24);
  try_ipv6("ipv6 neighbour advertisement", V6_NODES, own, "ff02::1", 58, (uint8_t[24]){136, 0, 0, 0, 0x20}, 24);
  try_ipv6("ipv6 redirect", gateway_mac, own, "ff02::1", 58, (uint8_t[40]){137}, 40);
  try_ipv6("ipv6 multicast listener report", V6_NODES, own, "ff02::16", 0, (uint8_t[]){58, 0, 5, 2, 0, 0, 1, 0, 143, 0, 0, 0, 0, 0, 0, 0}, 16);
  try_ipv6("ipv6 fragment", gateway_mac, own, web, 44, (uint8_t[]){17, 0, 0, 1, 0, 0, 0, 1}, 8);
  try_ipv6("ipv6 routing header", gateway_mac, own, host, 43, (uint8_t[24]){17, 2, 0, 1}, 24);
  try_ipv6("dhcpv6", V6_NODES, own, "ff02::1:2", 17, (uint8_t[]){2, 0x22, 2, 0x23, 0, 60, 0, 0, 1, 1, 2, 3}, 12);
}

/**
 * ---- IPv4: what is wrong with the packet
 * ---------------------------------------------------------------------------------
 */

static void try_options(const char *name, const uint8_t *options, size_t size) {
  TRY(name, packet.options = options, packet.options_size = size);
}

static void attack_headers(void) {
  uint32_t closed = address_of("closed"), own = address_of("own"), open = address_of("open");
  uint8_t route[12] = {131, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  uint32_t hop = htonl(closed);
  memcpy(route + 3, &hop, 4);
  TRY("the source of another sandbox", packet.source = address_of("peer"));
  TRY("the source of the host", packet.source = address_of("host"));
  TRY("the source of the gateway", packet.source = address_of("gateway"));
  TRY("the source of the target", packet.source = open);
  TRY("a loopback source", packet.source = 0x7f000001);
  TRY("no source", packet.source = 0);
  TRY("a multicast source", packet.source = 0xe0000001);
  TRY("a broadcast source", packet.source = 0xffffffff);
  TRY("a loopback target", packet.target = 0x7f000001);
  TRY("from itself to itself", packet.target = own);
  try_options("loose source route", route, 12);
  route[0] = 137;
  try_options("strict source route", route, 12);
  route[0] = 7;
  try_options("record route", route, 12);
  try_options("timestamp option", (uint8_t[]){68, 8, 5, 0, 0, 0, 0, 0}, 8);
  try_options("router alert", (uint8_t[]){148, 4, 0, 0}, 4);
  try_options("no operation", (uint8_t[]){1, 1, 1, 1}, 4);
  TRY("first fragment", packet.fragment = 0x2000);
  TRY("later fragment", packet.fragment = 0x0004);
  TRY("last fragment of another port", packet.fragment = 0x0001, packet.port = 53);
  TRY("reserved flag and fragment", packet.fragment = 0xa000);
  TRY("ip version 5", packet.version = 5);
  TRY("ip version 6 in an ipv4 frame", packet.version = 6);
  TRY("a short header", packet.header_words = 4);
  TRY("a header longer than told", packet.header_words = 15);
  TRY("a length beyond the frame", packet.length_error = 600);
  TRY("a length within the header", packet.length_error = -60);
}

/**
 * ---- protocols, also to who is allowed
 * ------------------------------------------------------------------------------------
 */

static void try_icmp(const char *name, unsigned type, unsigned code) {
  TRY(name, packet.protocol = IPPROTO_ICMP, packet.icmp_type = type, packet.icmp_code = code);
}

static void try_protocol(const char *name, unsigned protocol) {
  TRY(name, packet.protocol = protocol);
}

static void try_tcp(const char *name, unsigned flags) {
  /* The second byte of flags is truncated: 0x100 means no flags. */
  TRY(name, packet.protocol = IPPROTO_TCP, packet.tcp_flags = flags);
}

/* A packet to the closed address, tunnelled in one to the open address. */
static void try_tunnel(const char *name, unsigned protocol) {
  struct packet inner = ordinary(name);
  struct frame content = {.size = 0};
  inner.target = address_of("closed");
  add_ipv4(&content, &inner);
  TRY(name, packet.protocol = protocol, packet.content = &content);
}

/* An ICMP error about a reply of the open address, which belongs to the connection of the control packet. */
static void try_related(const char *name, unsigned type, unsigned code, uint32_t target) {
  struct packet inner = ordinary(name);
  struct frame content = {.size = 0};
  inner.target = inner.source, inner.source = address_of("open"), inner.port = SOURCE_PORT;
  add_ipv4(&content, &inner);
  put16(&content, 20, 7);
  TRY(name, packet.protocol = IPPROTO_ICMP, packet.icmp_type = type, packet.icmp_code = code, packet.target = target,
      packet.content = &content);
}

static void attack_connections(void) {
  static const char *const OTHERS[] = {"closed", "host", "peer", "metadata", "dns", "gateway"};
  for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) {
    char name[80];
    snprintf(name, sizeof name, "unreachable about its connection to %s", OTHERS[i]);
    try_related(name, 3, 3, address_of(OTHERS[i]));
    snprintf(name, sizeof name, "too large about its connection to %s", OTHERS[i]);
    try_related(name, 3, 4, address_of(OTHERS[i]));
    snprintf(name, sizeof name, "time exceeded about its connection to %s", OTHERS[i]);
    try_related(name, 11, 0, address_of(OTHERS[i]));
  }
}

static void attack_protocols(void) {
  try_icmp("redirect", 5, 1);
  try_icmp("router advertisement", 9, 0);
  try_icmp("router solicitation", 10, 0);
  try_icmp("timestamp request", 13, 0);
  try_icmp("mask request", 17, 0);
  try_icmp("unreachable that answers nothing", 3, 4);
  try_icmp("time exceeded that answers nothing", 11, 0);
  try_icmp("echo reply that answers nothing", 0, 0);
  try_tunnel("ip in ip", 4);
  try_tunnel("gre", 47);
  try_protocol("6in4", 41);
  try_protocol("igmp", 2);
  try_protocol("sctp", 132);
  try_protocol("dccp", 33);
  try_protocol("udp-lite", 136);
  try_protocol("esp", 50);
  try_protocol("ah", 51);
  try_protocol("ospf", 89);
  try_protocol("vrrp", 112);
  try_protocol("l2tp", 115);
  try_protocol("an experiment", 253);
  try_tcp("ack without a connection", 16);
  try_tcp("fin without a connection", 1);
  try_tcp("syn and ack without a connection", 18);
  try_tcp("reset without a connection", 4);
  try_tcp("syn and fin", 3);
  try_tcp("all flags", 0x3f);
  try_tcp("no flag", 0x100);
}

/**
 * ---- where nothing may go
 * -------------------------------------------------------------------------------------------------
 */

static void try_places(void) {
  static const char *const KNOWN[] = {"own", "gateway", "open", NULL};
  static const unsigned PORTS[] = {7, 22, 53, 80, 443, 853, 1013};
  for (char **at = arguments; *at; at++) {
    char place[32] = "", name[80];
    size_t length = strcspn(*at, "=");
    strncpy(place, *at, length < sizeof place ? length : sizeof place - 1);
    int is_known = 0;
    for (const char *const *known = KNOWN; *known; known++) is_known |= !strcmp(place, *known);
    if (is_known) continue;
    for (unsigned i = 0; i < sizeof PORTS / sizeof *PORTS; i++) {
      snprintf(name, sizeof name, "udp to %s port %u", place, PORTS[i]);
      TRY(name, packet.target = address_of(place), packet.port = PORTS[i]);
      snprintf(name, sizeof name, "tcp to %s port %u", place, PORTS[i]);
      TRY(name, packet.target = address_of(place), packet.port = PORTS[i], packet.protocol = IPPROTO_TCP);
    }
    snprintf(name, sizeof name, "ping to %s", place);
    TRY(name, packet.target = address_of(place), packet.protocol = IPPROTO_ICMP, packet.icmp_type = 8);
  }
  uint32_t gateway = address_of("gateway"), own = address_of("own");
  TRY("udp to the gateway", packet.target = gateway, packet.port = 123);
  TRY("tcp to the gateway", packet.target = gateway, packet.port = 22, packet.protocol = IPPROTO_TCP);
  TRY("ping to the gateway", packet.target = gateway, packet.protocol = IPPROTO_ICMP, packet.icmp_type = 8);
  TRY("limited broadcast", packet.target = 0xffffffff);
  TRY("broadcast of the link", packet.target = own | 3);
  TRY("network of the link", packet.target = own & ~3U);
  TRY("all hosts", packet.target = 0xe0000001);
  TRY("mdns", packet.target = 0xe00000fb, packet.port = 5353, packet.target_mac = MULTICAST);
  TRY("ssdp", packet.target = 0xeffffffa, packet.port = 1900);
  TRY("dhcp", packet.source = 0, packet.target = 0xffffffff, packet.port = 67, packet.target_mac = BROADCAST);
  TRY("dhcp to the gateway", packet.target = gateway, packet.port = 67);
  TRY("the address 0.0.0.1", packet.target = 1);
  TRY("its last hop", packet.target = address_of("closed"), packet.ttl = 1);
  TRY("teredo", packet.target = address_of("closed"), packet.port = 3544);
}

int main(int count, char **all) {
  if (count < 3) return 2;
  arguments = all + 2;
  link_fd = open_link(all[1], own_mac);
  /* A permitted packet before and after all forbidden ones: otherwise silence would prove nothing. */
  prefix = "control";
  TRY("before", packet.target = address_of("open"));
  try_related("related", 3, 3, address_of("open"));
  prefix = "escape";
  attack_connections();
  attack_link();
  attack_ipv6();
  attack_headers();
  attack_protocols();
  try_places();
  prefix = "control";
  TRY("after", packet.target = address_of("open"));
  return 0;
}
