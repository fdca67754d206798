// The relay: one flow that is alone on its link goes from a pipe or a file to the host without JavaScript, which would
// take longer for each window than the bytes do. It reads the link meanwhile, where nothing but credit for the flow is
// expected; whatever else comes, or goes wrong, stops it, and JavaScript goes on with exactly the state that there is.
#include "relay.h"

#include <string.h>
#include <sys/epoll.h>

#include <vector>

#include "direct-file.h"
#include "frames.h"
#include "io.h"
#include "napi.h"
#include "poll.h"
#include "wire.h"

namespace {

constexpr size_t kMaxCreditFrame = 12;
// From so many waiting bytes on a pipe's pages are moved instead of copied.
constexpr int kBulkBytes = 32768;
// Frames of a file that are sent before the link is looked at again, and their payload: in whole writes of the
// virtio-serial driver, which takes 32 KiB at a time.
constexpr int kFileFrames = 4, kFileFrameBytes = kFrameBytes - 32;
constexpr int kLooks = 4;

// What stands before `payload` bytes of a frame.
class Header {
 public:
  Header(uint32_t stream, uint32_t flow, int payload) {
    uint8_t head[24];
    size_t size = 0;
    head[size++] = kTagStream;
    size += put_varint(head + size, stream);
    if (flow != 0) {
      head[size++] = kTagFlow;
      head[size++] = static_cast<uint8_t>(flow);
    }
    head[size++] = kTagData;
    size += put_varint(head + size, static_cast<uint32_t>(payload));
    size_t frame_size = size + static_cast<size_t>(payload) + sizeof kWhole;
    size_ = put_varint(bytes_, static_cast<uint32_t>(frame_size));
    memcpy(bytes_ + size_, head, size);
    size_ += size;
  }
  Bytes bytes() const { return {bytes_, size_}; }

 private:
  uint8_t bytes_[32];
  size_t size_;
};

struct Relay {
  bool is_running, is_pipe, has_hung_up, has_host_left;
  int link, source, staging_out, staging_in;
  uint32_t link_id, stream, flow;
  // Bytes that the host takes, at most as many as `window`; bytes that the source may still give, and has given.
  int credit, window;
  double left, moved;
  uint8_t inbox[4096];
  size_t inbox_size;
  bool is_staged;
  std::vector<uint8_t>* unwritten;

  void stop() { is_running = false; }

  int frame_bytes() const { return is_pipe ? kFrameBytes : kFileFrameBytes; }

  int payload_for_credit() const {
    int full = credit / (frame_bytes() + kFrameCredit);
    int rest = credit - full * (frame_bytes() + kFrameCredit) - kFrameCredit;
    return full * frame_bytes() + (rest > 0 ? rest : 0);
  }

