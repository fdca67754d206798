// The outcome of an attack.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void report(const char *attack, const char *about, long result) {
  printf("%s%s%s: %s\n", attack, *about == '\0' ? "" : " ", about, result < 0 ? strerrorname_np(errno) : "done");
}

static long open_and_close(const char *path, int flags) {
  int file = open(path, flags | O_CLOEXEC, 0600);
  if (file >= 0) close(file);
  return file;
}
