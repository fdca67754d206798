// Data frames of bytes that JavaScript never sees: from a pipe by moving its pages, from a file by reading it.
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>

#include "io.h"
#include "napi.h"

namespace {

struct Bytes {
  uint8_t* data;
  size_t size;
};

// The arguments of stagePiped and writeFramed, in their order.
struct Framing {
  int32_t target, source, length, frame_size;
  Bytes header, last_header, trailer;
};

bool read_framing(napi_env env, napi_value* arguments, Framing* into) {
  return read_int(env, arguments[0], &into->target) && read_int(env, arguments[1], &into->source) &&
         read_int(env, arguments[2], &into->length) && read_int(env, arguments[3], &into->frame_size) &&
         read_bytes(env, arguments[4], &into->header.data, &into->header.size) &&
         read_bytes(env, arguments[5], &into->last_header.data, &into->last_header.size) &&
         read_bytes(env, arguments[6], &into->trailer.data, &into->trailer.size);
}

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
  Framing call;
  CHECK(read_framing(env, arguments, &call));
  auto& [staging, pipe, length, frame_size, header, last_header, trailer] = call;
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
  Framing call;
  CHECK(read_framing(env, arguments, &call));
  auto& [fd, source, length, frame_size, header, last_header, trailer] = call;
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

}  // namespace

bool add_frames(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"stagePiped", stage_piped},
      {"flushStaged", flush_staged},
      {"writeFramed", write_framed},
      {"takeUnwritten", take_unwritten},
  };
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
