// The one writer of data frames whose bytes JavaScript never sees: it reads them from a pipe or a file. What it writes is what
// proto/src/wire/data-frame.ts would, byte for byte (tested).
#include <string.h>

#include "io.h"
#include "napi.h"
#include "wire.h"

namespace {

constexpr size_t kMaxHeaderBytes = 24;

// What stands before `payload` bytes of a frame with `tail` bytes behind them; returns its length.
size_t put_header(uint8_t* into, uint32_t stream, uint32_t flow, size_t payload, size_t tail) {
  uint8_t head[kMaxHeaderBytes];
  size_t size = 0;
  head[size++] = kTagStream;
  size += put_varint(head + size, stream);
  if (flow != 0) {
    head[size++] = kTagFlow;
    head[size++] = static_cast<uint8_t>(flow);
  }
  head[size++] = kTagData;
  size += put_varint(head + size, static_cast<uint32_t>(payload));
  size_t prefix = put_varint(into, static_cast<uint32_t>(size + payload + tail));
  memcpy(into + prefix, head, size);
  return prefix + size;
}

// Frames that are being made, one behind the other, and written in the pieces that the virtio-serial driver takes at once.
class FrameBuffer {
 public:
  // Reads up to `want` bytes (at most kMaxPayload) and appends a frame of those that there are. Returns how many: 0 at the
  // end, -errno when none could be read. To be called only when it is not full.
  ssize_t append(int source, uint32_t stream, uint32_t flow, size_t want);
  // Writes whole pieces, or all: 0 or what write said.
  int flush(int fd, bool is_all);

  bool is_full() const { return sizeof bytes_ - filled_ < kFrameBytes; }
  const uint8_t* unwritten() const { return bytes_; }
  size_t unwritten_size() const { return filled_; }
  void clear() { filled_ = 0; }

 private:
  static constexpr size_t kFrameBytes = kMaxPayload + 64, kPieceBytes = 32768;

  uint8_t bytes_[4 * kFrameBytes + kPieceBytes];
  size_t filled_ = 0;
};

ssize_t FrameBuffer::append(int source, uint32_t stream, uint32_t flow, size_t want) {
  uint8_t unused[kMaxHeaderBytes];
  // Where the payload goes when all of it is there.
  size_t room = put_header(unused, stream, flow, want, 0);
  uint8_t* frame = bytes_ + filled_;
  size_t size = 0;
  while (size < want) {
    ssize_t got = read_source(source, frame + room + size, want - size);
    if (got > 0) {
      size += static_cast<size_t>(got);
      continue;
    }
    if (size > 0) break;  // the next call says why
    return got < 0 ? -errno : 0;
  }
  // A frame never ends in a zero byte.
  size_t tail = frame[room + size - 1] == 0 ? sizeof kWhole : 0;
  uint8_t header[kMaxHeaderBytes];
  size_t header_size = put_header(header, stream, flow, size, tail);
  if (header_size != room) memmove(frame + header_size, frame + room, size);
  memcpy(frame, header, header_size);
  memcpy(frame + header_size + size, kWhole, tail);
  filled_ += header_size + size + tail;
  return static_cast<ssize_t>(size);
}

int FrameBuffer::flush(int fd, bool is_all) {
  size_t at = 0;
  int error = fd < 0 ? EAGAIN : 0;
  while (error == 0 && (filled_ - at >= kPieceBytes || (is_all && filled_ > at))) {
    size_t piece = filled_ - at < kPieceBytes ? filled_ - at : kPieceBytes;
    ssize_t put = write(fd, bytes_ + at, piece);
    if (put >= 0) at += static_cast<size_t>(put);
    else if (errno != EINTR) error = errno;
  }
  filled_ -= at;
  memmove(bytes_, bytes_ + at, filled_);
  return error;
}

FrameBuffer frames;

// writeFrom(link, source, stream, flow, length): writes up to `length` bytes that can be read from `source` as data frames.
// Returns how many it read: 0 at the end, -errno when none could be. What the link did not take is takeUnwritten's; a link
// of -1 takes nothing.
METHOD(write_from) {
  ARGUMENTS(5);
  int32_t link, source, flow;
  double stream, length;
  CHECK(read_int(env, arguments[0], &link));
  CHECK(read_int(env, arguments[1], &source));
  CHECK(read_double(env, arguments[2], &stream));
  CHECK(read_int(env, arguments[3], &flow));
  CHECK(read_double(env, arguments[4], &length));
  frames.clear();
  int error = 0;
  ssize_t got = 0;
  size_t total = 0;
  for (size_t left = static_cast<size_t>(length); left > 0 && error == 0; left -= static_cast<size_t>(got)) {
    size_t want = left < kMaxPayload ? left : kMaxPayload;
    got = frames.append(source, static_cast<uint32_t>(stream), static_cast<uint32_t>(flow), want);
    if (got <= 0) break;
    total += static_cast<size_t>(got);
    if (frames.is_full()) error = frames.flush(link, false);
    if (static_cast<size_t>(got) < want) break;
  }
  if (error == 0) error = frames.flush(link, true);
  if (error != 0 && error != EAGAIN) return throw_errno(env, "write", error);
  return to_number(env, total > 0 ? static_cast<double>(total) : static_cast<double>(got));
}

// takeUnwritten(): a copy of what writeFrom left, or undefined
METHOD(take_unwritten) {
  (void)info;
  if (frames.unwritten_size() == 0) return undefined(env);
  napi_value result;
  TRY(napi_create_buffer_copy(env, frames.unwritten_size(), frames.unwritten(), nullptr, &result));
  frames.clear();
  return result;
}

}  // namespace

bool add_frames(napi_env env, napi_value exports) {
  const Method methods[] = {{"writeFrom", write_from}, {"takeUnwritten", take_unwritten}};
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
