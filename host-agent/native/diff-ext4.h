// Reads an ext4 file system through libext2fs. A journal that was not replayed is read in place, see diff-journal.h, so
// the disk is never written and needs no copy.
#pragma once
#include <ext2fs/ext2fs.h>

#include "diff-files.h"
#include "diff-journal.h"

/** Lets libext2fs read a Disk. Nothing can be written. */
class DiskChannel {
 public:
  static io_manager manager() {
    static struct_io_manager manager = {};
    manager.magic = EXT2_ET_MAGIC_IO_MANAGER;
    manager.name = "disk";
    manager.open = open;
    manager.close = close;
    manager.set_blksize = [](io_channel channel, int bytes) -> errcode_t {
      channel->block_size = bytes;
      return 0;
    };
    manager.read_blk = [](io_channel channel, unsigned long block, int count, void *into) {
      return read(channel, block, count, into);
    };
    manager.read_blk64 = read;
    manager.write_blk = [](io_channel, unsigned long, int, const void *) -> errcode_t { return EXT2_ET_RO_FILSYS; };
    manager.write_blk64 = [](io_channel, unsigned long long, int, const void *) -> errcode_t {
      return EXT2_ET_RO_FILSYS;
    };
    manager.flush = [](io_channel) -> errcode_t { return 0; };
    return &manager;
  }

  /** The disk that the next channel is of. */
  static inline Disk *next = nullptr;

 private:
  static errcode_t open(const char *, int, io_channel *into) {
    auto *channel = static_cast<io_channel>(calloc(1, sizeof(struct struct_io_channel)));
    if (channel == nullptr) return EXT2_ET_NO_MEMORY;
    channel->magic = EXT2_ET_MAGIC_IO_CHANNEL;
    channel->manager = manager();
    channel->name = strdup("disk");
    channel->block_size = 1024;
    channel->refcount = 1;
    channel->private_data = next;
    *into = channel;
    return 0;
  }

  static errcode_t close(io_channel channel) {
    if (--channel->refcount > 0) return 0;
    free(channel->name);
    free(channel);
    return 0;
  }

  /** A negative count is a number of bytes. */
  static errcode_t read(io_channel channel, unsigned long long block, int count, void *into) {
    auto *disk = static_cast<Disk *>(channel->private_data);
    uint64_t unit = channel->block_size;
    uint64_t bytes = count < 0 ? -static_cast<int64_t>(count) : count * unit;
    if (unit == 0 || block > disk->size / unit) return EXT2_ET_SHORT_READ;
    return disk->read(block * unit, into, bytes) ? 0 : EXT2_ET_SHORT_READ;
  }
};

class Ext4 : public FileSystem {
 public:
  Ext4(Disk disk, std::string name) : FileSystem(std::move(disk), std::move(name)) {
    // Before the replay, blocks of the journal's own inode are right, but others may be old.
    open(EXT2_FLAG_IGNORE_CSUM_ERRORS);
    this->disk.block_bytes = fs_->blocksize;
    if (ext2fs_has_feature_journal_needs_recovery(fs_->super)) {
      uint32_t inode = fs_->super->s_journal_inum;
      if (inode == 0) damaged("it has no journal to replay");
      Attributes found = attributes(inode);
      try {
        replay_journal(this->disk, content(inode, found).extents, found.size);
      } catch (const BadJournal &bad) {
        damaged(bad.text);
      }
      open(0);
    }
    root = EXT2_ROOT_INO;
  }

  Attributes attributes(uint64_t node) override {
    ext2_inode_large inode = read_inode(node);
    Attributes found;
    found.mode = inode.i_mode;
    found.uid = inode_uid(inode), found.gid = inode_gid(inode);
    found.size = EXT2_I_SIZE(&inode);
    if (S_ISCHR(found.mode) || S_ISBLK(found.mode))
      found.device = inode.i_block[0] != 0 ? inode.i_block[0] : inode.i_block[1];
    return found;
  }

  Xattrs xattrs(uint64_t node) override {
    ext2_xattr_handle *handle;
    Xattrs all;
    check(ext2fs_xattrs_open(fs_, node, &handle));
    errcode_t error = ext2fs_xattrs_read(handle);
    if (error == 0) error = ext2fs_xattrs_iterate(handle, add_xattr, &all);
    ext2fs_xattrs_close(&handle);
    check(error);
    std::sort(all.begin(), all.end());
    return all;
  }

  Content content(uint64_t node, const Attributes &attributes) override {
    ext2_inode_large inode = read_inode(node);
    auto *plain = reinterpret_cast<ext2_inode *>(&inode);
    Content content;
    if (S_ISLNK(attributes.mode)) {
      if (attributes.size > MAX_TARGET_BYTES) damaged("a symbolic link is too long");
      if (ext2fs_is_fast_symlink(plain)) {
        if (attributes.size > sizeof inode.i_block) damaged("a symbolic link is too long");
        content.is_whole = true;
        content.bytes.assign(reinterpret_cast<char *>(inode.i_block), attributes.size);
        return content;
      }
    }
    if (inode.i_flags & EXT4_INLINE_DATA_FL) return inline_content(node, plain);
    if (inode.i_flags & EXT4_EXTENTS_FL) add_extents(node, plain, content);
    else add_blocks(node, content);
    return content;
  }

