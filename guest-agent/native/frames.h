// Data frames of bytes that JavaScript never sees: from a pipe by moving its pages, from a file by reading it.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <vector>

struct Bytes {
  const uint8_t* data;
  size_t size;
};

// `length` bytes of `source` as frames: a header before each `frame_size`, another before the last, the trailer behind.
struct Framing {
  int target, source, length, frame_size;
  Bytes header, last_header, trailer;

  size_t encoded_size() const {
    size_t count = static_cast<size_t>((length + frame_size - 1) / frame_size);
    return static_cast<size_t>(length) + (count - 1) * header.size + last_header.size + count * trailer.size;
  }
};

// Moves the bytes as frames into the empty pipe `target`, pages and not copies of them. Returns how many bytes of the
// encoded frames it took: not all when the pipe is full (a command may fill its own with tiny pieces of pages) or the
// bytes are not there; 0 with errno EINVAL for a framing that cannot be.
size_t stage_frames(const Framing& framing);

// Moves everything that is staged to fd: 0, or EAGAIN when no more can be written now, or what splice said.
int flush_staged(int staging, int fd);

// Reads the bytes and writes them as frames to `target`. `read` is how many were read; `error` 0, EAGAIN when the target
// takes no more (unwritten_frames() is what was made and not written), or what write said.
struct Written {
  int read, error;
};
Written write_frames(const Framing& framing);
Bytes unwritten_frames();

// Appends the encoded frames but for their first `skip` bytes. Zeros stand for bytes that are gone: a command may read its
// own output, a file become shorter.
void append_rest(const Framing& framing, size_t skip, std::vector<uint8_t>* rest);
