// What diffdisks knows of a file system: names, attributes, extended attributes and contents of files.
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

/** Why nothing can be compared. `code`: 'd' a file system is damaged, 'l' a limit is reached. */
struct Failure {
  char code;
  std::string text;
};

[[noreturn]] inline void limit(const std::string &text) { throw Failure{'l', text}; }

enum : uint64_t {
  /** Of directories, also those that are read again. */
  MAX_ENTRIES = 10'000'000,
  MAX_EXTENTS = 1'000'000,
  MAX_NAME_BYTES = 255,
  MAX_TARGET_BYTES = 4096,
};

struct Attributes {
  uint32_t mode = 0, uid = 0, gid = 0, device = 0;
  uint64_t size = 0;
};

struct Name {
  std::string name;
  uint64_t node;
};
/** Sorted by bytes. */
using Names = std::vector<Name>;
using Xattrs = std::vector<std::pair<std::string, std::string>>;

/** Bytes `at` to `at + length` of a file are on the disk from `from` on. */
struct Extent {
  uint64_t at, length, from;
};

/** Sorted, without overlaps; what is between them is zero. `bytes`, if `is_whole`, are all of it. */
struct Content {
  std::vector<Extent> extents;
  bool is_whole = false;
  std::string bytes;
};

/** The bytes of a disk, with blocks of a journal in place of older ones. */
struct Disk {
  int fd;
  uint64_t size;
  uint32_t block_bytes = 4096;
  struct Moved {
    uint64_t block;
    /** Its first four bytes are those that mark a block of the journal itself. */
    bool is_escaped;
  };
  std::unordered_map<uint64_t, Moved> moved;

  /** False if the disk has no such bytes. */
  bool read(uint64_t offset, void *into, uint64_t length) const {
    auto *to = static_cast<char *>(into);
    if (moved.empty()) return read_raw(offset, to, length);
    while (length > 0) {
      uint64_t block = offset / block_bytes, skipped = offset % block_bytes;
      uint64_t part = std::min(length, block_bytes - skipped);
      auto found = moved.find(block);
      if (found == moved.end()) {
        // As far as the journal has none of them.
        while (part < length && moved.find((offset + part) / block_bytes) == moved.end())
          part += std::min<uint64_t>(length - part, block_bytes);
        if (!read_raw(offset, to, part)) return false;
      } else {
        if (!read_raw(found->second.block * block_bytes + skipped, to, part)) return false;
        static const unsigned char magic[4] = {0xc0, 0x3b, 0x39, 0x98};
        for (uint64_t i = skipped; found->second.is_escaped && i < sizeof magic && i < skipped + part; i++)
          to[i - skipped] = static_cast<char>(magic[i]);
      }
      offset += part, to += part, length -= part;
    }
    return true;
  }

 private:
  bool read_raw(uint64_t offset, char *to, uint64_t length) const {
    if (offset > size || length > size - offset) return false;
    while (length > 0) {
      ssize_t count = pread(fd, to, length, static_cast<off_t>(offset));
      if (count <= 0) return false;
      offset += count, to += count, length -= count;
    }
    return true;
  }
};

class FileSystem {
 public:
  Disk disk;
  uint64_t root = 0;

  /** `name`: what errors call it. */
  FileSystem(Disk disk, std::string name) : disk(std::move(disk)), name_(std::move(name)) {}
  FileSystem(const FileSystem &) = delete;
  virtual ~FileSystem() = default;

  virtual Attributes attributes(uint64_t node) = 0;
  virtual Xattrs xattrs(uint64_t node) = 0;
  virtual Content content(uint64_t node, const Attributes &attributes) = 0;

  std::shared_ptr<const Names> list(uint64_t directory) {
    auto names = std::make_shared<Names>();
    read_names(directory, *names);
    std::sort(names->begin(), names->end(), [](const Name &a, const Name &b) { return a.name < b.name; });
    for (size_t i = 1; i < names->size(); i++)
      if ((*names)[i - 1].name == (*names)[i].name) damaged("a directory has a name twice");
    return names;
  }

  void read(uint64_t offset, void *into, uint64_t length) {
    if (!disk.read(offset, into, length)) damaged("a file has blocks outside of the disk");
  }

  /** Of a regular file or a link. */
  std::string read_all(const Content &content, uint64_t size) {
    if (content.is_whole) return content.bytes;
    std::string bytes(size, '\0');
    for (const Extent &extent : content.extents)
      if (extent.at < size) read(extent.from, &bytes[extent.at], std::min(extent.length, size - extent.at));
    return bytes;
  }

  [[noreturn]] void damaged(const std::string &text) const { throw Failure{'d', name_ + ": " + text}; }

 protected:
  virtual void read_names(uint64_t directory, Names &into) = 0;

  /** False for `.` and `..`. */
  bool add(Names &into, const char *name, size_t length, uint64_t node) {
    if (++entries_ > MAX_ENTRIES) limit("there are more than 10 million directory entries");
    std::string text(name, length);
    if (text == "." || text == "..") return false;
    if (length == 0 || length > MAX_NAME_BYTES || text.find('/') != std::string::npos ||
        text.find('\0') != std::string::npos)
      damaged("a directory has an invalid name");
    into.push_back({std::move(text), node});
    return true;
  }

  static void add(Content &into, Extent extent) {
    if (into.extents.size() >= MAX_EXTENTS) limit("a file has more than a million extents");
    into.extents.push_back(extent);
  }

 private:
  static inline uint64_t entries_ = 0;
  const std::string name_;
};

/** Attributes that are the overlay's own are not visible in the guest. */
inline bool is_own_xattr(const std::string &name) { return name.rfind("trusted.overlay.", 0) == 0; }