 protected:
  void read_names(uint64_t directory, Names &into) override {
    Listing listing{this, &into, {}};
    errcode_t error = ext2fs_dir_iterate2(fs_, directory, 0, nullptr, add_name, &listing);
    if (listing.failure) std::rethrow_exception(listing.failure);
    check(error);
  }

 private:
  struct Listing {
    Ext4 *of;
    Names *into;
    std::exception_ptr failure;
  };
  struct Blocks {
    Ext4 *of;
    Content *into;
    std::exception_ptr failure;
  };

  void check(errcode_t error) const {
    if (error != 0) damaged(error_message(error));
  }

  void open(int flags) {
    DiskChannel::next = &disk;
    flags |= EXT2_FLAG_64BITS | EXT2_FLAG_SKIP_MMP;
    ext2_filsys opened = nullptr;
    check(ext2fs_open2("disk", nullptr, flags, 0, 0, DiskChannel::manager(), &opened));
    owner_.reset(opened);
    fs_ = opened;
  }

  ext2_inode_large read_inode(uint64_t node) {
    ext2_inode_large inode = {};
    if (node > UINT32_MAX) damaged("a directory has an entry without a file");
    check(ext2fs_read_inode_full(fs_, node, reinterpret_cast<ext2_inode *>(&inode), sizeof inode));
    return inode;
  }

  // Exceptions must not pass through the functions of a C library.
  static int add_name(ext2_ino_t, int, ext2_dir_entry *entry, int, int, char *, void *data) {
    auto *listing = static_cast<Listing *>(data);
    try {
      listing->of->add(*listing->into, entry->name, ext2fs_dirent_name_len(entry), entry->inode);
      return 0;
    } catch (...) {
      listing->failure = std::current_exception();
      return DIRENT_ABORT;
    }
  }

  static int add_xattr(char *name, char *value, size_t length, void *data) {
    try {
      static_cast<Xattrs *>(data)->emplace_back(name, std::string(value, length));
      return 0;
    } catch (...) {
      return XATTR_ABORT;
    }
  }

  void add_extents(uint64_t node, ext2_inode *inode, Content &into) {
    ext2_extent_handle_t handle;
    check(ext2fs_extent_open2(fs_, node, inode, &handle));
    std::unique_ptr<ext2_extent_handle, decltype(&ext2fs_extent_free)> owned(handle, ext2fs_extent_free);
    ext2fs_extent extent;
    uint64_t end = 0, steps = 0;
    errcode_t error = ext2fs_extent_get(handle, EXT2_EXTENT_ROOT, &extent);
    for (; error == 0; error = ext2fs_extent_get(handle, EXT2_EXTENT_NEXT, &extent)) {
      if (++steps > 4 * MAX_EXTENTS) limit("a file has more than a million extents");
      if (!(extent.e_flags & EXT2_EXTENT_FLAGS_LEAF) || (extent.e_flags & EXT2_EXTENT_FLAGS_UNINIT)) continue;
      if (extent.e_lblk < end) damaged("a file has blocks twice");
      end = extent.e_lblk + extent.e_len;
      add_run(into, extent.e_lblk, extent.e_len, extent.e_pblk);
    }
    if (error != EXT2_ET_EXTENT_NO_NEXT) check(error);
  }

  void add_blocks(uint64_t node, Content &into) {
    Blocks blocks{this, &into, {}};
    const int flags = BLOCK_FLAG_READ_ONLY | BLOCK_FLAG_DATA_ONLY;
    errcode_t error = ext2fs_block_iterate3(fs_, node, flags, nullptr, add_block, &blocks);
    if (blocks.failure) std::rethrow_exception(blocks.failure);
    check(error);
  }

  static int add_block(ext2_filsys, blk64_t *block, e2_blkcnt_t at, blk64_t, int, void *data) {
    auto *blocks = static_cast<Blocks *>(data);
    try {
      if (at >= 0) blocks->of->add_run(*blocks->into, at, 1, *block);
      return 0;
    } catch (...) {
      blocks->failure = std::current_exception();
      return BLOCK_ABORT;
    }
  }

  void add_run(Content &into, uint64_t at, uint64_t count, uint64_t from) {
    uint64_t unit = fs_->blocksize;
    if (from > disk.size / unit || at > (uint64_t{1} << 62) / unit) damaged("a file has blocks outside of the disk");
    if (!into.extents.empty()) {
      Extent &last = into.extents.back();
      if (last.at + last.length == at * unit && last.from + last.length == from * unit) {
        last.length += count * unit;
        return;
      }
    }
    add(into, {at * unit, count * unit, from * unit});
  }

  Content inline_content(uint64_t node, ext2_inode *inode) {
    Content content;
    size_t size = 0;
    content.is_whole = true;
    check(ext2fs_inline_data_size(fs_, node, &size));
    if (size > fs_->blocksize) damaged("a file is damaged");
    content.bytes.assign(size, '\0');
    check(ext2fs_inline_data_get(fs_, node, inode, &content.bytes[0], &size));
    content.bytes.resize(EXT2_I_SIZE(inode) < size ? EXT2_I_SIZE(inode) : size);
    return content;
  }

  struct Free {
    void operator()(ext2_filsys fs) const { ext2fs_free(fs); }
  };
  std::unique_ptr<struct struct_ext2_filsys, Free> owner_;
  ext2_filsys fs_ = nullptr;
};
