// What reading and writing in more than one file needs.
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

// As read_again, of a file that may be read past the page cache.
ssize_t read_source(int fd, uint8_t* data, size_t size);
