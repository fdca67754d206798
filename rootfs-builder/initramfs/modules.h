/* Loads the kernel modules for this machine's devices. */
#pragma once
#include "report.h"

static int has_virtio_device(unsigned long id) {
  static unsigned long present; /* bit set of device ids, filled on first use (after virtio_pci is loaded) */
  static int is_known;
  if (!is_known) {
    DIR *devices = opendir("/sys/bus/virtio/devices");
    struct dirent *entry;
    while (devices && (entry = readdir(devices))) {
      char path[320], text[16];
      snprintf(path, sizeof path, "/sys/bus/virtio/devices/%s/device", entry->d_name);
      if (entry->d_name[0] == '.' || read_text(path, text, sizeof text) < 0) continue;
      unsigned long number = strtoul(text, NULL, 16);
      if (number < 64) present |= 1UL << number;
    }
    if (devices) closedir(devices);
    is_known = 1;
  }
  return id < 64 && (present >> id & 1);
}

/*
 * The kernel allocates and clears memory for each request of a disk's queue, and a copy gets new disks. The default of
 * 256 requests, and twice as many for the scheduler, would be the largest part of the memory that an idle copy writes.
 */
static const char *options_of(const char *file) {
  return strncmp(file, "virtio_blk.", 11) == 0 ? "queue_depth=64" : "";
}

static void load_module(const char *file) {
  char path[256];
  snprintf(path, sizeof path, "/modules/%s", file);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_errno("module", path);
  if (syscall(SYS_finit_module, fd, options_of(file), 0) < 0 && errno != EEXIST) fail_errno("module", path);
  close(fd);
  mark(file);
}

/* `named`: load only the modules of that name. */
static void load_modules(const char *named) {
  static char list[4096];
  if (read_text("/modules/list", list, sizeof list) < 0) return; /* this kernel has all drivers built in */
  const char *wanted = named ? named : parameter("sandbox.modules");
  char *line_state = NULL, *word_state = NULL;
  for (char *line = strtok_r(list, "\n", &line_state); line; line = strtok_r(NULL, "\n", &line_state)) {
    char *file = strtok_r(line, " ", &word_state);
    char *condition = strtok_r(NULL, " ", &word_state);
    int is_needed = file && !condition && !named;
    for (; condition && !is_needed; condition = strtok_r(NULL, " ", &word_state)) {
      char *end;
      unsigned long id = strtoul(condition, &end, 10);
      is_needed = *end ? list_contains(wanted, condition) : !named && has_virtio_device(id);
    }
    if (is_needed) load_module(file);
  }
}
