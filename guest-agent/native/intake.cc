// The intake: the payload of one stream's data frames goes from the link into a file that is written past the page cache,
// without JavaScript and without a copy in between. Whatever else the link brings stops it between two frames. Credit is
// JavaScript's.
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

struct Intake {
  bool is_running, has_trailer;
  int link, target;
  // Of the file: its stream may be over before the link has given all of a frame.
  unsigned generation;
  uint32_t stream;
  // Bytes that the file still takes.
  double left;
  // Since JavaScript was told last: payload bytes, and frames that began.
  double took, frames;
  Place place;
  uint8_t head[kMaxHeader];
  size_t head_size;
  uint32_t payload_left;
  // Why the file could not be written.
  int error;

  bool is_open() const { return direct_writer.is_writing(target) && direct_writer.generation() == generation; }
  Status run(double most);
  Status take_header();
  Status take_trailer();
  Parsed parse(size_t* header_size, uint32_t* payload, uint32_t* trailer) const;
};

Intake intake;

Parsed Intake::parse(size_t* header_size, uint32_t* payload, uint32_t* trailer) const {
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
  // The frame that makes the file whole is JavaScript's: it might have been cut off and filled up, which its end shows.
  if (*payload == 0 || *payload > kMaxPayload || *payload >= left || frame < around + *payload) return Parsed::other;
  *trailer = frame - around - *payload;
  *header_size = at;
  return *trailer == 0 || *trailer == sizeof kWhole ? Parsed::data : Parsed::other;
}

Status Intake::run(double most) {
  static uint8_t waste[4096];
  while (took < most) {
    uint8_t* into;
    size_t room;
    if (place == Place::payload) {
      bool is_kept = error == 0 && is_open();
      into = is_kept ? direct_writer.next() : waste;
      room = is_kept ? direct_writer.room() : sizeof waste;
      if (room > payload_left) room = payload_left;
    } else {
      if (place == Place::header && error != 0) return kStopped;
      into = head + head_size;
      room = (place == Place::header ? kMaxHeader : sizeof kWhole) - head_size;
    }
    ssize_t got = read_again(link, into, room);
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
      took += size;
      // A frame that ends so was cut off and filled up by another host: its payload was none.
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

// kTurnOver: nothing special.
Status Intake::take_trailer() {
  if (head_size < sizeof kWhole) return kTurnOver;
  place = Place::header;
  head_size = 0;
  if (memcmp(head, kWhole, sizeof kWhole) == 0) return kTurnOver;
  // It was filled up, too.
  if (error != 0) return kStopped;
  error = EPROTO;
  return kFailed;
}

Status Intake::take_header() {
  size_t header_size;
  uint32_t payload, trailer;
  Parsed parsed = parse(&header_size, &payload, &trailer);
  if (parsed == Parsed::cut_off) return kTurnOver;
  if (parsed == Parsed::other) return kStopped;
  uint32_t early = static_cast<uint32_t>(head_size - header_size);
  // A frame so short that the next one's beginning was read with it is rare, and for JavaScript.
  if (early >= payload || !is_open()) return kStopped;
  took += early;
  frames += 1;
  left -= early;
  head_size = 0;
  payload_left = payload - early;
  has_trailer = trailer != 0;
  place = Place::payload;
  error = direct_writer.append(head + header_size, early);
  return error == 0 ? kTurnOver : kFailed;
}

// startIntake(link, stream, target, wantedBytes)
METHOD(start_intake) {
  ARGUMENTS(4);
  int32_t link, target;
  double stream, left;
  CHECK(read_int(env, arguments[0], &link));
  CHECK(read_double(env, arguments[1], &stream));
  CHECK(read_int(env, arguments[2], &target));
  CHECK(read_double(env, arguments[3], &left));
  intake = {};
  intake.is_running = true;
  intake.link = link;
  intake.stream = static_cast<uint32_t>(stream);
  intake.target = target;
  intake.generation = direct_writer.generation();
  intake.left = left;
  return undefined(env);
}

// stopIntake(): it reads no more
METHOD(stop_intake) {
  (void)info;
  intake.is_running = false;
  return undefined(env);
}

// runIntake(mostBytes, numbers: Float64Array of 4, unread: Uint8Array): reads what is there. A Status; where the file could
// not be written the frame's rest is thrown away by the next calls. Numbers: payload bytes taken, frames begun, the length of
// what was read and belongs to others, the error's number.
METHOD(run_intake) {
  ARGUMENTS(3);
  double most;
  uint8_t* unread;
  size_t unread_size, length;
  napi_typedarray_type type;
  void* data;
  CHECK(read_double(env, arguments[0], &most));
  TRY(napi_get_typedarray_info(env, arguments[1], &type, &length, &data, nullptr, nullptr));
  CHECK(read_bytes(env, arguments[2], &unread, &unread_size));
  if (type != napi_float64_array || length < 4 || unread_size < kMaxHeader || !intake.is_running)
    return throw_errno(env, "intake", EINVAL);
  double* numbers = static_cast<double*>(data);
  intake.took = intake.frames = 0;
  Status status = intake.run(most);
  if (status == kBroken) return throw_errno(env, "read", intake.error);
  numbers[0] = intake.took;
  numbers[1] = intake.frames;
  numbers[2] = status == kStopped ? static_cast<double>(intake.head_size) : 0;
  numbers[3] = intake.error;
  memcpy(unread, intake.head, intake.head_size);
  return to_number(env, status);
}

}  // namespace

bool add_intake(napi_env env, napi_value exports) {
  const Method methods[] = {{"startIntake", start_intake}, {"runIntake", run_intake}, {"stopIntake", stop_intake}};
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
