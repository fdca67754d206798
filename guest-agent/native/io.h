// What reading and writing in more than one file needs.
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

inline ssize_t read_again(int fd, uint8_t* data, size_t size) {
  ssize_t got;
  do got = syscall(SYS_read, fd, data, size);
  while (got < 0 && errno == EINTR);
  return got;
}

// As read_again, of a link. A virtio-serial port gives at most one buffer of 4 KiB for each part of the memory that it is
// to fill, so that one call asks for many.
inline ssize_t receive_again(int fd, uint8_t* data, size_t size) {
  constexpr size_t kPartBytes = 4096, kParts = 16;
  if (size <= kPartBytes) return read_again(fd, data, size);
  iovec parts[kParts];
  int count = 0;
  for (size_t at = 0; at < size && count < static_cast<int>(kParts); at += kPartBytes)
    parts[count++] = {data + at, size - at < kPartBytes ? size - at : kPartBytes};
  ssize_t got;
  do got = readv(fd, parts, count);
  while (got < 0 && errno == EINTR);
  return got;
}

// As read_again, of a file that may be read past the page cache.
ssize_t read_source(int fd, uint8_t* data, size_t size);

// Bytes that can be read now; of a file, up to its end. -1 with errno.
int64_t readable_bytes(int fd);
