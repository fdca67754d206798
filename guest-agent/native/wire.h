// The wire format of data frames.
#pragma once

#include <stddef.h>
#include <stdint.h>

// As in proto/src/limits.ts and proto/src/wire/data-frame.ts.
constexpr size_t kMaxPayload = 65536;
constexpr uint8_t kTagStream = 0x08, kTagFlow = 0x10, kTagData = 0x1a;
constexpr uint8_t kWhole[] = {0x88, 0x01, 0x01};

// Writes a number of at most 32 bits.
inline size_t put_varint(uint8_t* into, uint32_t value) {
  size_t size = 0;
  for (; value > 127; value >>= 7) into[size++] = static_cast<uint8_t>(value | 0x80);
  into[size++] = static_cast<uint8_t>(value);
  return size;
}

// Returns the bytes read; 0 when the number is truncated or too long.
inline size_t get_varint(const uint8_t* data, size_t size, uint32_t* value) {
  *value = 0;
  for (size_t at = 0; at < size && at < 5; at++) {
    *value |= static_cast<uint32_t>(data[at] & 0x7f) << (7 * at);
    if (!(data[at] & 0x80)) return at + 1;
  }
  return 0;
}
