// Reading and writing of non-blocking descriptors, and pipes. "Not now" is a number (-EAGAIN), not an exception.
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "napi.h"

namespace {

ssize_t read_again(int fd, uint8_t* data, size_t size) {
  ssize_t got;
  do got = read(fd, data, size);
  while (got < 0 && errno == EINTR);
  return got;
}

// Whole of the range [offset, offset + length) of the buffer argument, or throws.
bool read_range(napi_env env, napi_value* arguments, uint8_t** data, size_t* size) {
  int32_t offset, length;
  size_t total;
  if (!read_bytes(env, arguments[0], data, &total)) return false;
  if (!read_int(env, arguments[1], &offset) || !read_int(env, arguments[2], &length)) return false;
  if (offset < 0 || length < 0 || static_cast<size_t>(offset) + static_cast<size_t>(length) > total) {
    napi_throw_range_error(env, nullptr, "the range is outside of the buffer");
    return false;
  }
  *data += offset;
  *size = static_cast<size_t>(length);
  return true;
}

// read(fd, buffer, offset, length): reads until the range is full, nothing more is there, or the end. A virtio-serial
// port gives 4 KiB a call, a terminal less, a pipe what it has. Returns bytes; 0 at the end; -EAGAIN for nothing now.
METHOD(read_available) {
  ARGUMENTS(4);
  int32_t fd;
  uint8_t* data;
  size_t size;
  CHECK(read_int(env, arguments[0], &fd));
  CHECK(read_range(env, arguments + 1, &data, &size));
  size_t filled = 0;
  while (filled < size) {
    ssize_t got = read_again(fd, data + filled, size - filled);
    if (got > 0) {
      filled += static_cast<size_t>(got);
      continue;
    }
    if (filled > 0) break;  // the next call says why
    if (got == 0) return to_number(env, 0);
    if (errno == EAGAIN) return to_number(env, -EAGAIN);
    return throw_errno(env, "read", errno);
  }
  return to_number(env, static_cast<double>(filled));
}

// write(fd, buffer, offset, length): bytes written, which may be fewer; -EAGAIN for none now.
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

// Collects bytes and writes them in whole pieces. The virtio-serial driver takes at most 32 KiB a call, turns each call
// into one buffer of the queue and one exit to the VMM, and has no writev; so small chunks are copied together.
class Gatherer {
 public:
  Gatherer(int fd, size_t piece_bytes) : fd_(fd), piece_bytes_(piece_bytes) {}

  // False when no more can be written now, or for ever (error()).
  bool add(const uint8_t* data, size_t size) {
    while (size > 0) {
      size_t take = piece_bytes_ - held_ < size ? piece_bytes_ - held_ : size;
      if (held_ == 0 && take == piece_bytes_) {
        if (!put(data, take)) return false;
      } else {
        memcpy(piece_ + held_, data, take);
        held_ += take;
        if (held_ == piece_bytes_ && !flush()) return false;
      }
      data += take;
      size -= take;
    }
    return true;
  }

