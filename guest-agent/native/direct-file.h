// Large files past the page cache, which costs an emulated guest several times the copying. One is read and one written
// at a time, each in order and one piece ahead; others go through the cache. What is written to a file system that cannot do
// that goes through the cache too, in the same pieces.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

// Two pieces of memory, one for the program, one for the disk. Each has slots for a data frame's payload, with room
// before and behind it for what makes a frame of it: so a file's bytes are never copied in the guest's memory.
class DirectPieces {
 public:
  static constexpr size_t kSlots = 15;
  // A frame of so many then needs two writes of the virtio-serial driver, which takes 32 KiB at a time.
  static constexpr size_t kSlotBytes = 60 << 10;
  static constexpr size_t kBytes = kSlots * kSlotBytes;

  // False when another file has them, or the file's system cannot and must.
  bool begin(int fd, bool must_be_direct);
  void end();
  bool has(int fd) const { return memory_ != nullptr && fd == fd_; }
  bool is_open() const { return memory_ != nullptr; }
  int fd() const { return fd_; }
  // Where a byte of the program's piece is, and how many follow without a gap.
  uint8_t* at(size_t offset) const { return slot(offset / kSlotBytes) + offset % kSlotBytes; }
  static size_t run(size_t offset) { return kSlotBytes - offset % kSlotBytes; }
  bool is_busy() const { return is_busy_; }
  void swap() { mine_ ^= 1; }
  // Starts reading or writing the program's piece, which is the disk's then. False: it has to be done at once instead.
  bool submit(bool is_write, size_t size, off_t position);
  // What reading or writing the disk's piece gave: bytes, or -errno.
  int64_t wait();
  // The same at once, with the program's piece; -1 with errno.
  ssize_t transfer(bool is_write, size_t from, size_t to, off_t position);

 private:
  static constexpr size_t kSlotStride = 64 << 10, kSlotMargin = 4096;
  static constexpr size_t kHugeBytes = 2 << 20;
  static_assert(2 * kSlots * kSlotStride + kSlotMargin <= kHugeBytes);

  uint8_t* slot(size_t index) const { return memory_ + (mine_ * kSlots + index) * kSlotStride + kSlotMargin; }
  int spread(size_t from, size_t to, iovec* vectors) const;

  int fd_ = -1;
  uint8_t* mapping_ = nullptr;
  uint8_t* memory_ = nullptr;
  int mine_ = 0;
  bool is_busy_ = false;
  unsigned long queue_ = 0;
};

// A new file, from its beginning.
class DirectWriter {
 public:
  // `size`: what the file will have.
  bool begin(int fd, off_t size);
  bool is_writing(int fd) const { return pieces_.has(fd); }
  // Differs from file to file, where descriptors have the same number again.
  unsigned generation() const { return generation_; }
  // Where the next bytes go: never without room.
  uint8_t* next() { return pieces_.at(filled_); }
  size_t room() const { return DirectPieces::run(filled_); }
  // So many bytes were put there: 0, or an error number.
  int advance(size_t size);
  // The same for bytes that are elsewhere.
  int append(const uint8_t* data, size_t size);
  // Writes what is left, as far as nothing failed before: 0, or the first error's number.
  int end();

 private:
  void write_piece();
  void finish_piece();
  void write_now(size_t from, size_t to, off_t position);

  DirectPieces pieces_;
  size_t filled_ = 0;
  off_t position_ = 0;
  unsigned generation_ = 0;
  int error_ = 0;
};

class DirectReader {
 public:
  // False also for what is in the cache already.
  bool begin(int fd);
  bool is_reading(int fd) const { return pieces_.has(fd); }
  // Where the next byte is read from: the descriptor's own position stays behind.
  off_t position() const { return position_; }
  // As read(2).
  ssize_t read(uint8_t* into, size_t size);
  // The same without a copy: bytes of the memory that `next` names, which has room for a frame's ends around them until the
  // next call. 0 at the end; -1 with errno.
  ssize_t take(size_t size, uint8_t** next);
  void end();

 private:
  ssize_t fill(off_t position);
  void read_ahead();

  DirectPieces pieces_;
  off_t position_ = 0;
  // What of the file the program's piece holds.
  off_t start_ = 0;
  size_t filled_ = 0;
};

extern DirectWriter direct_writer;
extern DirectReader direct_reader;
