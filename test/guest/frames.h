// Hand-made frames, for programs that send packets that no network stack would send.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

struct frame {
  uint8_t bytes[2048];
  size_t size;
};

static void add(struct frame *frame, const void *bytes, size_t size) {
  memcpy(frame->bytes + frame->size, bytes, size);
  frame->size += size;
}

static void add8(struct frame *frame, unsigned value) {
  frame->bytes[frame->size++] = (uint8_t)value;
}

static void add16(struct frame *frame, unsigned value) {
  add8(frame, value >> 8);
  add8(frame, value & 0xff);
}

static void add32(struct frame *frame, uint32_t value) {
  add16(frame, value >> 16);
  add16(frame, value & 0xffff);
}

static void put16(struct frame *frame, size_t at, unsigned value) {
  frame->bytes[at] = (uint8_t)(value >> 8);
  frame->bytes[at + 1] = (uint8_t)value;
}

static uint32_t sum_words(const uint8_t *bytes, size_t size, uint32_t sum) {
  for (size_t i = 0; i < size; i++) sum += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
  return sum;
}

static unsigned fold(uint32_t sum) {
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}

/**
 * ---- what a packet is made of: all that an attack changes of an ordinary one
 * ----------------------------------------------
 */

struct packet {
  const char *tag; /* text that identifies the packet in a capture */
  const uint8_t *source_mac, *target_mac;
  uint32_t source, target; /* host order */
  unsigned protocol;       /* of IPv4 */
  unsigned port;           /* of the target */
  unsigned tcp_flags;      /* 0: a SYN */
  unsigned icmp_type, icmp_code;
  unsigned fragment; /* flags and offset, as in the header */
  unsigned ttl;      /* 0: 64 */
  unsigned version, header_words; /* 0: the correct value */
  int length_error;               /* added to the header's length field */
  const uint8_t *options;
  size_t options_size;
  const struct frame *content; /* replaces the plain tag */
};

enum { SYN = 2, SOURCE_PORT = 40000 };

static void add_tag(struct frame *frame, const struct packet *packet) {
  if (packet->content) add(frame, packet->content->bytes, packet->content->size);
  add(frame, packet->tag, strlen(packet->tag));
}

static void add_ethernet(struct frame *frame, const struct packet *packet, unsigned type) {
  add(frame, packet->target_mac, 6);
  add(frame, packet->source_mac, 6);
  add16(frame, type);
}

/* Computes the checksum of a transport header at `start`, with its field at `field`, over the rest of the frame. */
static void check_transport(struct frame *frame, const struct packet *packet, size_t start, size_t field) {
  uint32_t pseudo = (packet->source >> 16) + (packet->source & 0xffff) + (packet->target >> 16) + (packet->target & 0xffff);
  size_t size = frame->size - start;
  if (packet->protocol == IPPROTO_ICMP) pseudo = 0;
  else pseudo += packet->protocol + (uint32_t)size;
  put16(frame, start + field, fold(sum_words(frame->bytes + start, size, pseudo)));
}

static void add_transport(struct frame *frame, const struct packet *packet) {
  size_t start = frame->size;
  switch (packet->protocol) {
  case IPPROTO_TCP:
    add16(frame, SOURCE_PORT), add16(frame, packet->port);
    add32(frame, 1000), add32(frame, 0);
    add16(frame, 5 << 12 | (packet->tcp_flags ? packet->tcp_flags & 0xff : SYN));
    add16(frame, 65535), add32(frame, 0);
    add_tag(frame, packet);
    check_transport(frame, packet, start, 16);
    return;
  case IPPROTO_UDP:
    add16(frame, SOURCE_PORT), add16(frame, packet->port), add32(frame, 0);
    add_tag(frame, packet);
    put16(frame, start + 4, frame->size - start);
    check_transport(frame, packet, start, 6);
    return;
  case IPPROTO_ICMP:
    add8(frame, packet->icmp_type), add8(frame, packet->icmp_code), add16(frame, 0);
    /* For an echo its number, for a redirect the new gateway. */
    add32(frame, packet->source);
    add_tag(frame, packet);
    check_transport(frame, packet, start, 2);
    return;
  default:
    add32(frame, 0), add32(frame, 0);
    add_tag(frame, packet);
  }
}

static void add_ipv4(struct frame *frame, const struct packet *packet) {
  size_t start = frame->size;
  unsigned words = packet->header_words ? packet->header_words : 5 + (unsigned)packet->options_size / 4;
  add8(frame, (packet->version ? packet->version : 4) << 4 | words), add8(frame, 0), add16(frame, 0);
  add16(frame, 4711), add16(frame, packet->fragment);
  add8(frame, packet->ttl ? packet->ttl : 64), add8(frame, packet->protocol), add16(frame, 0);
  add32(frame, packet->source), add32(frame, packet->target);
  if (packet->options_size) add(frame, packet->options, packet->options_size);
  size_t header = frame->size - start;
  add_transport(frame, packet);
  put16(frame, start + 2, (unsigned)((int)(frame->size - start) + packet->length_error));
  put16(frame, start + 10, fold(sum_words(frame->bytes + start, header, 0)));
}

/* An IPv6 packet with this next header; its content is already in the frame. */
static void add_ipv6(struct frame *frame, const struct packet *packet, const char *source, const char *target, unsigned next,
                     const struct frame *content) {
  struct in6_addr address;
  add32(frame, 6U << 28);
  add16(frame, content->size + strlen(packet->tag)), add8(frame, next), add8(frame, 255);
  inet_pton(AF_INET6, source, &address), add(frame, &address, 16);
  inet_pton(AF_INET6, target, &address), add(frame, &address, 16);
  add(frame, content->bytes, content->size);
  add(frame, packet->tag, strlen(packet->tag));
}

static uint32_t parse_ipv4(const char *text) {
  struct in_addr address;
  if (inet_pton(AF_INET, text, &address) == 1) return ntohl(address.s_addr);
  fprintf(stderr, "no IPv4 address: %s\n", text);
  exit(2);
}

static int open_link(const char *name, uint8_t *mac) {
  int fd = socket(AF_PACKET, SOCK_RAW, 0);
  struct ifreq request = {0};
  strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  struct sockaddr_ll link = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(name)};
  if (fd < 0 || ioctl(fd, SIOCGIFHWADDR, &request) < 0 || bind(fd, (struct sockaddr *)&link, sizeof link) < 0) {
    perror(name);
    exit(2);
  }
  memcpy(mac, request.ifr_hwaddr.sa_data, 6);
  return fd;
}
