/*
 * A hostile guest: runs instead of the agent and misbehaves as `hostile=<mode>` of the kernel command line requests.
 *   silent   never sends a byte            garbage  sends random bytes continuously
 *   zeros    sends zero bytes continuously lengths  frame lengths far above the limit, after a valid hello
 *   pongs    valid frames that were not requested, continuously, after a valid hello
 *   mute     a valid hello, then no answers
 *   console  prints to the console continuously, and never answers
 */
#include "port.h"

static unsigned char nonce[16];

/* A hello contains its nonce as field 2, 16 bytes. A search for these two bytes is sufficient in a test. */
static void read_hello(void) {
  static unsigned char seen[1 << 20];
  size_t have = 0;
  for (;;) {
    have += read_some((char *)seen + have, sizeof seen - have);
    for (size_t i = 0; i + 18 <= have; i++) {
      if (seen[i] != 0x12 || seen[i + 1] != 0x10) continue;
      memcpy(nonce, seen + i + 2, sizeof nonce);
      return;
    }
  }
}

static void say_hello(void) {
  unsigned char reply[9 + 16 + 27] = "\nSBXSYNC1";
  unsigned char *at = reply + 9;
  memcpy(at, nonce, 16);
  at += 16;
  static const unsigned char head[] = {26, 0x62, 24, 0x08, 1, 0x12, 16};
  memcpy(at, head, sizeof head);
  at += sizeof head;
  memcpy(at, nonce, 16);
  at += 16;
  static const unsigned char window[] = {0x20, 0x80, 0x80, 0x20};
  memcpy(at, window, sizeof window);
  /* The sync mark is only for a port that may contain bytes of an earlier connection. */
  size_t skip = listener >= 0 ? 9 + 16 : 0;
  write_all((char *)reply + skip, sizeof reply - skip);
}

int main(void) {
  char line[4096] = "", mode[32] = "silent";
  FILE *command_line = fopen("/proc/cmdline", "r");
  if (command_line && fgets(line, sizeof line, command_line)) {
    char *word = strstr(line, "hostile=");
    if (word) sscanf(word, "hostile=%31s", mode);
  }
  if (!strcmp(mode, "console"))
    for (;;) puts("a line that nobody wants to read, again and again, until the disk of the host is full");
  open_port();
  if (!strcmp(mode, "silent")) pause();
  static char block[65536];
  if (!strcmp(mode, "garbage")) {
    for (size_t i = 0; i < sizeof block; i++) block[i] = rand();
    for (;;) write_all(block, sizeof block);
  }
  if (!strcmp(mode, "zeros"))
    for (;;) write_all(block, sizeof block);
  read_hello();
  say_hello();
  if (!strcmp(mode, "lengths")) {
    memset(block, 0xff, sizeof block);
    for (;;) write_all(block, sizeof block);
  }
  if (!strcmp(mode, "pongs")) {
    /* length 2, field 15 (pong), empty */
    for (size_t i = 0; i + 3 <= sizeof block; i += 3) memcpy(block + i, "\x02\x7a\x00", 3);
    for (;;) write_all(block, sizeof block / 3 * 3);
  }
  for (;;) read_some(block, sizeof block);
}
