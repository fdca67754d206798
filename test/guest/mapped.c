// Imitates a process with a guest's memory: a memfd of this name, and a private mapping of it.
// usage: mapped NAME FILE-BYTES MAPPING-BYTES [CHANGED-FROM]
// It changes the first byte of the mapping, and everything from an offset on.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char **arguments) {
  if (count != 4 && count != 5) return 2;
  int memory = memfd_create(arguments[1], 0);
  size_t bytes = strtoull(arguments[3], NULL, 10);
  if (memory < 0 || ftruncate(memory, atoll(arguments[2])) < 0) return 1;
  char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, memory, 0);
  if (at == MAP_FAILED) return 1;
  *at = 1;
  size_t from = count == 5 ? strtoull(arguments[4], NULL, 10) : bytes;
  memset(at + from, 1, bytes - from);
  puts("ready");
  fflush(stdout);
  char rest;
  return read(0, &rest, 1) == 0 ? 0 : 1;
}
