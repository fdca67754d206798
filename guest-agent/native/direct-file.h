// Large files with O_DIRECT, because in an emulated guest the page cache costs several times as much as the copy. At
// most one file is read and one is written at a time, both sequentially; other files use the cache. Where a file
// system does not support O_DIRECT, writes use the page cache, in the same chunks.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// The aligned memory for one chunk of a file.
class DirectBuffer {
 public:
  // Each read and write is synchronous, so larger chunks mean fewer waits.
  static constexpr size_t kBytes = 1 << 20;

  // False when another file uses the buffer, or when O_DIRECT is required and not supported.
  bool begin(int fd, bool must_be_direct);
  void end();
  bool has(int fd) const { return memory_ != nullptr && fd == fd_; }
  bool is_open() const { return memory_ != nullptr; }
  uint8_t* at(size_t offset) const { return memory_ + offset; }
  // As pwrite(2) and pread(2), for the chunk's bytes from `from` to `to`.
  ssize_t transfer(bool is_write, size_t from, size_t to, off_t position);
  // Switches to the page cache.
  void leave_direct();

 private:
  int fd_ = -1;
  uint8_t* memory_ = nullptr;
};

// Writes a new file from its beginning.
class DirectWriter {
 public:
  // `size`: the file's final size.
  bool begin(int fd, off_t size);
  bool is_writing(int fd) const { return buffer_.has(fd); }
  // Distinguishes files whose descriptors have the same number.
  unsigned generation() const { return generation_; }
  // Destination of the next bytes; always has free space.
  uint8_t* next() { return buffer_.at(filled_); }
  size_t space() const { return DirectBuffer::kBytes - filled_; }
  // Accounts for `size` bytes stored at next(): 0, or an error number.
  int advance(size_t size);
  // The same for bytes in another buffer.
  int append(const uint8_t* data, size_t size);
  // Writes the remaining bytes, unless a write failed before: 0, or the first error's number.
  int end();

 private:
  void write(size_t from, size_t to);

  DirectBuffer buffer_;
  size_t filled_ = 0;
  // Offset of the chunk in the file.
  off_t start_ = 0;
  unsigned generation_ = 0;
  int error_ = 0;
};

class DirectReader {
 public:
  // False also when the file is in the page cache already.
  bool begin(int fd);
  bool is_reading(int fd) const { return buffer_.has(fd); }
  // As read(2), but without moving the descriptor's own position.
  ssize_t read(uint8_t* into, size_t size);
  void end() { buffer_.end(); }

 private:
  DirectBuffer buffer_;
  off_t position_ = 0;
  // Offset of the buffered bytes in the file.
  off_t start_ = 0;
  size_t filled_ = 0;
};

extern DirectWriter direct_writer;
extern DirectReader direct_reader;
