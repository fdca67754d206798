// Makes a file the caller's alone that somebody else has written: its owner, readable for all. Fails when somebody may still
// write to it, by a descriptor or a mapping from before: the kernel gives a read lease only where nobody can.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 2) return fprintf(stderr, "usage: claim FILE\n"), 2;
  struct stat status;
  int file = open(argv[1], O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0 || fstat(file, &status) < 0) return fail("open");
  errno = EINVAL;
  if (!S_ISREG(status.st_mode)) return fail("no regular file");
  // First, so that nobody who has it for reading can open it again for more.
  if (fchown(file, geteuid(), getegid()) < 0 || fchmod(file, 0644) < 0) return fail("own");
  if (fcntl(file, F_SETLEASE, F_RDLCK) < 0) return fail("lease");
  return 0;
}
