/*
 * Minimal ends of a pipe for the benchmarks:
 *   stdio write N   writes N bytes to stdout, from one buffer
 *   stdio read      reads stdin to its end, and prints the number of bytes
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char buffer[262144];

int main(int count, char **arguments) {
  if (count == 3 && !strcmp(arguments[1], "write")) {
    uint64_t left = strtoull(arguments[2], NULL, 10);
    memset(buffer, 'x', sizeof buffer);
    while (left > 0) {
      ssize_t put = write(1, buffer, left < sizeof buffer ? left : sizeof buffer);
      if (put < 0) return 1;
      left -= (uint64_t)put;
    }
    return 0;
  }
  if (count == 2 && !strcmp(arguments[1], "read")) {
    uint64_t total = 0;
    ssize_t got;
    while ((got = read(0, buffer, sizeof buffer)) > 0) total += (uint64_t)got;
    printf("%" PRIu64, total);
    return got < 0;
  }
  return 2;
}