  bool flush() {
    size_t size = held_;
    held_ = 0;
    return size == 0 || put(piece_, size);
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

  static constexpr size_t kMaxPieceBytes = 32768;
  static uint8_t piece_[kMaxPieceBytes];
  int fd_;
  size_t piece_bytes_;
  size_t held_ = 0;
  size_t written_ = 0;
  int error_ = 0;
};

uint8_t Gatherer::piece_[Gatherer::kMaxPieceBytes];

// writeGathered(fd, chunks: Uint8Array[]): how many bytes of all chunks were written; fewer when no more can be now.
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

struct Bytes {
  uint8_t* data;
  size_t size;
};

bool put_all(int fd, Bytes bytes) {
  ssize_t put;
  do put = write(fd, bytes.data, bytes.size);
  while (put < 0 && errno == EINTR);
  return put == static_cast<ssize_t>(bytes.size);
}

// stagePiped(staging, pipe, length, frameBytes, header, lastHeader, trailer): moves the bytes as frames into the empty
// pipe `staging`, pages and not copies of them. Returns how many bytes of the encoded frames it took: not all when staging
// is full (a command may fill its pipe with tiny pieces of pages) or the bytes are not there.
METHOD(stage_piped) {
  ARGUMENTS(7);
  int32_t staging, pipe, length, frame_size;
  Bytes header, last_header, trailer;
  CHECK(read_int(env, arguments[0], &staging));
  CHECK(read_int(env, arguments[1], &pipe));
  CHECK(read_int(env, arguments[2], &length));
  CHECK(read_int(env, arguments[3], &frame_size));
  CHECK(read_bytes(env, arguments[4], &header.data, &header.size));
  CHECK(read_bytes(env, arguments[5], &last_header.data, &last_header.size));
  CHECK(read_bytes(env, arguments[6], &trailer.data, &trailer.size));
  uint8_t joint[64];
  if (header.size + last_header.size + trailer.size > sizeof joint || frame_size < 1)
    return throw_errno(env, "splice", EINVAL);
  size_t staged = 0;
  for (int left = length; left > 0;) {
    // The end of one frame and the beginning of the next share a page.
    size_t joint_size = 0;
    if (left < length) {
      memcpy(joint, trailer.data, trailer.size);
      joint_size = trailer.size;
    }
    const Bytes& next = left <= frame_size ? last_header : header;
    memcpy(joint + joint_size, next.data, next.size);
    if (!put_all(staging, {joint, joint_size + next.size})) return to_number(env, static_cast<double>(staged));
    staged += joint_size + next.size;
    for (int frame_left = left < frame_size ? left : frame_size; frame_left > 0;) {
      ssize_t got = splice(pipe, nullptr, staging, nullptr, static_cast<size_t>(frame_left), SPLICE_F_NONBLOCK);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return to_number(env, static_cast<double>(staged));
      frame_left -= static_cast<int>(got);
      left -= static_cast<int>(got);
      staged += static_cast<size_t>(got);
    }
  }
  if (put_all(staging, trailer)) staged += trailer.size;
  return to_number(env, static_cast<double>(staged));
}

// flushStaged(staging, fd): moves everything to fd; false when no more can be written now. Always asks for all: the
// virtio-serial driver sends a list with empty buffers, which a VMM takes for a broken device, for less than a whole pipe.
METHOD(flush_staged) {
  ARGUMENTS(2);
  int32_t staging, fd;
  CHECK(read_int(env, arguments[0], &staging));
  CHECK(read_int(env, arguments[1], &fd));
  bool is_empty = false;
  for (;;) {
    int waiting = 0;
    if (ioctl(staging, FIONREAD, &waiting) < 0) return throw_errno(env, "ioctl FIONREAD", errno);
    if ((is_empty = waiting == 0)) break;
    ssize_t put = splice(staging, nullptr, fd, nullptr, 1 << 30, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) break;
    if (put <= 0) return throw_errno(env, "splice", put < 0 ? errno : EIO);
  }
  napi_value result;
  TRY(napi_get_boolean(env, is_empty, &result));
  return result;
}

// Frames that are being made of a source's bytes, contiguous, and written in the pieces that the virtio-serial driver
// takes. What could not be written waits here for takeUnwritten.
class FrameBuffer {
 public:
  static constexpr size_t kPieceBytes = 32768;
  static constexpr size_t kMaxFrameBytes = 65536 + 64;

  bool is_full() const { return sizeof bytes_ - filled_ < kMaxFrameBytes; }
  Bytes unwritten() { return {bytes_, filled_}; }
  void clear() { filled_ = 0; }

  void append(Bytes bytes) {
    memcpy(bytes_ + filled_, bytes.data, bytes.size);
    filled_ += bytes.size;
  }

  // Zeros stand for bytes that are gone: a command may read its own output, a file become shorter.
  void append_from(int source, size_t size) {
    for (size_t got = 0; got < size;) {
      ssize_t more = read_again(source, bytes_ + filled_ + got, size - got);
      if (more <= 0) {
        memset(bytes_ + filled_ + got, 0, size - got);
        break;
      }
      got += static_cast<size_t>(more);
    }
    filled_ += size;
  }

