// A program that prints a whole directory tree, in guests and on this host, so that the results can be compared.
import { compileSource } from './image-program.ts';

/**
 * `walk DIR [NAME…]`: a line for each file in DIR, except those NAMEs at its top. Names and attributes are escaped as
 * C strings, in byte order; contents are FNV-1a hashes.
 */
const SOURCE = `
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

static void say(const char *bytes, size_t length) {
  for (size_t n = 0; n < length; n++) {
    unsigned char c = bytes[n];
    if (c > 32 && c < 127 && c != '\\\\') putchar(c);
    else printf("\\\\%03o", c);
  }
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void say_content(const char *path) {
  static unsigned char piece[1 << 16];
  uint64_t hash = 0xcbf29ce484222325u, bytes = 0;
  int fd = open(path, O_RDONLY | O_NOFOLLOW);
  ssize_t got = -1;
  while (fd >= 0 && (got = read(fd, piece, sizeof piece)) > 0) {
    bytes += got;
    for (ssize_t n = 0; n < got; n++) hash = (hash ^ piece[n]) * 0x100000001b3u;
  }
  if (got < 0) printf(" unreadable: %s", strerror(errno));
  printf(" %llu=%016llx", (unsigned long long)bytes, (unsigned long long)hash);
  close(fd);
}

static void say_attributes(const char *path) {
  static char names[1 << 16], value[1 << 16];
  char *sorted[1000];
  size_t count = 0;
  ssize_t length = llistxattr(path, names, sizeof names);
  for (char *name = names; name < names + length && count < 1000; name += strlen(name) + 1) sorted[count++] = name;
  qsort(sorted, count, sizeof *sorted, by_bytes);
  for (size_t n = 0; n < count; n++) {
    if (!strncmp(sorted[n], "trusted.overlay.", 16)) continue;
    ssize_t size = lgetxattr(path, sorted[n], value, sizeof value);
    printf(" %s=", sorted[n]);
    if (size < 0) printf("unreadable");
    else say(value, size);
  }
}

static void walk(const char *path, char **without) {
  struct dirent *entry;
  char **names = NULL;
  size_t count = 0;
  DIR *dir = opendir(path);
  if (dir == NULL) printf("%s: %s\\n", path, strerror(errno)), exit(1);
  while ((entry = readdir(dir)) != NULL) {
    int is_left_out = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
    for (char **each = without; each != NULL && *each != NULL; each++) is_left_out |= !strcmp(entry->d_name, *each);
    if (is_left_out) continue;
    names = realloc(names, ++count * sizeof *names);
    names[count - 1] = strdup(entry->d_name);
  }
  closedir(dir);
  qsort(names, count, sizeof *names, by_bytes);
  for (size_t n = 0; n < count; n++) {
    struct stat found;
    char target[5000], *full;
    if (asprintf(&full, "%s/%s", path, names[n]) < 0 || lstat(full, &found) < 0) printf("%s: %s\\n", names[n], strerror(errno)), exit(1);
    say(full, strlen(full));
    printf(" %o %u:%u %lld.%09ld", found.st_mode, found.st_uid, found.st_gid, (long long)found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
    if (!S_ISDIR(found.st_mode)) printf(" links=%llu", (unsigned long long)found.st_nlink);
    if (S_ISCHR(found.st_mode) || S_ISBLK(found.st_mode)) printf(" %u:%u", major(found.st_rdev), minor(found.st_rdev));
    if (S_ISREG(found.st_mode)) say_content(full);
    if (S_ISLNK(found.st_mode)) {
      ssize_t size = readlink(full, target, sizeof target);
      printf(" -> ");
      say(target, size < 0 ? 0 : size);
    }
    say_attributes(full);
    putchar('\\n');
    if (S_ISDIR(found.st_mode)) walk(full, NULL);
    free(full);
    free(names[n]);
  }
  free(names);
}

int main(int count, char **words) {
  if (count < 2 || chdir(words[1]) < 0) return 1;
  walk(".", words + 2);
  return 0;
}`;

export function compileTreeProgram(): Buffer {
  return compileSource(SOURCE, 'gcc', '-static');
}
