// Frames of a file that are made before there is credit for them, while the host deals with those before: an emulated
// guest has one processor, and nothing else to do with it meanwhile.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "frames.h"

class FramesAhead {
 public:
  // Of one frame, which then takes two whole writes of the virtio-serial driver.
  static constexpr size_t kPayload = kFrameBytes - 32;

  bool is_empty() const { return count_ == 0; }
  void clear() { count_ = 0; }
  // Makes frames of the source's next bytes, until there are enough, or the source gives none. `left`: it still gives at most
  // so many bytes, those of the frames that wait included.
  void make(int source, uint32_t stream, uint32_t flow, double left);
  // Payload of all frames that wait, and of the first one.
  size_t payload() const;
  size_t first_payload() const { return frames_[first_].payload; }
  // The first one's bytes, until the next call of make: it waits no more.
  Bytes take();

 private:
  static constexpr size_t kFrames = 6, kMargin = 32;
  struct Frame {
    size_t header, payload;
  };

  Frame frames_[kFrames] = {};
  size_t first_ = 0, count_ = 0;
  uint8_t bytes_[kFrames][kMargin + kPayload + sizeof kWhole];
};
