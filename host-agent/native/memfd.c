// Holds a copy of a file in a sealed memfd that no process can change, not even root or one that has it open for
// writing. The parent opens /proc/<pid>/fd/<number> while this program runs, which is until its standard input ends.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  return 1;
}

// Copies data and skips holes.
static int copy(int from, int to, off_t size) {
  for (off_t at = 0; at < size;) {
    at = lseek(from, at, SEEK_DATA);
    if (at < 0) return errno == ENXIO ? 0 : -1;
    off_t end = lseek(from, at, SEEK_HOLE);
    if (end < 0 || lseek(to, at, SEEK_SET) < 0) return -1;
    while (at < end) {
      ssize_t copied = sendfile(to, from, &at, (size_t)(end - at));
      if (copied < 0 && errno == EINTR) continue;
      if (copied < 0) return -1;
      if (copied == 0) return errno = EIO, -1;
    }
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 3) return fprintf(stderr, "usage: memfd NAME FILE\n"), 2;
  struct stat status;
  int file = open(argv[2], O_RDONLY | O_CLOEXEC);
  if (file < 0 || fstat(file, &status) < 0) return fail(argv[2]);
  int memory = memfd_create(argv[1], MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory < 0) return fail("memfd_create");
  if (ftruncate(memory, status.st_size) < 0 || copy(file, memory, status.st_size) < 0) return fail("copy");
  // A process that maps it opens it for writing, under any user id: the seals refuse all writes.
  if (fchmod(memory, 0666) < 0) return fail("fchmod");
  if (fcntl(memory, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
    return fail("seal");
  printf("%d\n", memory);
  fflush(stdout);
  char rest;
  while (read(0, &rest, 1) > 0) {
  }
  return 0;
}
