// See direct-file.h.
#include "direct-file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "napi.h"

namespace {

// Alignment that every block device and file system accepts.
constexpr size_t kBlockBytes = 4096;

bool set_direct(int fd, bool is_direct) {
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, is_direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

bool is_direct(int fd) { return fcntl(fd, F_GETFL) & O_DIRECT; }

// Whether the first, middle and last page of a file are in the page cache.
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

// startDirectWrite(fd, sizeBytes): returns whether writes to the new file must use writeDirect. The file gets its
// final size at once.
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

// endDirectWrite(): 0, or -errno; all bytes are written on return
METHOD(end_direct_write) {
  (void)info;
  return to_number(env, -direct_writer.end());
}

// startDirectRead(fd): returns whether reads of this descriptor bypass the page cache until it is closed; the calls
// that read stay the same
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

bool DirectBuffer::begin(int fd, bool must_be_direct) {
  if (memory_ != nullptr) return false;
  bool is_direct = set_direct(fd, true);
  if (must_be_direct && !is_direct) return false;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    set_direct(fd, false);
    return false;
  }
  memory_ = static_cast<uint8_t*>(memory);
  fd_ = fd;
  return true;
}

void DirectBuffer::end() {
  if (memory_ != nullptr) munmap(memory_, kBytes);
  memory_ = nullptr;
}

ssize_t DirectBuffer::transfer(bool is_write, size_t from, size_t to, off_t position) {
  for (;;) {
    ssize_t done =
        is_write ? pwrite(fd_, at(from), to - from, position) : pread(fd_, at(from), to - from, position);
    if (done >= 0) return done;
    if (errno == EINTR) continue;
    // Refused only now: by a lower file system, or after a write that ended within a block.
    if (errno == EINVAL && is_direct(fd_) && set_direct(fd_, false)) continue;
    return -1;
  }
}

void DirectBuffer::leave_direct() { set_direct(fd_, false); }

bool DirectWriter::begin(int fd, off_t size) {
  if (!buffer_.begin(fd, false)) return false;
  // ext4 writes beyond the file's end are slower. If ftruncate is refused, the writes extend the file.
  if (ftruncate(fd, size) < 0) errno = 0;
  filled_ = 0;
  start_ = 0;
  generation_ += 1;
  error_ = 0;
  return true;
}

int DirectWriter::advance(size_t size) {
  filled_ += size;
  if (filled_ < DirectBuffer::kBytes) return error_;
  write(0, filled_);
  start_ += static_cast<off_t>(filled_);
  filled_ = 0;
  return error_;
}

int DirectWriter::append(const uint8_t* data, size_t size) {
  int error = 0;
  while (size > 0 && error == 0) {
    size_t step = space() < size ? space() : size;
    memcpy(next(), data, step);
    error = advance(step);
    data += step;
    size -= step;
  }
  return error;
}

int DirectWriter::end() {
  if (!buffer_.is_open()) return EBADF;
  size_t whole = filled_ / kBlockBytes * kBlockBytes;
  write(0, whole);
  buffer_.leave_direct();
  write(whole, filled_);
  buffer_.end();
  return error_;
}

void DirectWriter::write(size_t from, size_t to) {
  while (error_ == 0 && from < to) {
    ssize_t put = buffer_.transfer(true, from, to, start_ + static_cast<off_t>(from));
    if (put < 0) error_ = errno;
    else from += static_cast<size_t>(put);
  }
}

bool DirectReader::begin(int fd) {
  if (is_cached(fd) || !buffer_.begin(fd, true)) return false;
  position_ = lseek(fd, 0, SEEK_CUR);
  start_ = 0;
  filled_ = 0;
  return true;
}

ssize_t DirectReader::read(uint8_t* into, size_t size) {
  if (position_ < start_ || position_ >= start_ + static_cast<off_t>(filled_)) {
    start_ = position_ / static_cast<off_t>(kBlockBytes) * static_cast<off_t>(kBlockBytes);
    filled_ = 0;
    ssize_t got = buffer_.transfer(false, 0, DirectBuffer::kBytes, start_);
    if (got <= 0) return got;
    filled_ = static_cast<size_t>(got);
  }
  size_t offset = static_cast<size_t>(position_ - start_);
  // A short read may end less than one block before the position.
  if (offset >= filled_) return 0;
  size_t step = filled_ - offset < size ? filled_ - offset : size;
  memcpy(into, buffer_.at(offset), step);
  position_ += static_cast<off_t>(step);
  return static_cast<ssize_t>(step);
}

bool add_direct_file(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"startDirectWrite", start_direct_write},
      {"writeDirect", write_direct},
      {"endDirectWrite", end_direct_write},
      {"startDirectRead", start_direct_read},
  };
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
