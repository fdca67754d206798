// Large files past the page cache, which costs an emulated guest several times the copying. One is read and one written
// at a time, each in order; others go through the cache. What is written to a file system that cannot do that goes through the
// cache too, in the same pieces.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// The memory for a piece of one file, as the disk takes it.
class DirectPiece {
 public:
  // Each write and read is waited for, so that larger pieces are fewer waits.
  static constexpr size_t kBytes = 1 << 20;

  // False when another file has it, or the file's system cannot and must.
  bool begin(int fd, bool must_be_direct);
  void end();
  bool has(int fd) const { return memory_ != nullptr && fd == fd_; }
  bool is_open() const { return memory_ != nullptr; }
  uint8_t* at(size_t offset) const { return memory_ + offset; }
  // As pwrite(2) and pread(2), of the piece's bytes from `from` to `to`.
  ssize_t transfer(bool is_write, size_t from, size_t to, off_t position);
  // From now on through the cache.
  void leave_direct();

 private:
  int fd_ = -1;
  uint8_t* memory_ = nullptr;
};

// A new file, from its beginning.
class DirectWriter {
 public:
  // `size`: what the file will have.
  bool begin(int fd, off_t size);
  bool is_writing(int fd) const { return piece_.has(fd); }
  // Differs from file to file, where descriptors have the same number again.
  unsigned generation() const { return generation_; }
  // Where the next bytes go: never without room.
  uint8_t* next() { return piece_.at(filled_); }
  size_t room() const { return DirectPiece::kBytes - filled_; }
  // So many bytes were put there: 0, or an error number.
  int advance(size_t size);
  // The same for bytes that are elsewhere.
  int append(const uint8_t* data, size_t size);
  // Writes what is left, as far as nothing failed before: 0, or the first error's number.
  int end();

 private:
  void write(size_t from, size_t to);

  DirectPiece piece_;
  size_t filled_ = 0;
  // Where in the file the piece begins.
  off_t start_ = 0;
  unsigned generation_ = 0;
  int error_ = 0;
};

class DirectReader {
 public:
  // False also for what is in the cache already.
  bool begin(int fd);
  bool is_reading(int fd) const { return piece_.has(fd); }
  // As read(2): the descriptor's own position stays behind.
  ssize_t read(uint8_t* into, size_t size);
  void end() { piece_.end(); }

 private:
  DirectPiece piece_;
  off_t position_ = 0;
  // What of the file the piece holds.
  off_t start_ = 0;
  size_t filled_ = 0;
};

extern DirectWriter direct_writer;
extern DirectReader direct_reader;
