// Attacks on files, including its own.
#pragma once
#include <limits.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include "outcome.h"

static void attack_file(const char *path) {
  report("read", path, open_and_close(path, O_RDONLY));
  report("write", path, open_and_close(path, O_WRONLY | O_APPEND));
  struct sockaddr_un address = {AF_UNIX, ""};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  int stream = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(stream, (struct sockaddr *)&address, sizeof address) < 0 && errno != ECONNREFUSED) report("connect to", path, -1);
  else report("connect to", path, 0);
  close(stream);
}

enum { MIB = 1 << 20 };
/** As defined in the kernel; no header has it. */
typedef struct {
  short type, whence;
  long long start, length;
  int system;
  unsigned process;
  int unused[4];
} Reservation;
#define RESERVE _IOW('X', 42, Reservation)

static void overfill(const char *path) {
  int file = open(path, O_RDWR);
  report("reserve within", path, fallocate(file, 0, 0, MIB));
  report("zero within", path, fallocate(file, FALLOC_FL_ZERO_RANGE, 0, MIB));
  report("dig into", path, fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, MIB));
  report("try a block behind", path, fallocate(file, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, MIB, 4096));
  report("reserve behind", path, fallocate(file, FALLOC_FL_KEEP_SIZE, 0, 64 * MIB));
  report("zero behind", path, fallocate(file, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 64 * MIB, MIB));
  report("reserve far behind", path, fallocate(file, FALLOC_FL_KEEP_SIZE, 1LL << 40, 4096));
  // The sum of their lower halves is one.
  report("reserve around", path, fallocate(file, FALLOC_FL_KEEP_SIZE, 0xffffffff, 2));
  report("insert into", path, fallocate(file, FALLOC_FL_INSERT_RANGE, 0, MIB));
  Reservation reservation = {.whence = SEEK_SET, .length = 64 * MIB};
  report("have reserved", path, ioctl(file, RESERVE, &reservation));
  unsigned long flags = FS_NOATIME_FL | FS_EXTENT_FL;
  report("mark", path, ioctl(file, FS_IOC_SETFLAGS, &flags));
  struct fsxattr attributes = {.fsx_projid = 7};
  report("count for another project", path, ioctl(file, FS_IOC_FSSETXATTR, &attributes));
  close(file);
}

static void make(const char *path) {
  report("make", path, open_and_close(path, O_WRONLY | O_CREAT | O_EXCL));
  int file = open(path, O_RDONLY);
  report("lease", path, fcntl(file, F_SETLEASE, F_RDLCK));
  if (file >= 0) close(file);
  char directory[PATH_MAX];
  snprintf(directory, sizeof directory, "%s.d", path);
  // Each inside the previous one: a tree deeper than any path, which cannot be deleted by path.
  report("make a directory beside", path, mkdir(directory, 0700));
}

static void hold(const char *path) {
  struct flock all = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
  int file = open(path, O_RDONLY);
  report("lock", path, file < 0 ? file : fcntl(file, F_OFD_SETLK, &all));
  report("lock as a whole", path, flock(file, LOCK_EX | LOCK_NB));
  fflush(stdout);
  for (;;) sleep(600);
}
