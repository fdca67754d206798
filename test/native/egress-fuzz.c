// Gives the parsers of egressd mutated hellos and requests, and checks what they say. Built with sanitizers, which end
// it at the first wrong access. Prints how many inputs were whole, and of them how many had the allowed name.
//
// usage: egress-fuzz SEED ROUNDS
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include "../../host-agent/native/egressd-name.h"
#include "../../host-agent/native/egressd-hello.h"
#include "../../host-agent/native/egressd-head.h"

static unsigned long long state;

static unsigned next(unsigned below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (unsigned)(state >> 33) % below;
}

/** A hello with that name, in records of that size; returns its length. */
static size_t make_hello(unsigned char *to, const char *name, size_t padding, size_t record) {
  static unsigned char message[40000];
  size_t at = 4, length = strlen(name), extensions;
  memset(message, 0, sizeof message);
  message[0] = 1;
  message[at++] = 3, message[at++] = 3;
  at += 32;
  message[at++] = 0;
  message[at++] = 0, message[at++] = 2, message[at++] = 0x13, message[at++] = 1;
  message[at++] = 1, message[at++] = 0;
  extensions = 9 + length + 4 + padding;
  message[at++] = extensions >> 8, message[at++] = extensions;
  at += 2;
  message[at++] = (length + 5) >> 8, message[at++] = length + 5;
  message[at++] = (length + 3) >> 8, message[at++] = length + 3;
  at++;
  message[at++] = length >> 8, message[at++] = length;
  memcpy(message + at, name, length);
  at += length;
  message[at++] = 0, message[at++] = 21, message[at++] = padding >> 8, message[at++] = padding;
  at += padding;
  message[1] = (at - 4) >> 16, message[2] = (at - 4) >> 8, message[3] = at - 4;
  size_t out = 0;
  for (size_t from = 0; from < at; from += record) {
    size_t part = at - from < record ? at - from : record;
    to[out++] = 22, to[out++] = 3, to[out++] = 1, to[out++] = part >> 8, to[out++] = part;
    memcpy(to + out, message + from, part);
    out += part;
  }
  return out;
}

static const char *const REQUESTS[] = {
    "GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n",
    "POST /a?b HTTP/1.1\r\nHost: ok.test:80\r\nContent-Length: 5\r\n\r\nhello",
    "PUT /x HTTP/1.1\r\nHost:\tOK.test. \r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "GET /ws HTTP/1.1\r\nHost: ok.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "GET / HTTP/1.0\r\nHost: ok.test\r\nUpgrade: h2c\r\nX: \xc3\xbc\r\n\r\n",
};
static const char *const NAMES[] = {"ok.test", "evil.test", "ok.test.", "OK.TEST", "a.b", "x", "", "1.2.3.4", "ok..test"};

static void mutate(unsigned char *bytes, size_t *count, size_t most) {
  static const unsigned char ODD[] = {0, 1, 9, 10, 11, 13, 22, 32, 35, 46, 47, 48, 58, 64, 127, 128, 254, 255};
  for (unsigned times = next(6); times > 0 && *count > 0; times--) {
    size_t at = next(4) == 0 ? next(*count) : next(*count < 64 ? *count : 64);
    unsigned kind = next(5);
    if (kind == 0) bytes[at] = ODD[next(sizeof ODD)];
    else if (kind == 1) bytes[at] ^= 1u << next(8);
    else if (kind == 2) *count = at;
    else if (kind == 3 && *count < most) {
      memmove(bytes + at + 1, bytes + at, (*count)++ - at);
      bytes[at] = ODD[next(sizeof ODD)];
    } else {
      memmove(bytes + at, bytes + at + 1, --*count - at);
    }
  }
}

static void must(bool is_true, const char *what) {
  if (is_true) return;
  fprintf(stderr, "wrong: %s\n", what);
  exit(1);
}

static void must_be_name(const char *name) {
  char again[MAX_NAME + 1];
  must(strlen(name) <= MAX_NAME && strchr(name, '.') != NULL, "a name");
  must(read_name((const unsigned char *)name, strlen(name), again) && strcmp(name, again) == 0, "a normal name");
}

static bool is_same_head(const struct head *one, const struct head *other) {
  return strcmp(one->name, other->name) == 0 && one->length == other->length && one->body == other->body &&
         one->is_chunked == other->is_chunked && one->is_websocket == other->is_websocket && one->port == other->port;
}

