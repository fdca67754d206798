// Takes over a file that another user wrote: changes its owner to the caller and makes it readable for all. Fails if a
// process may still write to it by an open descriptor or mapping: the kernel grants a read lease only if there is none.
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
  // First, so that a process with a read-only descriptor cannot reopen the file for writing.
  if (fchown(file, geteuid(), getegid()) < 0 || fchmod(file, 0644) < 0) return fail("own");
  if (fcntl(file, F_SETLEASE, F_RDLCK) < 0) return fail("lease");
  return 0;
}
