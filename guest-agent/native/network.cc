// The guest's network interface: binds and unbinds its driver, sets its addresses and routes.
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "napi.h"

namespace {

constexpr const char* DEVICES = "/sys/bus/virtio/devices";
constexpr const char* DRIVER = "/sys/bus/virtio/drivers/virtio_net";
// A hot-plugged device appears within milliseconds.
constexpr int DEVICE_WAIT_MS = 10000;
constexpr int DEVICE_POLL_MS = 1;

// The first name in a directory that does not begin with a dot; "" when there is no such name.
std::string first_name(const std::string& directory) {
  std::string name;
  DIR* entries = opendir(directory.c_str());
  while (entries && name.empty()) {
    dirent* entry = readdir(entries);
    if (!entry) break;
    if (entry->d_name[0] != '.') name = entry->d_name;
  }
  if (entries) closedir(entries);
  return name;
}

int write_file(const std::string& path, const std::string& text) {
  int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  int error = write(fd, text.data(), text.size()) < 0 ? errno : 0;
  close(fd);
  return error;
}

// The bus name (virtio3) of a network device; "" when there is no such device.
std::string find_device() {
  std::string found;
  DIR* devices = opendir(DEVICES);
  while (devices && found.empty()) {
    dirent* entry = readdir(devices);
    if (!entry) break;
    if (entry->d_name[0] == '.') continue;
    FILE* file = fopen((std::string(DEVICES) + "/" + entry->d_name + "/device").c_str(), "re");
    unsigned id = 0;
    // Virtio specification, section 5: 1 is a network device.
    if (file && fscanf(file, "%x", &id) == 1 && id == 1) found = entry->d_name;
    if (file) fclose(file);
  }
  if (devices) closedir(devices);
  return found;
}

std::string interface_of(const std::string& device) {
  return first_name(std::string(DEVICES) + "/" + device + "/net");
}

// The last device found, and its interface. Another search of the bus would cost 10 to 40 ms in an emulated guest, in
// every copy.
std::string known_device, known_name;

bool is_still_known() {
  if (known_name.empty()) return false;
  char target[PATH_MAX];
  ssize_t length = readlink(("/sys/class/net/" + known_name + "/device").c_str(), target, sizeof target);
  if (length < 0) return false;
  std::string path(target, static_cast<size_t>(length));
  return path.substr(path.rfind('/') + 1) == known_device;
}

// bindInterface(): binds the driver unless it is bound; returns the interface's name
METHOD(bind_interface) {
  (void)info;
  if (is_still_known()) return to_string(env, known_name.data(), known_name.size());
  std::string device;
  for (int waited_ms = 0; (device = find_device()).empty(); waited_ms += DEVICE_POLL_MS) {
    if (waited_ms >= DEVICE_WAIT_MS) return throw_errno(env, "find a network device", ENODEV, DEVICES);
    timespec pause = {0, DEVICE_POLL_MS * 1000000L};
    nanosleep(&pause, nullptr);
  }
  std::string name = interface_of(device);
  for (int tries = 0; name.empty() && tries < 2; tries++) {
    // A program may have moved the interface to its own network namespace. Unbinding and binding creates it here again.
    if (tries > 0) write_file(std::string(DRIVER) + "/unbind", device);
    int error = write_file(std::string(DRIVER) + "/bind", device);
    // The kernel may have bound it meanwhile.
    if (error && error != EBUSY && error != ENODEV) return throw_errno(env, "bind", error, device.c_str());
    name = interface_of(device);
  }
  if (name.empty()) return throw_errno(env, "bind", ENODEV, device.c_str());
  known_device = device;
  known_name = name;
  return to_string(env, name.data(), name.size());
}

// unbindInterface(): removes the network device's interface, in whatever namespace it is
METHOD(unbind_interface) {
  (void)info;
  std::string device = find_device();
  if (device.empty() || access((std::string(DEVICES) + "/" + device + "/driver").c_str(), F_OK) < 0)
    return undefined(env);
  int error = write_file(std::string(DRIVER) + "/unbind", device);
  if (error) return throw_errno(env, "unbind", error, device.c_str());
  return undefined(env);
}

// One interface, configured by socket ioctls, which need neither a netlink dialogue nor a program.
class Interface {
 public:
  explicit Interface(const std::string& name) : name_(name), fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    if (fd_ < 0) fail("socket");
  }
  ~Interface() {
    if (fd_ >= 0) close(fd_);
  }
  Interface(const Interface&) = delete;
  Interface& operator=(const Interface&) = delete;

  // The first call that failed, and its error; later calls are skipped.
  const char* failed = nullptr;
  int error = 0;

  // Whether only the address changes: the interface has exactly one address, another one, and no other interface except
  // loopback has any. Removing that address removes all routes and neighbours.
  bool needs_only(in_addr address) const {
    size_t own = 0;
    for (const ifreq& one : addresses()) {
      if (!strcmp(one.ifr_name, "lo")) continue;
      sockaddr_in has;
      memcpy(&has, &one.ifr_addr, sizeof has);
      if (name_ != one.ifr_name || has.sin_addr.s_addr == address.s_addr) return false;
      own++;
    }
    return own == 1;
  }

  void remove_addresses() {
    for (ifreq request : addresses()) {
      std::string label = request.ifr_name;
      if (label != name_ && label.rfind(name_ + ":", 0) != 0) continue;
      put(&request.ifr_addr, {0});
      // The kernel may have removed it together with the address before.
      ioctl(fd_, SIOCSIFADDR, &request);
    }
  }