/** What comes in parts is judged as if each time all of it had come at once. */
static void judge_in_parts(bool is_hello, const unsigned char *all, size_t length) {
  struct progress progress = {0};
  unsigned most = 1 + next(next(2) == 0 ? 4 : 2000);
  // Heads lose the name of a header.
  unsigned char *bytes = malloc(2 * length + 1), *again = bytes + length;
  memcpy(bytes, all, length);
  for (size_t at = 0; at < length;) {
    at += 1 + next(most);
    if (at > length) at = length;
    struct progress none = {0};
    enum parsed parsed, expected;
    if (is_hello) {
      struct hello hello, other;
      parsed = read_hello(bytes, at, &hello, &progress);
      expected = read_hello(bytes, at, &other, &none);
      if (parsed == WHOLE && expected == WHOLE)
        must(strcmp(hello.name, other.name) == 0 && hello.length == other.length && hello.has_ech == other.has_ech,
             "a hello in parts is the same");
    } else {
      struct head head, other;
      memcpy(again, all, at);
      parsed = read_head(bytes, at, &head, &progress);
      expected = read_head(again, at, &other, &none);
      must(parsed != INVALID || head.status == other.status, "the status of a head in parts");
      if (parsed == WHOLE && expected == WHOLE) must(is_same_head(&head, &other), "a head in parts is the same");
    }
    must(parsed == expected, "a verdict on parts");
    if (parsed != INCOMPLETE) break;
  }
  free(bytes);
}

/** CPU time of reading a message without an end `times` times, each byte by byte. */
static clock_t cost_of(bool is_hello, size_t length, int times) {
  static unsigned char bytes[MAX_HEAD];
  static const char REQUEST[] = "GET / HTTP/1.1\r\nX: ", RECORD[] = {HANDSHAKE, 3, 1, 0, 1, 0};
  // Records of one byte each are as many as there can be.
  for (size_t at = 0; at < length; at++)
    bytes[at] = is_hello ? RECORD[at % 6] : at < sizeof REQUEST - 1 ? REQUEST[at] : 'x';
  if (is_hello) bytes[5] = 1, bytes[2 * 6 - 1] = 0, bytes[3 * 6 - 1] = 0x30;
  clock_t from = clock();
  for (int time = 0; time < times; time++) {
    struct progress progress = {0};
    struct hello hello;
    struct head head;
    for (size_t at = 1; at <= length; at++)
      must((is_hello ? read_hello(bytes, at, &hello, &progress) : read_head(bytes, at, &head, &progress)) == INCOMPLETE,
           "no end");
  }
  return clock() - from;
}

/** Each byte costs as much in a long message as in a short one. */
static void must_be_linear(bool is_hello) {
  clock_t in_short = cost_of(is_hello, 1200, 1600), in_long = cost_of(is_hello, 19200, 100);
  if (in_long < 4 * in_short) return;
  fprintf(stderr, "wrong: %s: %ld and %ld\n", is_hello ? "hello" : "head", (long)in_short, (long)in_long);
  exit(1);
}

int main(int count, char **args) {
  if (count != 3) return 2;
  state = strtoull(args[1], NULL, 10) * 2654435761u + 1;
  must_be_linear(true);
  must_be_linear(false);
  long rounds = strtol(args[2], NULL, 10), whole = 0, allowed = 0;
  for (long round = 0; round < rounds; round++) {
    static unsigned char all[300000];
    bool is_hello = next(2) == 0;
    size_t length;
    if (is_hello) {
      size_t padding = next(8) == 0 ? next(17000) : next(64);
      length = make_hello(all, NAMES[next(9)], padding, 1 + (next(3) == 0 ? next(40) : 16383));
    } else {
      const char *text = REQUESTS[next(5)];
      length = strlen(text);
      memcpy(all, text, length);
    }
    mutate(all, &length, sizeof all - 8);
    // A buffer of exactly that size: what is read behind it ends the program.
    unsigned char *bytes = malloc(length == 0 ? 1 : length);
    memcpy(bytes, all, length);
    struct hello hello;
    struct head head;
    if (next(4) == 0) judge_in_parts(is_hello, bytes, length);
    if (is_hello) {
      enum parsed parsed = read_hello(bytes, length, &hello, &(struct progress){0});
      if (parsed == WHOLE) {
        must_be_name(hello.name);
        must(hello.length <= length, "the length of a hello");
        // No shorter beginning of it says anything else.
        size_t cut = next(hello.length);
        struct hello part;
        must(read_hello(bytes, cut, &part, &(struct progress){0}) == INCOMPLETE, "a part of a hello is incomplete");
        whole++;
        allowed += strcmp(hello.name, "ok.test") == 0;
      }
      asks_again(bytes, length);
    } else {
      enum parsed parsed = read_head(bytes, length, &head, &(struct progress){0});
      if (parsed == WHOLE) {
        must_be_name(head.name);
        must(head.length <= length && head.port >= 0 && head.port <= 65535, "the length of a head");
        must(memmem(bytes, head.length, "\r\n\r\n", 4) == bytes + head.length - 4, "the end of a head");
        must(!(head.is_chunked && head.body > 0), "one length");
        unsigned long long size;
        size_t line;
        if (read_chunk(bytes + head.length, length - head.length, &line, &size) == WHOLE)
          must(line <= length - head.length && line <= MAX_CHUNK_LINE, "the length of a chunk's line");
        whole++;
        allowed += strcmp(head.name, "ok.test") == 0;
      }
    }
    free(bytes);
  }
  printf("%ld whole, %ld allowed\n", whole, allowed);
  return 0;
}
