// Reads an EROFS image without compression, as host-agent/src/images/erofs writes it.
#pragma once
#include "diff-files.h"

class Erofs : public FileSystem {
  enum : uint32_t { MAGIC = 0xe0f5e1e2, CHUNKED = 4, BLOCK = 4096, SLOT = 32, HOLE = 0xffffffff };
  enum Layout { PLAIN = 0, INLINE = 2, CHUNKS = 4 };
  struct Inode {
    Attributes attributes;
    uint32_t layout, pointer;
    uint64_t xattrs, xattr_bytes, tail;
  };

 public:
  static bool is(const Disk &disk) {
    uint32_t magic = 0;
    return disk.read(1024, &magic, sizeof magic) && magic == MAGIC;
  }

  Erofs(Disk disk, std::string name) : FileSystem(std::move(disk), std::move(name)) {
    if (at<uint8_t>(1024 + 12) != 12) damaged("its blocks do not have 4096 bytes");
    if ((at<uint32_t>(1024 + 80) & ~CHUNKED) != 0) damaged("it has unknown features");
    root = at<uint16_t>(1024 + 14);
    area_ = uint64_t{at<uint32_t>(1024 + 40)} * BLOCK;
  }

  Attributes attributes(uint64_t node) override { return inode(node).attributes; }

  Xattrs xattrs(uint64_t node) override {
    static const char *prefixes[] = {nullptr, "user.", "system.posix_acl_access", "system.posix_acl_default",
                                     "trusted.", nullptr, "security."};
    Inode found = inode(node);
    Xattrs all;
    std::string bytes(found.xattr_bytes, '\0');
    read(found.xattrs, &bytes[0], bytes.size());
    for (size_t i = 12; i + 4 <= bytes.size();) {
      auto name_bytes = static_cast<uint8_t>(bytes[i]), index = static_cast<uint8_t>(bytes[i + 1]);
      uint16_t value_bytes;
      memcpy(&value_bytes, &bytes[i + 2], sizeof value_bytes);
      size_t end = i + 4 + name_bytes + value_bytes;
      if (end > bytes.size() || index >= 7 || prefixes[index] == nullptr) damaged("it has invalid attributes");
      std::string name = prefixes[index] + bytes.substr(i + 4, name_bytes);
      all.emplace_back(name, bytes.substr(i + 4 + name_bytes, value_bytes));
      i = (end + 3) / 4 * 4;
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  Content content(uint64_t node, const Attributes &) override {
    Inode found = inode(node);
    Content content;
    uint64_t size = found.attributes.size;
    if (found.layout == CHUNKS) {
      if (found.pointer != 0) damaged("it has chunks of an unknown form");
      for (uint64_t i = 0; i < (size + BLOCK - 1) / BLOCK; i++) {
        auto block = at<uint32_t>(found.tail + 4 * i);
        if (block == HOLE) continue;
        uint64_t from = uint64_t{block} * BLOCK;
        if (!content.extents.empty()) {
          Extent &last = content.extents.back();
          if (last.at + last.length == i * BLOCK && last.from + last.length == from) {
            last.length += BLOCK;
            continue;
          }
        }
        add(content, {i * BLOCK, BLOCK, from});
      }
      return content;
    }
    uint64_t whole = found.layout == INLINE ? size / BLOCK * BLOCK : size;
    if (whole > 0) add(content, {0, whole, uint64_t{found.pointer} * BLOCK});
    if (whole < size) add(content, {whole, size - whole, found.tail});
    return content;
  }

 protected:
  void read_names(uint64_t directory, Names &into) override {
    Attributes found = attributes(directory);
    if (found.size > uint64_t{1} << 30) limit("a directory has more than 1 GiB of names");
    std::string bytes = read_all(content(directory, found), found.size);
    for (size_t start = 0; start < bytes.size(); start += BLOCK) {
      size_t length = std::min<size_t>(BLOCK, bytes.size() - start);
      const char *block = &bytes[start];
      auto name_of = [&](size_t entry) {
        uint16_t offset = 0;
        if (entry * 12 + 10 > length) damaged("a directory is damaged");
        memcpy(&offset, block + entry * 12 + 8, sizeof offset);
        return offset;
      };
      size_t count = name_of(0) / 12;
      if (count == 0 || count * 12 > length) damaged("a directory is damaged");
      for (size_t i = 0; i < count; i++) {
        uint64_t node;
        memcpy(&node, block + i * 12, sizeof node);
        size_t from = name_of(i), to = i + 1 < count ? name_of(i + 1) : length;
        if (from > to || to > length) damaged("a directory is damaged");
        add(into, block + from, strnlen(block + from, to - from), node);
      }
    }
  }

 private:
  template <typename T> T at(uint64_t offset) {
    T value;
    read(offset, &value, sizeof value);
    return value;
  }

  Inode inode(uint64_t node) {
    if (node > disk.size / SLOT) damaged("a directory has an entry without a file");
    uint64_t offset = area_ + node * SLOT;
    unsigned char bytes[64];
    read(offset, bytes, sizeof bytes);
    auto number = [&](size_t from, size_t length) {
      uint64_t value = 0;
      for (size_t i = length; i-- > 0;) value = value << 8 | bytes[from + i];
      return value;
    };
    Inode found;
    if ((number(0, 2) & 1) == 0) damaged("it has inodes of an unknown form");
    found.layout = number(0, 2) >> 1 & 7;
    if (found.layout != PLAIN && found.layout != INLINE && found.layout != CHUNKS)
      damaged("it has files of an unknown form");
    uint64_t units = number(2, 2);
    found.xattrs = offset + sizeof bytes;
    found.xattr_bytes = units == 0 ? 0 : 12 + (units - 1) * 4;
    found.tail = found.xattrs + found.xattr_bytes;
    found.pointer = number(16, 4);
    Attributes &attributes = found.attributes;
    attributes.mode = number(4, 2), attributes.size = number(8, 8);
    attributes.uid = number(24, 4), attributes.gid = number(28, 4);
    if (S_ISCHR(attributes.mode) || S_ISBLK(attributes.mode)) attributes.device = found.pointer;
    return found;
  }

  uint64_t area_ = 0;
};