  // Writes whole pieces, or all; 0, -EAGAIN or what write said.
  int flush(int fd, bool is_all) {
    size_t at = 0;
    int error = 0;
    while (filled_ - at >= kPieceBytes || (is_all && filled_ > at)) {
      size_t piece = filled_ - at < kPieceBytes ? filled_ - at : kPieceBytes;
      ssize_t put = write(fd, bytes_ + at, piece);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        error = errno;
        break;
      }
      at += static_cast<size_t>(put);
    }
    filled_ -= at;
    memmove(bytes_, bytes_ + at, filled_);
    return -error;
  }

 private:
  uint8_t bytes_[4 * kMaxFrameBytes + kPieceBytes];
  size_t filled_ = 0;
};

FrameBuffer frames;

// writeFramed(fd, source, length, frameBytes, header, lastHeader, trailer): reads `length` bytes of source and writes them
// as frames. Returns how many it read; when fd takes no more, minus one minus that, and what was made and not written is
// takeUnwritten's.
METHOD(write_framed) {
  ARGUMENTS(7);
  int32_t fd, source, length, frame_size;
  Bytes header, last_header, trailer;
  CHECK(read_int(env, arguments[0], &fd));
  CHECK(read_int(env, arguments[1], &source));
  CHECK(read_int(env, arguments[2], &length));
  CHECK(read_int(env, arguments[3], &frame_size));
  CHECK(read_bytes(env, arguments[4], &header.data, &header.size));
  CHECK(read_bytes(env, arguments[5], &last_header.data, &last_header.size));
  CHECK(read_bytes(env, arguments[6], &trailer.data, &trailer.size));
  size_t overhead = (header.size > last_header.size ? header.size : last_header.size) + trailer.size;
  if (frame_size < 1 || static_cast<size_t>(frame_size) + overhead > FrameBuffer::kMaxFrameBytes)
    return throw_errno(env, "write", EINVAL);
  frames.clear();
  int left = length;
  while (left > 0) {
    int take = left < frame_size ? left : frame_size;
    frames.append(left <= frame_size ? last_header : header);
    frames.append_from(source, static_cast<size_t>(take));
    frames.append(trailer);
    left -= take;
    if (left > 0 && !frames.is_full()) continue;
    int error = frames.flush(fd, left == 0);
    if (error == -EAGAIN) return to_number(env, -1 - (length - left));
    if (error < 0) return throw_errno(env, "write", -error);
  }
  return to_number(env, length);
}

// takeUnwritten(): a copy of what writeFramed left
METHOD(take_unwritten) {
  (void)info;
  Bytes rest = frames.unwritten();
  napi_value result;
  TRY(napi_create_buffer_copy(env, rest.size, rest.data, nullptr, &result));
  frames.clear();
  return result;
}

// pipe(ours: 0 | 1, sizeBytes): [read end, write end]; end `ours` is non-blocking. A size that is refused is ignored.
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

// available(fd): bytes that can be read now (FIONREAD)
METHOD(available) {
  ARGUMENTS(1);
  int32_t fd;
  int bytes = 0;
  CHECK(read_int(env, arguments[0], &fd));
  if (ioctl(fd, FIONREAD, &bytes) < 0) return throw_errno(env, "ioctl FIONREAD", errno);
  return to_number(env, bytes);
}

// socketPair(): two connected stream sockets, both non-blocking
METHOD(socket_pair) {
  (void)info;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
    return throw_errno(env, "socketpair", errno);
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

// close(fd): errors are of no use to anyone
METHOD(close_file) {
  ARGUMENTS(1);
  int32_t fd;
  CHECK(read_int(env, arguments[0], &fd));
  close(fd);
  return undefined(env);
}

}  // namespace

bool add_io(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"read", read_available},  {"write", write_some},       {"writeGathered", write_gathered},
      {"pipe", make_pipe},       {"available", available},    {"socketPair", socket_pair},
      {"open", open_file},       {"close", close_file},
      {"stagePiped", stage_piped}, {"flushStaged", flush_staged},
      {"writeFramed", write_framed}, {"takeUnwritten", take_unwritten},
  };
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
