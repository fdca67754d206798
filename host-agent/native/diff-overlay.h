// A guest's root as overlayfs shows it: a writable layer above read-only images. See Documentation/filesystems/
// overlayfs.rst of Linux for whiteouts, opaque directories and redirects.
#pragma once
#include <set>

#include "diff-files.h"

/** A directory of one layer. */
struct Place {
  size_t layer;
  FileSystem *files;
  uint64_t node;
  std::shared_ptr<const Names> names;

  bool operator==(const Place &other) const { return files == other.files && node == other.node; }

  const Names &list() {
    if (!names) names = files->list(node);
    return *names;
  }

  const Name *find(const std::string &name) {
    const Names &all = list();
    auto found = std::lower_bound(all.begin(), all.end(), name,
                                  [](const Name &each, const std::string &wanted) { return each.name < wanted; });
    return found == all.end() || found->name != name ? nullptr : &*found;
  }
};

/** The directories that are joined to one, the topmost first. */
using Joined = std::vector<Place>;

/** What the guest sees under a name. */
struct Found {
  bool exists = false;
  FileSystem *files = nullptr;
  uint64_t node = 0;
  Attributes attributes;
  Joined joined;

  bool is_directory() const { return exists && S_ISDIR(attributes.mode); }
  Xattrs xattrs() const {
    Xattrs all = files->xattrs(node);
    all.erase(std::remove_if(all.begin(), all.end(), [](const auto &each) { return is_own_xattr(each.first); }),
              all.end());
    return all;
  }
};

class Overlay {
 public:
  /** The topmost first. The first one is what the guest wrote, in the directory `upper` of its file system. */
  explicit Overlay(std::vector<FileSystem *> layers) : layers_(std::move(layers)) {}

  Found root() {
    Found found;
    for (size_t i = 0; i < layers_.size(); i++) {
      uint64_t node = layers_[i]->root;
      if (i == 0) {
        Place top{0, layers_[0], node, {}};
        const Name *upper = top.find("upper");
        // Its guest has never booted.
        if (upper == nullptr) continue;
        node = upper->node;
      }
      Attributes attributes = layers_[i]->attributes(node);
      if (!S_ISDIR(attributes.mode)) layers_[i]->damaged("its root is not a directory");
      if (!found.exists) found = {true, layers_[i], node, attributes, {}};
      found.joined.push_back({i, layers_[i], node, {}});
    }
    return found;
  }

  Found find(Joined &parent, const std::string &name) {
    Found found;
    std::vector<std::string> path = {name};
    bool is_absolute = false;
    for (size_t layer = 0; layer < layers_.size(); layer++) {
      Place at = directory_of(parent, layer, path, is_absolute);
      const Name *entry = at.files == nullptr ? nullptr : at.find(path.back());
      if (entry == nullptr) continue;
      Attributes attributes = at.files->attributes(entry->node);
      if (S_ISCHR(attributes.mode) && attributes.device == 0) break;
      if (!S_ISDIR(attributes.mode)) {
        if (!found.exists) found = {true, at.files, entry->node, attributes, {}};
        break;
      }
      if (!found.exists) found = {true, at.files, entry->node, attributes, {}};
      found.joined.push_back({layer, at.files, entry->node, {}});
      if (layer + 1 == layers_.size() || !follow(at.files, entry->node, path, is_absolute)) break;
    }
    return found;
  }

  /** A directory of the guest's own layer must have one name only, or the walk might not end. */
  void enter(const Joined &joined) {
    for (const Place &place : joined)
      if (place.layer == 0 && !entered_.insert(place.node).second)
        place.files->damaged("a directory has two names");
  }

 private:
  /** Where the layer has the last name of the path; without files if nowhere. */
  Place directory_of(Joined &parent, size_t layer, const std::vector<std::string> &path, bool is_absolute) {
    if (!is_absolute) {
      for (Place &place : parent) {
        if (place.layer != layer) continue;
        place.list();
        return place;
      }
      return {};
    }
    Place at{layer, layers_[layer], layers_[layer]->root, {}};
    for (size_t i = 0; i + 1 < path.size(); i++) {
      const Name *entry = at.find(path[i]);
      if (entry == nullptr || !S_ISDIR(at.files->attributes(entry->node).mode)) return {};
      at = {layer, layers_[layer], entry->node, {}};
    }
    return at;
  }

  /** Whether lower layers are joined, and where: a directory that was renamed says where it was. */
  bool follow(FileSystem *files, uint64_t node, std::vector<std::string> &path, bool &is_absolute) {
    for (const auto &[name, value] : files->xattrs(node)) {
      if (name == "trusted.overlay.opaque" && value == "y") return false;
      if (name != "trusted.overlay.redirect") continue;
      std::vector<std::string> parts;
      bool starts_at_root = !value.empty() && value[0] == '/';
      for (size_t from = starts_at_root ? 1 : 0; from <= value.size();) {
        size_t to = std::min(value.find('/', from), value.size());
        parts.push_back(value.substr(from, to - from));
        from = to + 1;
      }
      for (const std::string &part : parts)
        if (part.empty() || part == "." || part == "..") files->damaged("a directory has an invalid redirect");
      if (!starts_at_root && parts.size() != 1) files->damaged("a directory has an invalid redirect");
      if (starts_at_root) is_absolute = true, path = parts;
      else path.back() = parts[0];
    }
    return true;
  }

  const std::vector<FileSystem *> layers_;
  std::set<uint64_t> entered_;
};
