// Lists the files that differ between two roots of guests, which are given as open disks. All of them may be hostile:
// the daemon runs this program in a jail, and it limits its own memory and CPU time.
//
// usage: diffdisks LIMIT BYTES BEFORE AFTER [CURSOR]
//   LIMIT          maximum number of differences, in the order of a walk: a directory, then what is in it
//   BYTES          maximum size of the output
//   BEFORE, AFTER  descriptors of disks, separated by commas: the guest's layer, then the images below it. One that
//                  both have is not compared with itself
//   CURSOR         continue after this path, in hexadecimal
//
// Output: records. Each is the number of its other bytes (u32, little-endian), and a byte for its kind:
//   A R C   added, removed, changed: bits of what differs (u8), attributes before and after, path without the first `/`
//   E       the end
//   M       there are more
//   d l     nothing can be compared: a disk is damaged, a limit is reached; and a text
// Attributes: mode, uid, gid (u32 each), size (u64); zeros if there is no such file.
#include <sys/prctl.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "diff-erofs.h"
#include "diff-ext4.h"
#include "diff-overlay.h"

namespace {

enum : uint64_t { MEMORY_BYTES = 768 << 20, CPU_SECONDS = 120, CHUNK_BYTES = 1 << 20 };
enum : size_t { MAX_DEPTH = 1000, MAX_PATH_BYTES = 32 << 10 };
enum Difference { KIND = 1, CONTENT = 2, MODE = 4, OWNER = 8, XATTRS = 16 };

class Output {
 public:
  Output(uint64_t limit, uint64_t bytes) : limit_(limit), bytes_(bytes) {}

  /** False if there is no space. */
  bool add(char kind, uint8_t differs, const Found &before, const Found &after, const std::string &path) {
    std::string body(1, static_cast<char>(differs));
    for (const Found *found : {&before, &after}) {
      const Attributes &attributes = found->attributes;
      append(body, attributes.mode), append(body, attributes.uid), append(body, attributes.gid);
      append(body, attributes.size);
    }
    body += path;
    if (count_ == limit_ || (count_ > 0 && written_ + body.size() > bytes_)) return false;
    write(kind, body);
    count_++, written_ += body.size();
    return true;
  }

  void write(char kind, const std::string &body) {
    std::string head;
    append(head, static_cast<uint32_t>(body.size() + 1));
    head += kind;
    fwrite(head.data(), 1, head.size(), stdout);
    fwrite(body.data(), 1, body.size(), stdout);
  }

 private:
  template <typename T> static void append(std::string &to, T value) {
    for (size_t i = 0; i < sizeof value; i++) to += static_cast<char>(value >> (8 * i));
  }

  const uint64_t limit_, bytes_;
  uint64_t count_ = 0, written_ = 0;
};

class ContentReader {
 public:
  ContentReader(const Found &found, uint64_t size)
      : files_(*found.files), content_(files_.content(found.node, found.attributes)), size_(size) {}

  bool is_whole() const { return content_.is_whole; }
  std::string all() { return files_.read_all(content_, size_); }

  /** Moves on to `at`, and returns where its data or its hole ends. */
  uint64_t seek(uint64_t at) {
    const auto &extents = content_.extents;
    while (index_ < extents.size() && extents[index_].at + extents[index_].length <= at) index_++;
    if (index_ == extents.size()) return size_;
    const Extent &extent = extents[index_];
    return std::min(size_, has_data(at) ? extent.at + extent.length : extent.at);
  }

  bool has_data(uint64_t at) const { return index_ < content_.extents.size() && content_.extents[index_].at <= at; }

  /** Whether both read the same place of one disk. */
  bool is_same(const ContentReader &other, uint64_t at) const {
    return &files_ == &other.files_ && has_data(at) && other.has_data(at) && from(at) == other.from(at);
  }

  void read(uint64_t at, char *into, uint64_t length) {
    if (has_data(at)) files_.read(from(at), into, length);
    else memset(into, 0, length);
  }

 private:
  uint64_t from(uint64_t at) const { return content_.extents[index_].from + (at - content_.extents[index_].at); }

  FileSystem &files_;
  Content content_;
  const uint64_t size_;
  size_t index_ = 0;
};

bool is_same_content(const Found &a, const Found &b) {
  uint64_t size = a.attributes.size;
  if (size != b.attributes.size) return false;
  ContentReader before(a, size), after(b, size);
  if (before.is_whole() || after.is_whole()) {
    if (size > CHUNK_BYTES) limit("a file is stored in an unknown way");
    return before.all() == after.all();
  }
  static std::string left(CHUNK_BYTES, '\0'), right(CHUNK_BYTES, '\0');
  for (uint64_t at = 0; at < size;) {
    uint64_t end = std::min(before.seek(at), after.seek(at));
    if ((!before.has_data(at) && !after.has_data(at)) || before.is_same(after, at)) {
      at = end;
      continue;
    }
    uint64_t length = std::min<uint64_t>(end - at, CHUNK_BYTES);
    before.read(at, &left[0], length), after.read(at, &right[0], length);
    if (memcmp(left.data(), right.data(), length) != 0) return false;
    at += length;
  }
  return true;
}

uint8_t find_differences(const Found &before, const Found &after) {
  const Attributes &a = before.attributes, &b = after.attributes;
  uint8_t differs = 0;
  if ((a.mode & S_IFMT) != (b.mode & S_IFMT)) differs |= KIND | CONTENT;
  else if (S_ISREG(a.mode) || S_ISLNK(a.mode)) differs |= is_same_content(before, after) ? 0 : CONTENT;
  else differs |= a.device == b.device ? 0 : CONTENT;
  if ((a.mode & 07777) != (b.mode & 07777)) differs |= MODE;
  if (a.uid != b.uid || a.gid != b.gid) differs |= OWNER;
  if (before.xattrs() != after.xattrs()) differs |= XATTRS;
  return differs;
}

class Walk {
 public:
  Walk(Overlay &before, Overlay &after, Output &output) : before_(before), after_(after), output_(output) {}

