// Reads and writes of non-blocking descriptors, and pipes. A call that would block returns -EAGAIN and throws nothing.
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "direct-file.h"
#include "io.h"
#include "napi.h"

namespace {

// read(fd, buffer, offset, length): reads until the range is full, no data is ready, or the end. A terminal returns one
// line per call, a pipe all of its data. Returns the byte count; 0 at the end; -EAGAIN when no data is ready.
METHOD(read_available) {
  ARGUMENTS(4);
  int32_t fd;
  uint8_t* data;
  size_t size;
  CHECK(read_int(env, arguments[0], &fd));
  CHECK(read_range(env, arguments + 1, &data, &size));
  size_t filled = 0;
  while (filled < size) {
    ssize_t got = read_source(fd, data + filled, size - filled);
    if (got > 0) {
      filled += static_cast<size_t>(got);
      continue;
    }
    if (filled > 0) break;  // the next call returns the error
    if (got == 0) return to_number(env, 0);
    if (errno == EAGAIN) return to_number(env, -EAGAIN);
    return throw_errno(env, "read", errno);
  }
  return to_number(env, static_cast<double>(filled));
}

// write(fd, buffer, offset, length): bytes written, which may be fewer; -EAGAIN when none can be written now.
METHOD(write_some) {
  ARGUMENTS(4);
  int32_t fd;
  uint8_t* data;
  size_t size;
  CHECK(read_int(env, arguments[0], &fd));
  CHECK(read_range(env, arguments + 1, &data, &size));
  ssize_t put;
  do put = write(fd, data, size);
  while (put < 0 && errno == EINTR);
  if (put >= 0) return to_number(env, static_cast<double>(put));
  if (errno == EAGAIN) return to_number(env, -EAGAIN);
  return throw_errno(env, "write", errno);
}

// Joins small chunks and writes them together. The virtio-serial driver accepts at most 32 KiB per call, turns each
// call into one queue buffer and one VM exit, and has no writev.
class Gatherer {
 public:
  Gatherer(int fd, size_t chunk_bytes) : fd_(fd), chunk_bytes_(chunk_bytes) {}

  // False when no more can be written, now or at all (error()).
  bool add(const uint8_t* data, size_t size) {
    while (size > 0) {
      size_t take = chunk_bytes_ - buffered_ < size ? chunk_bytes_ - buffered_ : size;
      if (buffered_ == 0 && take == chunk_bytes_) {
        if (!put(data, take)) return false;
      } else {
        memcpy(buffer_ + buffered_, data, take);
        buffered_ += take;
        if (buffered_ == chunk_bytes_ && !flush()) return false;
      }
      data += take;
      size -= take;
    }
    return true;
  }

  bool flush() {
    size_t size = buffered_;
    buffered_ = 0;
    return size == 0 || put(buffer_, size);
  }

  size_t written() const { return written_; }
  int error() const { return error_; }

 private:
  bool put(const uint8_t* data, size_t size) {
    while (size > 0) {
      ssize_t put = write(fd_, data, size);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        if (errno != EAGAIN) error_ = errno;
        return false;
      }
      written_ += static_cast<size_t>(put);
      data += put;
      size -= static_cast<size_t>(put);
    }
    return true;
  }

  static constexpr size_t kMaxChunkBytes = 32768;
  static uint8_t buffer_[kMaxChunkBytes];
  int fd_;
  size_t chunk_bytes_;
  size_t buffered_ = 0;
  size_t written_ = 0;
  int error_ = 0;
};

uint8_t Gatherer::buffer_[Gatherer::kMaxChunkBytes];

// writeGathered(fd, chunks: Uint8Array[]): bytes written of all chunks; fewer when the descriptor is full.
METHOD(write_gathered) {
  ARGUMENTS(2);
  int32_t fd;
  uint32_t count;
  CHECK(read_int(env, arguments[0], &fd));
  TRY(napi_get_array_length(env, arguments[1], &count));
  Gatherer gatherer(fd, 32768);
  bool is_open = true;
  for (uint32_t i = 0; i < count && is_open; i++) {
    napi_value chunk;
    uint8_t* data;
    size_t size;
    TRY(napi_get_element(env, arguments[1], i, &chunk));
    CHECK(read_bytes(env, chunk, &data, &size));
    is_open = gatherer.add(data, size);
  }
  if (is_open) gatherer.flush();
  if (gatherer.error()) return throw_errno(env, "write", gatherer.error());
  return to_number(env, static_cast<double>(gatherer.written()));
}

// pipe(ours: 0 | 1, sizeBytes): [read end, write end]; end `ours` is non-blocking. A refused size is ignored.
METHOD(make_pipe) {
  ARGUMENTS(2);
  int32_t ours, size;
  CHECK(read_int(env, arguments[0], &ours));
  CHECK(read_int(env, arguments[1], &size));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0) return throw_errno(env, "pipe2", errno);
  fcntl(ends[ours & 1], F_SETFL, (ours & 1 ? O_WRONLY : O_RDONLY) | O_NONBLOCK);
  if (size > 0) fcntl(ends[0], F_SETPIPE_SZ, size);
  return to_pair(env, ends[0], ends[1]);
}

// available(fd): bytes that can be read now from a pipe or a terminal
METHOD(available) {
  ARGUMENTS(1);
  int32_t fd;
  CHECK(read_int(env, arguments[0], &fd));
  int bytes = 0;
  if (ioctl(fd, FIONREAD, &bytes) < 0) return throw_errno(env, "ioctl FIONREAD", errno);
  return to_number(env, bytes);
}

// socketPair(): two connected non-blocking stream sockets. Where permitted, their buffers are larger than a stream's
// window, as those of a virtio-serial port are.
METHOD(socket_pair) {
  (void)info;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
    return throw_errno(env, "socketpair", errno);
  int buffer_bytes = 4 << 20;
  for (int end : ends) setsockopt(end, SOL_SOCKET, SO_SNDBUFFORCE, &buffer_bytes, sizeof buffer_bytes);
  return to_pair(env, ends[0], ends[1]);
}

// open(path, flags): O_CLOEXEC is added
METHOD(open_file) {
  ARGUMENTS(2);
  std::string path;
  int32_t flags;
  CHECK(read_string(env, arguments[0], &path));
  CHECK(read_int(env, arguments[1], &flags));
  int fd = open(path.c_str(), flags | O_CLOEXEC, 0600);
  if (fd < 0) return throw_errno(env, "open", errno, path.c_str());
  return to_number(env, fd);
}

// close(fd): ignores errors, because no caller can act on them
METHOD(close_file) {
  ARGUMENTS(1);
  int32_t fd;
  CHECK(read_int(env, arguments[0], &fd));
  if (direct_reader.is_reading(fd)) direct_reader.end();
  close(fd);
  return undefined(env);
}

}  // namespace

ssize_t read_source(int fd, uint8_t* data, size_t size) {
  return direct_reader.is_reading(fd) ? direct_reader.read(data, size) : read_again(fd, data, size);
}

bool add_io(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"read", read_available}, {"write", write_some}, {"writeGathered", write_gathered}, {"pipe", make_pipe},
      {"available", available}, {"open", open_file},   {"close", close_file},             {"socketPair", socket_pair},
  };
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