  void set_up(bool is_up) {
    ifreq request = named();
    call(SIOCGIFFLAGS, &request, "SIOCGIFFLAGS");
    if (is_up && (request.ifr_flags & IFF_UP)) return;
    if (is_up) request.ifr_flags |= IFF_UP | IFF_RUNNING;
    else request.ifr_flags &= static_cast<short>(~IFF_UP);
    call(SIOCSIFFLAGS, &request, "SIOCSIFFLAGS");
  }

  void set_mac(const uint8_t* mac) {
    ifreq request = named();
    call(SIOCGIFHWADDR, &request, "SIOCGIFHWADDR");
    if (!memcmp(request.ifr_hwaddr.sa_data, mac, 6)) return;
    memcpy(request.ifr_hwaddr.sa_data, mac, 6);
    call(SIOCSIFHWADDR, &request, "SIOCSIFHWADDR");
  }

  void set_address(in_addr address, in_addr mask) {
    ifreq request = named();
    put(&request.ifr_addr, address);
    call(SIOCSIFADDR, &request, "SIOCSIFADDR");
    put(&request.ifr_netmask, mask);
    call(SIOCSIFNETMASK, &request, "SIOCSIFNETMASK");
  }

  void set_gateway(in_addr gateway) {
    rtentry route = {};
    put(&route.rt_dst, {0});
    put(&route.rt_genmask, {0});
    put(&route.rt_gateway, gateway);
    route.rt_flags = RTF_UP | RTF_GATEWAY;
    route.rt_dev = name_.data();
    call(SIOCADDRT, &route, "SIOCADDRT");
  }

  void set_neighbour(in_addr address, const uint8_t* mac) {
    arpreq entry = {};
    put(&entry.arp_pa, address);
    entry.arp_ha.sa_family = ARPHRD_ETHER;
    memcpy(entry.arp_ha.sa_data, mac, 6);
    entry.arp_flags = ATF_PERM | ATF_COM;
    strncpy(entry.arp_dev, name_.c_str(), sizeof entry.arp_dev - 1);
    call(SIOCSARP, &entry, "SIOCSARP");
  }

 private:
  std::string name_;
  int fd_;

  // Addresses of all interfaces in this namespace.
  std::vector<ifreq> addresses() const {
    std::vector<ifreq> found(256);
    ifconf list = {};
    list.ifc_len = static_cast<int>(found.size() * sizeof(ifreq));
    list.ifc_req = found.data();
    if (fd_ < 0 || ioctl(fd_, SIOCGIFCONF, &list) < 0) list.ifc_len = 0;
    found.resize(static_cast<size_t>(list.ifc_len) / sizeof(ifreq));
    return found;
  }

  ifreq named() const {
    ifreq request = {};
    strncpy(request.ifr_name, name_.c_str(), IFNAMSIZ - 1);
    return request;
  }

  static void put(sockaddr* target, in_addr address) {
    sockaddr_in value = {};
    value.sin_family = AF_INET;
    value.sin_addr = address;
    memcpy(target, &value, sizeof value);
  }

  void fail(const char* what) {
    failed = what;
    error = errno;
  }

  template <typename Request>
  void call(unsigned long code, Request* request, const char* what) {
    if (!failed && ioctl(fd_, code, request) < 0) fail(what);
  }
};

bool read_mac(napi_env env, napi_value value, uint8_t* out) {
  uint8_t* data;
  size_t size;
  if (!read_bytes(env, value, &data, &size)) return false;
  if (size == 6) memcpy(out, data, 6);
  else napi_throw_range_error(env, nullptr, "a MAC address has six bytes");
  return size == 6;
}

bool read_address(napi_env env, napi_value value, in_addr* out) {
  std::string text;
  if (!read_string(env, value, &text)) return false;
  if (inet_pton(AF_INET, text.c_str(), out) == 1) return true;
  throw_errno(env, "inet_pton", EINVAL, text.c_str());
  return false;
}

// setInterface(name, mac, address, prefixLength, gateway, gatewayMac): replaces the whole earlier configuration
METHOD(set_interface) {
  ARGUMENTS(6);
  std::string name;
  uint8_t mac[6], gateway_mac[6];
  in_addr address, gateway, mask;
  int32_t prefix_length;
  CHECK(read_string(env, arguments[0], &name));
  CHECK(read_mac(env, arguments[1], mac));
  CHECK(read_address(env, arguments[2], &address));
  CHECK(read_int(env, arguments[3], &prefix_length));
  CHECK(read_address(env, arguments[4], &gateway));
  CHECK(read_mac(env, arguments[5], gateway_mac));
  mask.s_addr = htonl(prefix_length == 0 ? 0 : ~0U << (32 - prefix_length));
  // A kernel without IPv6 has nothing to disable.
  write_file("/proc/sys/net/ipv6/conf/" + name + "/disable_ipv6", "1");
  auto configure = [&](Interface* interface) {
    interface->set_mac(mac);
    interface->set_address(address, mask);
    interface->set_up(true);
    interface->set_neighbour(gateway, gateway_mac);
    interface->set_gateway(gateway);
    return interface->failed == nullptr;
  };
  // Setting the interface down would remove all routes and neighbours too, but it also stops the queues and waits for
  // their readers: half of the time that an emulated copy needs for its network.
  Interface running(name);
  if (running.needs_only(address) && configure(&running)) return undefined(env);
  Interface stopped(name);
  stopped.set_up(false);
  stopped.remove_addresses();
  if (!configure(&stopped)) return throw_errno(env, stopped.failed, stopped.error, name.c_str());
  return undefined(env);
}

}  // namespace

bool add_network(napi_env env, napi_value exports) {
  const Method methods[] = {
      {"bindInterface", bind_interface}, {"unbindInterface", unbind_interface}, {"setInterface", set_interface},
  };
  return add_methods(env, exports, methods, sizeof methods / sizeof *methods);
}
