// Read and write helpers shared by several files.
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

inline ssize_t read_again(int fd, uint8_t* data, size_t size) {
  ssize_t got;
  do got = syscall(SYS_read, fd, data, size);
  while (got < 0 && errno == EINTR);
  return got;
}

// As read_again, for a file that may be read with O_DIRECT.
ssize_t read_source(int fd, uint8_t* data, size_t size);
