// See frames-ahead.h.
#include "frames-ahead.h"

#include <string.h>

#include "io.h"

void FramesAhead::make(int source, uint32_t stream, uint32_t flow, double left) {
  left -= static_cast<double>(payload());
  while (count_ < kFrames && left > 0) {
    size_t slot = (first_ + count_) % kFrames;
    uint8_t* payload = bytes_[slot] + kMargin;
    ssize_t got = read_again(source, payload, left < kPayload ? static_cast<size_t>(left) : kPayload);
    if (got <= 0) return;
    size_t size = static_cast<size_t>(got);
    Header header(stream, flow, static_cast<int>(size));
    memcpy(payload - header.bytes().size, header.bytes().data, header.bytes().size);
    memcpy(payload + size, kWhole, sizeof kWhole);
    frames_[slot] = {header.bytes().size, size};
    count_ += 1;
    left -= static_cast<double>(size);
  }
}

size_t FramesAhead::payload() const {
  size_t sum = 0;
  for (size_t i = 0; i < count_; i++) sum += frames_[(first_ + i) % kFrames].payload;
  return sum;
}

Bytes FramesAhead::take() {
  const Frame& frame = frames_[first_];
  Bytes taken = {bytes_[first_] + kMargin - frame.header, frame.header + frame.payload + sizeof kWhole};
  first_ = (first_ + 1) % kFrames;
  count_ -= 1;
  return taken;
}
