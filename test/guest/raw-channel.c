/*
 * The bare channel that the benchmarks compare against: speaks nothing but bytes on the agent's port.
 * Commands are one letter and a big-endian 64-bit length:
 *   E n  the next n bytes come back
 *   S n  n bytes are sent
 *   R n  n bytes are received, then one byte is sent
 */
#include "port.h"

#define CHUNK 65536
static char buffer[CHUNK];

int main(void) {
  open_port();
  for (;;) {
    unsigned char command[9];
    for (size_t have = 0; have < sizeof command;) have += read_some((char *)command + have, sizeof command - have);
    uint64_t left = 0;
    for (int i = 1; i < 9; i++) left = left << 8 | command[i];
    while (left > 0) {
      size_t step = left < CHUNK ? left : CHUNK;
      if (command[0] != 'S') step = read_some(buffer, step);
      if (command[0] != 'R') write_all(buffer, step);
      left -= step;
    }
    if (command[0] == 'R') write_all("!", 1);
  }
}
