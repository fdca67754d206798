// Imitates a VMM that maps its guest's memory privately from a file, in two mappings, or in one.
// usage: pager FILE BYTES [one]; each line of its input is `OFFSET LENGTH BYTE`: it writes there, and answers with a line.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(int count, char **arguments) {
  if (count != 3 && count != 4) return 2;
  int file = open(arguments[1], O_RDONLY);
  size_t bytes = strtoull(arguments[2], NULL, 10);
  size_t low = count == 4 ? 0 : bytes / 3 & ~4095ul;
  size_t length = bytes - low;
  char *at[2];
  at[0] = low == 0 ? NULL : mmap(NULL, low, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
  // Below it there is the other one, which the kernel must not join to it.
  at[1] = mmap(NULL, length + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (file < 0 || at[0] == MAP_FAILED || at[1] == MAP_FAILED) return 1;
  at[1] = mmap(at[1], length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, file, low);
  if (at[1] == MAP_FAILED) return 1;
  puts("ready");
  fflush(stdout);
  size_t offset, size;
  int byte;
  while (scanf("%zu %zu %d", &offset, &size, &byte) == 3) {
    for (size_t i = offset; i < offset + size; i++) (i < low ? at[0] + i : at[1] + i - low)[0] = byte;
    puts("done");
    fflush(stdout);
  }
  return 0;
}
