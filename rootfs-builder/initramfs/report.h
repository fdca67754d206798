/* init's console messages, its failure path, and the parameters of the kernel command line. */
#pragma once
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static char command_line[4096];
static int debugging;

static void say(const char *format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  if (length > (int)sizeof line - 2) length = sizeof line - 2;
  line[length++] = '\n';
  if (write(STDERR_FILENO, line, length) < 0) return;
}

/**
 * The engine recognises this line on the console. Powering off ends the VMM, so the engine need not wait for a
 * timeout.
 */
static void fail(const char *stage, const char *detail) {
  say("sandbox-init: %s: %s", stage, detail);
  tcdrain(STDERR_FILENO); /* a power-off would truncate the line */
  sync();
  reboot(RB_POWER_OFF);
  reboot(RB_AUTOBOOT); /* there is no ACPI power-off: a reset ends a VMM that runs with a no-reboot option */
  _exit(1);            /* and a kernel panic if even that failed */
}

static void fail_errno(const char *stage, const char *subject) {
  char detail[384];
  snprintf(detail, sizeof detail, "%s: %s", subject, strerror(errno));
  fail(stage, detail);
}

static void mark(const char *stage) {
  if (!debugging) return;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  say("sandbox-init: %ld.%03ld ms %s", now.tv_sec * 1000 + now.tv_nsec / 1000000, now.tv_nsec / 1000 % 1000, stage);
}

/* Reads at most size - 1 bytes and appends a zero byte; -1 when the file cannot be opened. */
static ssize_t read_text(const char *path, char *text, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t total = 0, got;
  while ((size_t)total < size - 1 && (got = read(fd, text + total, size - 1 - total)) > 0) total += got;
  close(fd);
  text[total] = 0;
  return total;
}

/* A copy of the value of `name=value` (or of a lone `name`) on the command line; NULL when absent. */
static char *parameter(const char *name) {
  size_t length = strlen(name);
  const char *word = command_line;
  char *found = NULL;
  while (*word) {
    word += strspn(word, " \n");
    size_t size = strcspn(word, " \n");
    if (size >= length && !strncmp(word, name, length) && (size == length || word[length] == '=')) {
      free(found); /* the last one wins, as in the kernel's own parameters */
      found = size == length ? strdup("") : strndup(word + length + 1, size - length - 1);
    }
    word += size;
  }
  return found;
}

static int list_contains(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *item = list; item && *item; item += strspn(item, ",")) {
    size_t size = strcspn(item, ",");
    if (size == length && !strncmp(item, name, size)) return 1;
    item += size;
  }
  return 0;
}

static void mount_or_fail(const char *source, const char *target, const char *type, unsigned long flags,
                          const char *options) {
  if (mkdir(target, 0755) < 0 && errno != EEXIST) fail_errno("mount", target);
  if (mount(source, target, type, flags, options) < 0) {
    char subject[256];
    snprintf(subject, sizeof subject, "%s (%s) on %s", source, type, target);
    fail_errno("mount", subject);
  }
}
