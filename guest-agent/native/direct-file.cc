// See direct-file.h.
#include "direct-file.h"

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "napi.h"

namespace {

// What every block device and file system takes.
constexpr size_t kBlockBytes = 4096;

bool set_direct(int fd, bool is_direct) {
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, is_direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

bool is_direct(int fd) { return fcntl(fd, F_GETFL) & O_DIRECT; }

// Whether the beginning, the middle and the end of a file are in the page cache.
bool is_cached(int fd) {
  struct stat status;
  if (fstat(fd, &status) < 0 || status.st_size == 0) return true;
  size_t size = static_cast<size_t>(status.st_size);
  void* mapping = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (mapping == MAP_FAILED) return true;
  bool is_all = true;
  for (size_t at : {size_t{0}, size / 2, size - 1}) {
    uint8_t* page = static_cast<uint8_t*>(mapping) + at / kBlockBytes * kBlockBytes;
    unsigned char is_there = 1;
    if (mincore(page, 1, &is_there) == 0 && !(is_there & 1)) is_all = false;
  }
  munmap(mapping, size);
  return is_all;
}

// startDirectWrite(fd, sizeBytes): whether what is written to the new file goes through writeDirect from now on. It has its
// size at once.
METHOD(start_direct_write) {
  ARGUMENTS(2);
  int32_t fd;
  double size;
  CHECK(read_int(env, arguments[0], &fd));
  CHECK(read_double(env, arguments[1], &size));
  napi_value result;
  TRY(napi_get_boolean(env, direct_writer.begin(fd, static_cast<off_t>(size)), &result));
  return result;
}

// writeDirect(buffer, offset, length): 0, or -errno
METHOD(write_direct) {
  ARGUMENTS(3);
  uint8_t* data;
  size_t size;
  CHECK(read_range(env, arguments, &data, &size));
  return to_number(env, -direct_writer.append(data, size));
}

// endDirectWrite(): 0, or -errno; everything is written then
METHOD(end_direct_write) {
  (void)info;
  return to_number(env, -direct_writer.end());
}

// startDirectRead(fd): whether it is read so until it is closed; read and frames go on as with any file
METHOD(start_direct_read) {
  ARGUMENTS(1);
  int32_t fd;
  CHECK(read_int(env, arguments[0], &fd));
  napi_value result;
  TRY(napi_get_boolean(env, direct_reader.begin(fd), &result));
  return result;
}

}  // namespace

DirectWriter direct_writer;
DirectReader direct_reader;

bool DirectPieces::begin(int fd, bool must_be_direct) {
  if (memory_ != nullptr) return false;
  bool is_direct = set_direct(fd, true);
  if (must_be_direct && !is_direct) return false;
  // Twice as much as is used, so that a huge page lies in it: one piece of memory to the disk instead of a page at a time.
  void* mapping = mmap(nullptr, 2 * kHugeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    set_direct(fd, false);
    return false;
  }
  mapping_ = static_cast<uint8_t*>(mapping);
  memory_ = mapping_ + (kHugeBytes - reinterpret_cast<uintptr_t>(mapping_) % kHugeBytes) % kHugeBytes;
  madvise(memory_, kHugeBytes, MADV_HUGEPAGE);
  fd_ = fd;
  queue_ = 0;
  // Without a queue every piece is waited for.
  if (!is_direct || syscall(SYS_io_setup, 1, &queue_) < 0) queue_ = 0;
  return true;
}

void DirectPieces::end() {
  if (memory_ == nullptr) return;
  if (is_busy_) wait();
  if (queue_ != 0) syscall(SYS_io_destroy, queue_);
  munmap(mapping_, 2 * kHugeBytes);
  memory_ = nullptr;
}

int DirectPieces::spread(size_t from, size_t to, iovec* vectors) const {
  int count = 0;
  while (from < to) {
    size_t size = run(from) < to - from ? run(from) : to - from;
    vectors[count++] = {at(from), size};
    from += size;
  }
  return count;
}

bool DirectPieces::submit(bool is_write, size_t size, off_t position) {
  if (queue_ == 0) return false;
  // The kernel copies both while it takes the call.
  iovec vectors[kSlots];
  iocb call = {};
  call.aio_lio_opcode = is_write ? IOCB_CMD_PWRITEV : IOCB_CMD_PREADV;
  call.aio_fildes = static_cast<uint32_t>(fd_);
  call.aio_nbytes = static_cast<uint64_t>(spread(0, size, vectors));
  call.aio_buf = reinterpret_cast<uint64_t>(vectors);
  call.aio_offset = position;
  iocb* calls[] = {&call};
  if (syscall(SYS_io_submit, queue_, 1, calls) != 1) return false;
  is_busy_ = true;
  swap();
  return true;
}

int64_t DirectPieces::wait() {
  io_event event;
  long got;
  do got = syscall(SYS_io_getevents, queue_, 1, 1, &event, nullptr);
  while (got < 0 && errno == EINTR);
  is_busy_ = false;
  return got == 1 ? event.res : -EIO;
}

ssize_t DirectPieces::transfer(bool is_write, size_t from, size_t to, off_t position) {
  iovec vectors[kSlots];
  for (;;) {
    int count = spread(from, to, vectors);
    ssize_t done = is_write ? pwritev(fd_, vectors, count, position) : preadv(fd_, vectors, count, position);
    if (done >= 0) return done;
    if (errno == EINTR) continue;
    // Refused only now, by a file system below, or behind a write that was cut short within a block.
    if (errno == EINVAL && is_direct(fd_) && set_direct(fd_, false)) continue;
    return -1;
  }
}

bool DirectWriter::begin(int fd, off_t size) {
  if (!pieces_.begin(fd, false)) return false;
  // A write that makes the file longer is waited for, others are not. Where this is refused they all are.
  if (ftruncate(fd, size) < 0) errno = 0;
  filled_ = 0;
  position_ = 0;
  generation_ += 1;
  error_ = 0;
  return true;
}

int DirectWriter::advance(size_t size) {
  filled_ += size;
  if (filled_ == DirectPieces::kBytes) write_piece();
  return error_;
}

int DirectWriter::append(const uint8_t* data, size_t size) {
  int error = 0;
  while (size > 0 && error == 0) {
    size_t step = room() < size ? room() : size;
    memcpy(next(), data, step);
    error = advance(step);
    data += step;
    size -= step;
  }
  return error;
}

int DirectWriter::end() {
  if (!pieces_.is_open()) return EBADF;
  finish_piece();
  size_t whole = filled_ / kBlockBytes * kBlockBytes;
  write_now(0, whole, position_);
  set_direct(pieces_.fd(), false);
  write_now(whole, filled_, position_ + static_cast<off_t>(whole));
  pieces_.end();
  return error_;
}

void DirectWriter::write_piece() {
  finish_piece();
  filled_ = 0;
  off_t position = position_;
  position_ += static_cast<off_t>(DirectPieces::kBytes);
  if (error_ == 0 && !pieces_.submit(true, DirectPieces::kBytes, position)) write_now(0, DirectPieces::kBytes, position);
}

// What was written short, or not at all, is written at once: then it is known why.
void DirectWriter::finish_piece() {
  if (!pieces_.is_busy()) return;
  int64_t put = pieces_.wait();
  size_t done = put > 0 ? static_cast<size_t>(put) : 0;
  if (done == DirectPieces::kBytes) return;
  pieces_.swap();
  write_now(done, DirectPieces::kBytes, position_ - static_cast<off_t>(DirectPieces::kBytes - done));
  pieces_.swap();
}

void DirectWriter::write_now(size_t from, size_t to, off_t position) {
  while (error_ == 0 && from < to) {
    ssize_t put = pieces_.transfer(true, from, to, position);
    if (put < 0) {
      error_ = errno;
      return;
    }
    from += static_cast<size_t>(put);
    position += put;
  }
}

bool DirectReader::begin(int fd) {
  if (is_cached(fd) || !pieces_.begin(fd, true)) return false;
  position_ = lseek(fd, 0, SEEK_CUR);
  start_ = 0;
  filled_ = 0;
  return true;
}

ssize_t DirectReader::read(uint8_t* into, size_t size) {
  uint8_t* from;
  ssize_t got = take(size, &from);
  if (got > 0) memcpy(into, from, static_cast<size_t>(got));
  return got;
}

ssize_t DirectReader::take(size_t size, uint8_t** next) {
  if (position_ < start_ || position_ >= start_ + static_cast<off_t>(filled_)) {
    ssize_t got = fill(position_);
    if (got <= 0) return got;
  }
  size_t offset = static_cast<size_t>(position_ - start_);
  // Less than a block before the position may be all that there is.
  if (offset >= filled_) return 0;
  size_t there = filled_ - offset < DirectPieces::run(offset) ? filled_ - offset : DirectPieces::run(offset);
  size_t step = there < size ? there : size;
  *next = pieces_.at(offset);
  position_ += static_cast<off_t>(step);
  return static_cast<ssize_t>(step);
}

ssize_t DirectReader::fill(off_t position) {
  off_t next = start_ + static_cast<off_t>(filled_);
  start_ = position / static_cast<off_t>(kBlockBytes) * static_cast<off_t>(kBlockBytes);
  filled_ = 0;
  ssize_t got = -1;
  if (pieces_.is_busy()) {
    got = static_cast<ssize_t>(pieces_.wait());
    pieces_.swap();
    if (start_ != next) got = -1;
  }
  // What failed is tried again at once: then it is known why.
  if (got < 0) got = pieces_.transfer(false, 0, DirectPieces::kBytes, start_);
  if (got > 0) filled_ = static_cast<size_t>(got);
  read_ahead();
  return got;
}

// Into the other piece.
void DirectReader::read_ahead() {
  if (filled_ < DirectPieces::kBytes || !is_direct(pieces_.fd())) return;
  pieces_.swap();
  if (!pieces_.submit(false, DirectPieces::kBytes, start_ + static_cast<off_t>(filled_))) pieces_.swap();
}

void DirectReader::end() { pieces_.end(); }

bool add_direct_file(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"startDirectWrite", start_direct_write},
      {"writeDirect", write_direct},
      {"endDirectWrite", end_direct_write},
      {"startDirectRead", start_direct_read},
  };
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
