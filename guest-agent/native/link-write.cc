// Direct write: the payload of one stream's data frames goes from the link into a file with O_DIRECT, without
// JavaScript and without an intermediate copy. Any other frame stops it at a frame boundary. JavaScript returns the
// credit.
#include <string.h>
#include <unistd.h>

#include "direct-file.h"
#include "io.h"
#include "napi.h"
#include "wire.h"

namespace {

// The longest header: a length of three bytes, and two tags with the longest numbers.
constexpr size_t kMaxHeader = 3 + 2 + 5 + 5;

enum Status { kNothingNow = 0, kTurnOver = 1, kStopped = 2, kHostLeft = 3, kFailed = 4, kBroken = 5 };
enum class Place { header, payload, trailer };
enum class Parsed { cut_off, other, data };

struct LinkWrite {
  bool is_running, has_trailer;
  int link, target;
  // Generation of the file: its stream may end before the link has delivered a whole frame.
  unsigned generation;
  uint32_t stream;
  // Bytes that the file still accepts.
  double left;
  // Since the last report to JavaScript: payload bytes, and frames that began.
  double taken, frames;
  Place place;
  uint8_t head[kMaxHeader];
  size_t head_size;
  uint32_t payload_left;
  // Error number of the failed write.
  int error;

  bool is_open() const { return direct_writer.is_writing(target) && direct_writer.generation() == generation; }
  Status run(double max_bytes);
  Status take_header();
  Status take_trailer();
  Parsed parse(size_t* header_size, uint32_t* payload, uint32_t* trailer) const;
};

LinkWrite link_write;

Parsed LinkWrite::parse(size_t* header_size, uint32_t* payload, uint32_t* trailer) const {
  uint32_t frame, number;
  size_t at = 0, length = get_varint(head, head_size, &frame);
  if (length == 0) return head_size < 3 ? Parsed::cut_off : Parsed::other;
  size_t start = at = length;
  if (at >= head_size) return Parsed::cut_off;
  if (head[at++] != kTagStream) return Parsed::other;
  length = get_varint(head + at, head_size - at, &number);
  if (length == 0) return head_size < kMaxHeader ? Parsed::cut_off : Parsed::other;
  if (number != stream) return Parsed::other;
  at += length;
  if (at >= head_size) return Parsed::cut_off;
  if (head[at++] != kTagData) return Parsed::other;
  length = get_varint(head + at, head_size - at, payload);
  if (length == 0) return head_size < kMaxHeader ? Parsed::cut_off : Parsed::other;
  at += length;
  uint32_t around = static_cast<uint32_t>(at - start);
  // JavaScript handles the file's last frame: that frame may be truncated and padded, which only its end shows.
  if (*payload == 0 || *payload > kMaxPayload || *payload >= left || frame < around + *payload) return Parsed::other;
  *trailer = frame - around - *payload;
  *header_size = at;
  return *trailer == 0 || *trailer == sizeof kWhole ? Parsed::data : Parsed::other;
}

Status LinkWrite::run(double max_bytes) {
  static uint8_t waste[4096];
  while (taken < max_bytes) {
    uint8_t* into;
    size_t capacity;
    if (place == Place::payload) {
      bool is_kept = error == 0 && is_open();
      into = is_kept ? direct_writer.next() : waste;
      capacity = is_kept ? direct_writer.space() : sizeof waste;
      if (capacity > payload_left) capacity = payload_left;
    } else {
      if (place == Place::header && error != 0) return kStopped;
      into = head + head_size;
      capacity = (place == Place::header ? kMaxHeader : sizeof kWhole) - head_size;
    }
    ssize_t got = read_again(link, into, capacity);
    if (got < 0 && errno == EAGAIN) return kNothingNow;
    if (got < 0) {
      error = errno;
      return kBroken;
    }
    if (got == 0) return kHostLeft;
    uint32_t size = static_cast<uint32_t>(got);
    if (place == Place::payload) {
      payload_left -= size;
      left -= size;
      if (payload_left == 0) place = has_trailer ? Place::trailer : Place::header;
      if (into == waste) continue;
      taken += size;
      // A frame with this end was truncated and padded by another host: its payload is invalid.
      bool is_filled_up = payload_left == 0 && !has_trailer && into[size - 1] == 0;
      error = is_filled_up ? EPROTO : direct_writer.advance(size);
      if (error != 0) return kFailed;
    } else {
      head_size += size;
      Status status = place == Place::trailer ? take_trailer() : take_header();
      if (status != kTurnOver) return status;
    }
  }
  return kTurnOver;
}

// Returns kTurnOver unless something special happened.
Status LinkWrite::take_trailer() {
  if (head_size < sizeof kWhole) return kTurnOver;
  place = Place::header;
  head_size = 0;
  if (memcmp(head, kWhole, sizeof kWhole) == 0) return kTurnOver;
  // This frame was padded as well.
  if (error != 0) return kStopped;
  error = EPROTO;
  return kFailed;
}

Status LinkWrite::take_header() {
  size_t header_size;
  uint32_t payload, trailer;
  Parsed parsed = parse(&header_size, &payload, &trailer);
  if (parsed == Parsed::cut_off) return kTurnOver;
  if (parsed == Parsed::other) return kStopped;
  uint32_t early = static_cast<uint32_t>(head_size - header_size);
  // A frame this short, read together with the next frame's start, is rare; JavaScript handles it.
  if (early >= payload || !is_open()) return kStopped;
  taken += early;
  frames += 1;
  left -= early;
  head_size = 0;
  payload_left = payload - early;
  has_trailer = trailer != 0;
  place = Place::payload;
  error = direct_writer.append(head + header_size, early);
  return error == 0 ? kTurnOver : kFailed;
}

// startLinkWrite(link, stream, target, targetBytes)
METHOD(start_link_write) {
  ARGUMENTS(4);
  int32_t link, target;
  double stream, left;
  CHECK(read_int(env, arguments[0], &link));
  CHECK(read_double(env, arguments[1], &stream));
  CHECK(read_int(env, arguments[2], &target));
  CHECK(read_double(env, arguments[3], &left));
  link_write = {};
  link_write.is_running = true;
  link_write.link = link;
  link_write.stream = static_cast<uint32_t>(stream);
  link_write.target = target;
  link_write.generation = direct_writer.generation();
  link_write.left = left;
  return undefined(env);
}

// stopLinkWrite(): stops reading
METHOD(stop_link_write) {
  (void)info;
  link_write.is_running = false;
  return undefined(env);
}

// runLinkWrite(maxBytes, numbers: Float64Array of 4, unread: Uint8Array): reads the available bytes and returns a
// Status. If a write to the file fails, the next calls discard the frame's rest. Numbers: payload bytes taken, frames
// begun, length of the bytes read for other streams, error number.
METHOD(run_link_write) {
  ARGUMENTS(3);
  double max_bytes;
  uint8_t* unread;
  size_t unread_size, length;
  napi_typedarray_type type;
  void* data;
  CHECK(read_double(env, arguments[0], &max_bytes));
  TRY(napi_get_typedarray_info(env, arguments[1], &type, &length, &data, nullptr, nullptr));
  CHECK(read_bytes(env, arguments[2], &unread, &unread_size));
  if (type != napi_float64_array || length < 4 || unread_size < kMaxHeader || !link_write.is_running)
    return throw_errno(env, "link write", EINVAL);
  double* numbers = static_cast<double*>(data);
  link_write.taken = link_write.frames = 0;
  Status status = link_write.run(max_bytes);
  if (status == kBroken) return throw_errno(env, "read", link_write.error);
  numbers[0] = link_write.taken;
  numbers[1] = link_write.frames;
  numbers[2] = status == kStopped ? static_cast<double>(link_write.head_size) : 0;
  numbers[3] = link_write.error;
  memcpy(unread, link_write.head, link_write.head_size);
  return to_number(env, status);
}

}  // namespace

bool add_link_write(napi_env env, napi_value exports) {
  const Method methods[] = {{"startLinkWrite", start_link_write}, {"runLinkWrite", run_link_write}, {"stopLinkWrite", stop_link_write}};
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
