// Tries to change a file in every possible way, by its path or by a descriptor of another process. Prints a line for
// each way that succeeded, or that failed with an error other than a refusal. Then a private mapping, which must
// succeed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BYTES 4096

static void report(const char *what, long result) {
  if (result >= 0) printf("%s worked\n", what);
  else if (errno != EPERM && errno != EACCES && errno != EBADF && errno != EINVAL) printf("%s: %s\n", what, strerror(errno));
}

static long map(int fd, int protection, int flags, void **out) {
  *out = mmap(NULL, BYTES, protection, flags, fd, 0);
  return *out == MAP_FAILED ? -1 : 0;
}

static void attack(int fd) {
  char bytes[BYTES];
  void *at;
  memset(bytes, 0x66, sizeof bytes);
  report("pwrite", pwrite(fd, bytes, sizeof bytes, 0));
  report("append", lseek(fd, 0, SEEK_END) < 0 ? -1 : write(fd, bytes, sizeof bytes));
  report("truncate", ftruncate(fd, 0));
  report("growth", ftruncate(fd, lseek(fd, 0, SEEK_END) + BYTES));
  report("hole", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, BYTES));
  report("shared mapping", map(fd, PROT_READ | PROT_WRITE, MAP_SHARED, &at));
  if (map(fd, PROT_READ, MAP_SHARED, &at) < 0) return;
  report("mprotect", mprotect(at, BYTES, PROT_READ | PROT_WRITE));
  report("madvise", madvise(at, BYTES, MADV_REMOVE));
}

int main(int argc, char **argv) {
  int reading;
  if (argc == 2) {
    reading = open(argv[1], O_RDONLY);
    report("truncating open", open(argv[1], O_RDWR | O_TRUNC));
    int writing = open(argv[1], O_RDWR);
    if (writing >= 0) attack(writing);
  } else if (argc == 3) {
    reading = (int)syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, atoi(argv[1]), 0), atoi(argv[2]), 0);
    attack(reading);
  } else {
    return 2;
  }
  void *at;
  if (map(reading, PROT_READ | PROT_WRITE, MAP_PRIVATE, &at) < 0) return printf("private mapping: %s\n", strerror(errno)), 1;
  memset(at, 0x66, BYTES);
  printf("over\n");
  return 0;
}