  void pump();
  void send(int length);
  int send_direct(int length);
  void receive();
  bool take_credit(const uint8_t* frame, size_t size);
};

Relay relay;

void Relay::pump() {
  for (int unheard = 0, looks = 0; is_running && left > 0;) {
    // Whoever has something to say to the guest does not wait for a whole window of a file. Only some times, as credit that
    // always comes would keep the commands' own events waiting for ever.
    if (unheard >= kFileFrames * kFileFrameBytes && looks < kLooks) {
      unheard = 0;
      looks += 1;
      receive();
      if (!is_running) break;
    }
    int payload = payload_for_credit();
    if (payload <= 0) return;
    int length = left < payload ? static_cast<int>(left) : payload;
    if (direct_reader.is_reading(source)) {
      int sent = send_direct(length);
      if (sent == 0) return stop();
      unheard += sent;
      continue;
    }
    int64_t waiting = readable_bytes(source);
    if (waiting <= 0) {
      // The source says by itself why: with an event, or as the end that JavaScript reads.
      if (has_hung_up || !is_pipe || waiting < 0) stop();
      return;
    }
    if (length > waiting) length = static_cast<int>(waiting);
    if (!is_pipe && length > kFileFrames * kFileFrameBytes) length = kFileFrames * kFileFrameBytes;
    unheard += length;
    send(length);
  }
  stop();
}

void Relay::send(int length) {
  int size = frame_bytes(), last = (length - 1) % size + 1;
  Header header(stream, flow, size), last_header(stream, flow, last);
  Framing framing = {link, source, length, size, header.bytes(), last_header.bytes(), {kWhole, sizeof kWhole}};
  credit -= length + (length + size - 1) / size * kFrameCredit;
  left -= length;
  moved += length;
  if (!is_pipe || length < kBulkBytes) {
    Written written = write_frames(framing);
    if (written.error == 0) return;
    Bytes made = unwritten_frames();
    unwritten->assign(made.data, made.data + made.size);
    if (written.read < length) {
      framing.length = length - written.read;
      append_rest(framing, 0, unwritten);
    }
    return stop();
  }
  framing.target = staging_in;
  size_t staged = stage_frames(framing);
  if (staged < framing.encoded_size()) {
    append_rest(framing, staged, unwritten);
    stop();
  }
  if (flush_staged(staging_out, link) != 0) {
    is_staged = true;
    stop();
  }
}

// One frame of at most `length` bytes, made where the disk put its payload. Returns how many it has: 0, with nothing moved,
// when they could not be read.
int Relay::send_direct(int length) {
  uint8_t* payload;
  ssize_t got = direct_reader.take(static_cast<size_t>(length), &payload);
  if (got <= 0) return 0;
  Header header(stream, flow, static_cast<int>(got));
  uint8_t* frame = payload - header.bytes().size;
  size_t size = header.bytes().size + static_cast<size_t>(got) + sizeof kWhole;
  memcpy(frame, header.bytes().data, header.bytes().size);
  // What follows in the file may be there already.
  uint8_t next[sizeof kWhole];
  memcpy(next, payload + got, sizeof next);
  memcpy(payload + got, kWhole, sizeof kWhole);
  credit -= static_cast<int>(got) + kFrameCredit;
  left -= static_cast<double>(got);
  moved += static_cast<double>(got);
  while (size > 0) {
    ssize_t put = write(link, frame, size);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      unwritten->assign(frame, frame + size);
      stop();
      break;
    }
    frame += put;
    size -= static_cast<size_t>(put);
  }
  memcpy(payload + got, next, sizeof next);
  return static_cast<int>(got);
}

// True when the frame was credit for the flow, and no more than it had used.
bool Relay::take_credit(const uint8_t* frame, size_t size) {
  uint32_t number, amount;
  if (size < 2 || frame[0] != kTagStream) return false;
  size_t at = 1, length = get_varint(frame + at, size - at, &number);
  at += length;
  if (length == 0 || number != stream || at >= size || frame[at] != kTagCredit) return false;
  at += 1;
  length = get_varint(frame + at, size - at, &amount);
  if (length == 0 || at + length != size) return false;
  if (amount == 0 || amount > static_cast<uint32_t>(window - credit)) return false;
  credit += static_cast<int>(amount);
  return true;
}

void Relay::receive() {
  for (;;) {
    ssize_t got = read_again(link, inbox + inbox_size, sizeof inbox - inbox_size);
    if (got < 0) {
      // The beginning of a frame is JavaScript's, too.
      if (errno != EAGAIN || inbox_size > 0) stop();
      return;
    }
    if (got == 0) {
      has_host_left = true;
      return stop();
    }
    inbox_size += static_cast<size_t>(got);
    size_t at = 0;
    while (at < inbox_size) {
      size_t size = inbox[at];
      if (size > kMaxCreditFrame || at + 1 + size > inbox_size || !take_credit(inbox + at + 1, size)) break;
      at += 1 + size;
    }
    inbox_size -= at;
    memmove(inbox, inbox + at, inbox_size);
    if (inbox_size > 0 && (inbox[0] > kMaxCreditFrame || inbox_size > inbox[0])) return stop();
  }
}

