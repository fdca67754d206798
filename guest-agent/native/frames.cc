// Writes data frames whose payload comes from a pipe or a file, without JavaScript. The output is byte-identical to
// proto/src/wire/data-frame.ts (tested).
#include <string.h>

#include "io.h"
#include "napi.h"
#include "wire.h"

namespace {

constexpr size_t kMaxHeaderBytes = 24;

// Writes the header of a frame with `payload` bytes and a trailer of `tail` bytes. Returns the header's length.
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

// Encoded frames, written in chunks of the size that the virtio-serial driver accepts.
class FrameBuffer {
 public:
  // Reads up to `want` bytes (at most kMaxPayload) and appends them as a frame. Returns the byte count: 0 at the end,
  // -errno when nothing could be read. The buffer must not be full.
  ssize_t append(int source, uint32_t stream, uint32_t flow, size_t want);
  // Writes the full chunks, or everything: 0 or the error of write.
  int flush(int fd, bool is_all);

  bool is_full() const { return sizeof bytes_ - filled_ < kFrameBytes; }
  const uint8_t* unwritten() const { return bytes_; }
  size_t unwritten_size() const { return filled_; }
  void clear() { filled_ = 0; }

 private:
  static constexpr size_t kFrameBytes = kMaxPayload + 64, kChunkBytes = 32768;

  uint8_t bytes_[4 * kFrameBytes + kChunkBytes];
  size_t filled_ = 0;
};

ssize_t FrameBuffer::append(int source, uint32_t stream, uint32_t flow, size_t want) {
  uint8_t unused[kMaxHeaderBytes];
  // Offset of the payload of a full frame.
  size_t header_space = put_header(unused, stream, flow, want, 0);
  uint8_t* frame = bytes_ + filled_;
  size_t size = 0;
  while (size < want) {
    ssize_t got = read_source(source, frame + header_space + size, want - size);
    if (got > 0) {
      size += static_cast<size_t>(got);
      continue;
    }
    if (size > 0) break;  // the next call returns the error
    return got < 0 ? -errno : 0;
  }
  // A frame never ends in a zero byte.
  size_t tail = frame[header_space + size - 1] == 0 ? sizeof kWhole : 0;
  uint8_t header[kMaxHeaderBytes];
  size_t header_size = put_header(header, stream, flow, size, tail);
  if (header_size != header_space) memmove(frame + header_size, frame + header_space, size);
  memcpy(frame, header, header_size);
  memcpy(frame + header_size + size, kWhole, tail);
  filled_ += header_size + size + tail;
  return static_cast<ssize_t>(size);
}

int FrameBuffer::flush(int fd, bool is_all) {
  size_t at = 0;
  int error = fd < 0 ? EAGAIN : 0;
  while (error == 0 && (filled_ - at >= kChunkBytes || (is_all && filled_ > at))) {
    size_t chunk = filled_ - at < kChunkBytes ? filled_ - at : kChunkBytes;
    ssize_t put = write(fd, bytes_ + at, chunk);
    if (put >= 0) at += static_cast<size_t>(put);
    else if (errno != EINTR) error = errno;
  }
  filled_ -= at;
  memmove(bytes_, bytes_ + at, filled_);
  return error;
}

FrameBuffer frames;

// writeFrom(link, source, stream, flow, length): reads up to `length` bytes from `source` and writes them as data
// frames. Returns the bytes read: 0 at the end, -errno when nothing could be read. takeUnwritten returns the bytes
// that the link did not accept. A link of -1 accepts nothing.
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

// takeUnwritten(): a copy of the bytes that writeFrom could not write, or undefined
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
