// Replays the journal of an ext4 file system (JBD2) in memory: which of its blocks take the place of others. Its
// format is described in Linux: Documentation/filesystems/ext4/journal.rst.
#pragma once
#include <endian.h>

#include "diff-files.h"

struct BadJournal {
  std::string text;
};

class Journal {
  enum : uint32_t {
    MAGIC = 0xc03b3998,
    DESCRIPTOR = 1, COMMIT = 2, SUPERBLOCK_V1 = 3, SUPERBLOCK_V2 = 4, REVOKE = 5,
    HAS_REVOKE = 1, IS_64BIT = 2, ASYNC_COMMIT = 4, CSUM_V2 = 8, CSUM_V3 = 16,
    ESCAPED = 1, SAME_UUID = 2, LAST_TAG = 8,
    MAX_BLOCKS = 1 << 20,
  };
  enum : uint64_t { HEADER_BYTES = 12, UUID_BYTES = 16 };

 public:
  /** `extents`: of the journal's file. */
  Journal(const Disk &disk, const std::vector<Extent> &extents, uint64_t size) : disk_(disk), unit_(disk.block_bytes) {
    if (size / unit_ > MAX_BLOCKS) bad("its journal is too large");
    blocks_.assign(size / unit_, 0);
    for (const Extent &extent : extents)
      for (uint64_t i = 0; i < extent.length / unit_; i++)
        if (extent.at / unit_ + i < blocks_.size()) blocks_[extent.at / unit_ + i] = extent.from / unit_ + i;
    read(0);
    if (word(0) != MAGIC || (word(4) != SUPERBLOCK_V1 && word(4) != SUPERBLOCK_V2) || word(12) != unit_)
      bad("it has no journal that can be read");
    bool has_features = word(4) == SUPERBLOCK_V2;
    features_ = has_features ? word(40) : 0;
    if (features_ & ~(HAS_REVOKE | IS_64BIT | ASYNC_COMMIT | CSUM_V2 | CSUM_V3))
      bad("its journal has unknown features");
    end_ = word(16), first_ = word(20), sequence_ = word(24), start_ = word(28);
    if (end_ > blocks_.size() || first_ == 0 || first_ >= end_ || (start_ != 0 && (start_ < first_ || start_ >= end_)))
      bad("its journal is damaged");
  }

  std::unordered_map<uint64_t, Disk::Moved> replay() {
    if (start_ == 0) return {};
    uint32_t complete = sequence_;
    // A transaction counts once its commit is there. What a later one revokes must not be replayed.
    walk([&](uint32_t sequence, uint32_t type) {
      if (type == COMMIT) complete = sequence + 1;
    }, {});
    std::unordered_map<uint64_t, uint32_t> revoked;
    walk([&](uint32_t sequence, uint32_t type) {
      if (type != REVOKE || !is_before(sequence, complete)) return;
      uint64_t width = features_ & IS_64BIT ? 8 : 4, used = word(HEADER_BYTES);
      if (used > payload()) bad("its journal is damaged");
      for (uint64_t at = HEADER_BYTES + 4; at + width <= used; at += width) {
        uint64_t block = width == 8 ? uint64_t{word(at)} << 32 | word(at + 4) : word(at);
        auto [found, is_new] = revoked.emplace(block, sequence);
        if (!is_new && is_before(found->second, sequence)) found->second = sequence;
      }
    }, {});
    std::unordered_map<uint64_t, Disk::Moved> moved;
    walk({}, [&](uint32_t sequence, uint64_t block, Disk::Moved to) {
      auto found = revoked.find(block);
      if (!is_before(sequence, complete) || (found != revoked.end() && !is_before(found->second, sequence))) return;
      moved[block] = to;
    });
    return moved;
  }

 private:
  [[noreturn]] static void bad(const char *text) { throw BadJournal{text}; }
  static bool is_before(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

  using OnBlock = std::function<void(uint32_t sequence, uint32_t type)>;
  using OnTag = std::function<void(uint32_t sequence, uint64_t block, Disk::Moved to)>;

  /** All transactions of the log, the last of which may be incomplete. */
  void walk(const OnBlock &on_block, const OnTag &on_tag) {
    uint32_t sequence = sequence_, at = start_;
    for (uint32_t seen = 0; seen < end_ - first_; seen++) {
      read(at);
      if (word(0) != MAGIC || word(8) != sequence) return;
      uint32_t type = word(4);
      if (type != DESCRIPTOR && type != COMMIT && type != REVOKE) return;
      if (on_block) on_block(sequence, type);
      at = next(at);
      if (type == COMMIT) sequence++;
      if (type == DESCRIPTOR) read_tags([&](uint64_t block, bool is_escaped) {
        if (on_tag) on_tag(sequence, block, {blocks_[at], is_escaped});
        at = next(at);
        seen++;
      });
    }
  }

  template <typename OnEach> void read_tags(const OnEach &on_each) {
    uint64_t bytes = tag_bytes();
    for (uint64_t offset = HEADER_BYTES; offset + bytes <= payload();) {
      bool is_v3 = features_ & CSUM_V3;
      uint32_t flags = is_v3 ? word(offset + 4) : word(offset + 4) & 0xffff;
      uint64_t high = features_ & IS_64BIT ? word(offset + 8) : 0;
      on_each(high << 32 | word(offset), flags & ESCAPED);
      if (flags & LAST_TAG) return;
      offset += bytes + (flags & SAME_UUID ? 0 : +UUID_BYTES);
    }
  }

  uint64_t tag_bytes() const {
    if (features_ & CSUM_V3) return 16;
    return 8 + (features_ & CSUM_V2 ? 2 : 0) + (features_ & IS_64BIT ? 4 : 0);
  }

  /** Without the checksum at the end of a block. */
  uint64_t payload() const { return unit_ - (features_ & (CSUM_V2 | CSUM_V3) ? 4 : 0); }

  uint32_t next(uint32_t at) const { return at + 1 >= end_ ? first_ : at + 1; }

  void read(uint64_t at) {
    block_.resize(unit_);
    if (blocks_.empty() || blocks_[at] == 0 || !disk_.read(blocks_[at] * unit_, &block_[0], unit_))
      bad("its journal is damaged");
  }

  uint32_t word(uint64_t at) const {
    uint32_t value;
    memcpy(&value, &block_[at], sizeof value);
    return be32toh(value);
  }

  const Disk &disk_;
  const uint64_t unit_;
  /** Of the disk, by block of the journal; 0: none. */
  std::vector<uint64_t> blocks_;
  std::string block_;
  uint32_t features_ = 0, end_ = 0, first_ = 0, sequence_ = 0, start_ = 0;
};

inline void replay_journal(Disk &disk, const std::vector<Extent> &extents, uint64_t size) {
  disk.moved = Journal(disk, extents, size).replay();
}