// startRelay({link, linkId, source, isPipe, stagingOut, stagingIn, stream, flow, credit, window}, length)
METHOD(start_relay) {
  ARGUMENTS(2);
  int32_t link_id, is_pipe, stream, flow;
  Relay next = {};
  CHECK(property_int(env, arguments[0], "link", &next.link));
  CHECK(property_int(env, arguments[0], "linkId", &link_id));
  CHECK(property_int(env, arguments[0], "source", &next.source));
  CHECK(property_int(env, arguments[0], "isPipe", &is_pipe));
  CHECK(property_int(env, arguments[0], "stagingOut", &next.staging_out));
  CHECK(property_int(env, arguments[0], "stagingIn", &next.staging_in));
  CHECK(property_int(env, arguments[0], "stream", &stream));
  CHECK(property_int(env, arguments[0], "flow", &flow));
  CHECK(property_int(env, arguments[0], "credit", &next.credit));
  CHECK(property_int(env, arguments[0], "window", &next.window));
  CHECK(read_double(env, arguments[1], &next.left));
  if (relay.link_id != 0) return throw_errno(env, "relay", EBUSY);
  next.link_id = static_cast<uint32_t>(link_id);
  next.is_pipe = is_pipe != 0;
  next.stream = static_cast<uint32_t>(stream);
  next.flow = static_cast<uint32_t>(flow);
  next.is_running = true;
  next.unwritten = new std::vector<uint8_t>;
  relay = next;
  // The event that there is room comes at once, and starts it.
  int error = poll_again(relay.link, relay.link_id, EPOLLIN | EPOLLOUT | EPOLLET);
  if (error != 0) relay.stop();
  return undefined(env);
}

bool put_buffer(napi_env env, napi_value object, const char* name, Bytes bytes) {
  napi_value buffer;
  if (bytes.size == 0) return true;
  return napi_create_buffer_copy(env, bytes.size, bytes.data, nullptr, &buffer) == napi_ok &&
         napi_set_named_property(env, object, name, buffer) == napi_ok;
}

// stopRelay(numbers: Float64Array of 5): credit, bytes moved, whether frames are left in the staging pipe, whether the
// host left, whether the source's last writer did. Returns {unwritten?, unread?}: frames that the link did not take, to go behind what is staged, and bytes
// that came over it.
METHOD(stop_relay) {
  ARGUMENTS(1);
  napi_typedarray_type type;
  size_t length;
  void* data;
  TRY(napi_get_typedarray_info(env, arguments[0], &type, &length, &data, nullptr, nullptr));
  if (type != napi_float64_array || length < 5 || relay.link_id == 0) return throw_errno(env, "relay", EINVAL);
  double* numbers = static_cast<double*>(data);
  numbers[0] = relay.credit;
  numbers[1] = relay.moved;
  numbers[2] = relay.is_staged;
  numbers[3] = relay.has_host_left;
  numbers[4] = relay.has_hung_up;
  std::vector<uint8_t>* unwritten = relay.unwritten;
  relay.link_id = 0;
  relay.unwritten = nullptr;
  relay.stop();
  napi_value rest;
  bool is_made = napi_create_object(env, &rest) == napi_ok &&
                 put_buffer(env, rest, "unwritten", {unwritten->data(), unwritten->size()}) &&
                 put_buffer(env, rest, "unread", {relay.inbox, relay.inbox_size});
  delete unwritten;
  return is_made ? rest : rejected(env);
}

}  // namespace

bool relay_owns(int fd) { return relay.is_running && (fd == relay.link || fd == relay.source); }

bool relay_event(int fd, uint32_t mask) {
  if (fd == relay.link) {
    if (mask & EPOLLOUT && poll_again(relay.link, relay.link_id, EPOLLIN | EPOLLET) != 0) relay.stop();
    if (relay.is_running) relay.receive();
  } else if (mask & (EPOLLHUP | EPOLLERR)) {
    relay.has_hung_up = true;
  }
  if (relay.is_running) relay.pump();
  return relay.is_running;
}

uint32_t relay_link_id() { return relay.link_id; }

void relay_forget(int fd) {
  if (relay_owns(fd)) relay.stop();
}

bool add_relay(napi_env env, napi_value exports) {
  const Method methods[] = {{"startRelay", start_relay}, {"stopRelay", stop_relay}};
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
