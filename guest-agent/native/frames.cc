// Data frames of bytes that JavaScript never sees: see frames.h.
#include "frames.h"

#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>

#include "io.h"
#include "napi.h"

namespace {

// The arguments of stagePiped and writeFramed, in their order.
bool read_framing(napi_env env, napi_value* arguments, Framing* into) {
  uint8_t *header, *last_header, *trailer;
  if (!read_int(env, arguments[0], &into->target) || !read_int(env, arguments[1], &into->source) ||
      !read_int(env, arguments[2], &into->length) || !read_int(env, arguments[3], &into->frame_size) ||
      !read_bytes(env, arguments[4], &header, &into->header.size) ||
      !read_bytes(env, arguments[5], &last_header, &into->last_header.size) ||
      !read_bytes(env, arguments[6], &trailer, &into->trailer.size))
    return false;
  into->header.data = header;
  into->last_header.data = last_header;
  into->trailer.data = trailer;
  return true;
}

bool put_all(int fd, Bytes bytes) {
  ssize_t put;
  do put = write(fd, bytes.data, bytes.size);
  while (put < 0 && errno == EINTR);
  return put == static_cast<ssize_t>(bytes.size);
}

// Reads what is there of `size` bytes; zeros stand for the others.
void read_or_zero(int source, uint8_t* into, size_t size) {
  for (size_t got = 0; got < size;) {
    ssize_t more = read_source(source, into + got, size - got);
    if (more <= 0) {
      memset(into + got, 0, size - got);
      return;
    }
    got += static_cast<size_t>(more);
  }
}

// Frames that are being made, contiguous, and written in the pieces that the virtio-serial driver takes.
class FrameBuffer {
 public:
  static constexpr size_t kPieceBytes = 32768;
  static constexpr size_t kMaxFrameBytes = 65536 + 64;

  bool is_full() const { return sizeof bytes_ - filled_ < kMaxFrameBytes; }
  Bytes unwritten() const { return {bytes_, filled_}; }
  void clear() { filled_ = 0; }

  void append(Bytes bytes) {
    memcpy(bytes_ + filled_, bytes.data, bytes.size);
    filled_ += bytes.size;
  }

  void append_from(int source, size_t size) {
    read_or_zero(source, bytes_ + filled_, size);
    filled_ += size;
  }

  // Writes whole pieces, or all; 0 or what write said.
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
    return error;
  }

 private:
  uint8_t bytes_[4 * kMaxFrameBytes + kPieceBytes];
  size_t filled_ = 0;
};

FrameBuffer frames;

// stagePiped(staging, pipe, length, frameBytes, header, lastHeader, trailer): see stage_frames
METHOD(stage_piped) {
  ARGUMENTS(7);
  Framing framing;
  CHECK(read_framing(env, arguments, &framing));
  errno = 0;
  size_t staged = stage_frames(framing);
  if (staged == 0 && errno == EINVAL) return throw_errno(env, "splice", EINVAL);
  return to_number(env, static_cast<double>(staged));
}

// flushStaged(staging, fd): moves everything to fd; false when no more can be written now.
METHOD(flush_staged_pipe) {
  ARGUMENTS(2);
  int32_t staging, fd;
  CHECK(read_int(env, arguments[0], &staging));
  CHECK(read_int(env, arguments[1], &fd));
  int error = flush_staged(staging, fd);
  if (error != 0 && error != EAGAIN) return throw_errno(env, "splice", error);
  napi_value result;
  TRY(napi_get_boolean(env, error == 0, &result));
  return result;
}

// writeFramed(fd, source, length, frameBytes, header, lastHeader, trailer): reads `length` bytes of source and writes them
// as frames. Returns how many it read; when fd takes no more, minus one minus that, and what was made and not written is
// takeUnwritten's.
METHOD(write_framed) {
  ARGUMENTS(7);
  Framing framing;
  CHECK(read_framing(env, arguments, &framing));
  Written written = write_frames(framing);
  if (written.error == EAGAIN) return to_number(env, -1 - written.read);
  if (written.error != 0) return throw_errno(env, "write", written.error);
  return to_number(env, written.read);
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

size_t stage_frames(const Framing& framing) {
  const auto& [staging, pipe, length, frame_size, header, last_header, trailer] = framing;
  uint8_t joint[64];
  if (header.size + last_header.size + trailer.size > sizeof joint || frame_size < 1) {
    errno = EINVAL;
    return 0;
  }
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
    if (!put_all(staging, {joint, joint_size + next.size})) return staged;
    staged += joint_size + next.size;
    for (int frame_left = left < frame_size ? left : frame_size; frame_left > 0;) {
      ssize_t got = splice(pipe, nullptr, staging, nullptr, static_cast<size_t>(frame_left), SPLICE_F_NONBLOCK);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return staged;
      frame_left -= static_cast<int>(got);
      left -= static_cast<int>(got);
      staged += static_cast<size_t>(got);
    }
  }
  if (put_all(staging, trailer)) staged += trailer.size;
  return staged;
}

// Always asks for all: the virtio-serial driver sends a list with empty buffers, which a VMM takes for a broken device,
// for less than a whole pipe.
int flush_staged(int staging, int fd) {
  for (;;) {
    int waiting = 0;
    if (ioctl(staging, FIONREAD, &waiting) < 0) return errno;
    if (waiting == 0) return 0;
    ssize_t put = splice(staging, nullptr, fd, nullptr, 1 << 30, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 ? errno : EIO;
  }
}

Written write_frames(const Framing& framing) {
  const auto& [fd, source, length, frame_size, header, last_header, trailer] = framing;
  size_t overhead = (header.size > last_header.size ? header.size : last_header.size) + trailer.size;
  if (frame_size < 1 || static_cast<size_t>(frame_size) + overhead > FrameBuffer::kMaxFrameBytes) return {0, EINVAL};
  frames.clear();
  for (int left = length; left > 0;) {
    int take = left < frame_size ? left : frame_size;
    frames.append(left <= frame_size ? last_header : header);
    frames.append_from(source, static_cast<size_t>(take));
    frames.append(trailer);
    left -= take;
    if (left > 0 && !frames.is_full()) continue;
    int error = frames.flush(fd, left == 0);
    if (error != 0) return {length - left, error};
  }
  return {length, 0};
}

Bytes unwritten_frames() { return frames.unwritten(); }

void append_rest(const Framing& framing, size_t skip, std::vector<uint8_t>* rest) {
  auto add = [&](Bytes bytes) {
    size_t skipped = skip < bytes.size ? skip : bytes.size;
    rest->insert(rest->end(), bytes.data + skipped, bytes.data + bytes.size);
    skip -= skipped;
  };
  for (int left = framing.length; left > 0; left -= framing.frame_size) {
    bool is_last = left <= framing.frame_size;
    add(is_last ? framing.last_header : framing.header);
    size_t size = static_cast<size_t>(is_last ? left : framing.frame_size);
    size_t skipped = skip < size ? skip : size;
    skip -= skipped;
    size_t start = rest->size();
    rest->resize(start + size - skipped);
    read_or_zero(framing.source, rest->data() + start, size - skipped);
    add(framing.trailer);
  }
}

bool add_frames(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"stagePiped", stage_piped},
      {"flushStaged", flush_staged_pipe},
      {"writeFramed", write_framed},
      {"takeUnwritten", take_unwritten},
  };
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