  void start_after(const std::string &path) {
    has_cursor_ = true;
    for (size_t from = 0; from < path.size();) {
      size_t to = std::min(path.find('/', from), path.size());
      cursor_.push_back(path.substr(from, to - from));
      from = to + 1;
    }
  }

  /** False if there are more than the output has space for. */
  bool run() {
    Found before = before_.root(), after = after_.root();
    return entry("", before, after, 0, has_cursor_);
  }

 private:
  /** `is_passed`: it is the cursor, or a directory above it. */
  bool entry(const std::string &path, Found &before, Found &after, size_t depth, bool is_passed) {
    if (!before.exists && !after.exists) return true;
    if (path.size() > MAX_PATH_BYTES || depth > MAX_DEPTH) limit("directories are nested too deeply");
    bool is_same_place = before.exists && after.exists && before.files == after.files && before.node == after.node;
    if (!is_passed) {
      if (!before.exists || !after.exists) {
        if (!output_.add(before.exists ? 'R' : 'A', 0, before, after, path)) return false;
      } else if (!is_same_place) {
        uint8_t differs = find_differences(before, after);
        if (differs != 0 && !output_.add('C', differs, before, after, path)) return false;
      }
    }
    if (!before.is_directory() && !after.is_directory()) return true;
    return directories(path, before, after, depth, is_passed);
  }

  bool directories(const std::string &path, Found &before, Found &after, size_t depth, bool is_passed) {
    Joined none;
    Joined &a = before.is_directory() ? before.joined : none, &b = after.is_directory() ? after.joined : none;
    size_t common = 0;
    while (common < a.size() && common < b.size() && a[a.size() - 1 - common] == b[b.size() - 1 - common]) common++;
    if (common == a.size() && common == b.size()) return true;
    before_.enter(a), after_.enter(b);
    // A name that only layers below have that both share is the same file.
    std::set<std::string> names;
    for (Joined *joined : {&a, &b})
      for (size_t i = 0; i + common < joined->size(); i++)
        for (const Name &each : (*joined)[i].list()) names.insert(each.name);
    bool has_cursor = is_passed && depth < cursor_.size();
    for (auto at = has_cursor ? names.lower_bound(cursor_[depth]) : names.begin(); at != names.end(); ++at) {
      Found left = a.empty() ? Found{} : before_.find(a, *at), right = b.empty() ? Found{} : after_.find(b, *at);
      bool is_cursor = has_cursor && *at == cursor_[depth];
      if (!entry(path.empty() ? *at : path + '/' + *at, left, right, depth + 1, is_cursor)) return false;
    }
    return true;
  }

  Overlay &before_, &after_;
  Output &output_;
  bool has_cursor_ = false;
  std::vector<std::string> cursor_;
};

/** Opens each disk once, also if both roots have it. */
class Disks {
 public:
  std::vector<FileSystem *> open(const std::string &list, const char *name) {
    std::vector<FileSystem *> layers;
    for (size_t from = 0; from < list.size();) {
      size_t to = std::min(list.find(',', from), list.size());
      layers.push_back(open(atoi(list.substr(from, to - from).c_str()), from == 0 ? name : "a root image"));
      from = to + 1;
    }
    if (layers.empty()) limit("no disk is given");
    return layers;
  }

 private:
  FileSystem *open(int fd, const std::string &name) {
    std::unique_ptr<FileSystem> &known = disks_[fd];
    if (known) return known.get();
    struct stat status;
    if (fstat(fd, &status) < 0) throw Failure{'d', name + ": it is not open"};
    Disk disk{fd, static_cast<uint64_t>(status.st_size), 4096, {}};
    if (Erofs::is(disk)) known = std::make_unique<Erofs>(disk, name);
    else known = std::make_unique<Ext4>(disk, name);
    return known.get();
  }

  std::map<int, std::unique_ptr<FileSystem>> disks_;
};

std::string from_hex(const std::string &hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

void set_limit(__rlimit_resource what, rlim_t value) {
  struct rlimit limit = {value, value};
  if (setrlimit(what, &limit) < 0) {
    perror("diffdisks: cannot set a limit");
    exit(2);
  }
}

}  // namespace

int main(int count, char **arguments) {
  if (count < 5) {
    fprintf(stderr, "usage: diffdisks LIMIT BYTES BEFORE AFTER [CURSOR]\n");
    return 2;
  }
#ifndef __SANITIZE_ADDRESS__
  set_limit(RLIMIT_AS, MEMORY_BYTES);
#endif
  set_limit(RLIMIT_CPU, CPU_SECONDS);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a daemon that was killed leaves nothing that runs
  set_limit(RLIMIT_CORE, 0);
  initialize_ext2_error_table();
  Output output(strtoull(arguments[1], nullptr, 10), strtoull(arguments[2], nullptr, 10));
  try {
    Disks disks;
    Overlay before(disks.open(arguments[3], "the disk of the first snapshot"));
    Overlay after(disks.open(arguments[4], "the disk of the second snapshot"));
    Walk walk(before, after, output);
    if (count > 5) walk.start_after(from_hex(arguments[5]));
    output.write(walk.run() ? 'E' : 'M', "");
  } catch (const Failure &failure) {
    output.write(failure.code, failure.text);
  } catch (const std::bad_alloc &) {
    output.write('l', "a comparison needs more than 768 MiB of memory");
  }
  return fflush(stdout) == 0 ? 0 : 1;
}
