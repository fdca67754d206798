// The addon of the host: what Node lacks and what a program of its own would be too slow for, because Node copies its
// page tables to start one. copySparse(from, to) copies a file's data and leaves its holes, on a thread of Node's pool;
// setBatch(thread, isBatch) sets the scheduling policy of a thread.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <node_api.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 256 * 1024, BLOCK = 4096, PATH_SIZE = 4096 };

typedef struct {
  napi_async_work work;
  napi_deferred deferred;
  char from[PATH_SIZE];
  char to[PATH_SIZE];
  // Of the system call that failed; 0: none did.
  int error;
  const char *call;
} Copy;

static napi_value make_error(napi_env env, int error, const char *call, const char *path) {
  const char *name = strerrorname_np(error);
  if (name == NULL) name = "EUNKNOWN";
  char text[2 * PATH_SIZE];
  snprintf(text, sizeof text, "%s: %s, %s '%s'", name, strerror(error), call, path);
  napi_value code, message, syscall, result;
  napi_create_string_utf8(env, name, NAPI_AUTO_LENGTH, &code);
  napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &message);
  napi_create_string_utf8(env, call, NAPI_AUTO_LENGTH, &syscall);
  napi_create_error(env, code, message, &result);
  napi_set_named_property(env, result, "syscall", syscall);
  return result;
}

static int failed(Copy *copy, const char *call) {
  copy->error = errno;
  copy->call = call;
  return -1;
}

static bool is_zero(const char *data, size_t size) { return data[0] == 0 && memcmp(data, data + 1, size - 1) == 0; }

static int write_all(Copy *copy, int to, const char *data, size_t size, off_t offset) {
  while (size > 0) {
    ssize_t written = pwrite(to, data, size, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed(copy, "write");
    data += written;
    size -= written;
    offset += written;
  }
  return 0;
}

/** Writes the runs of blocks that are not zero. */
static int write_data(Copy *copy, int to, const char *data, size_t size, off_t offset) {
  size_t start = 0;
  for (size_t at = 0; at < size; at += BLOCK) {
    size_t length = size - at < BLOCK ? size - at : BLOCK;
    if (!is_zero(data + at, length)) continue;
    if (write_all(copy, to, data + start, at - start, offset + start) < 0) return -1;
    start = at + length;
  }
  return start < size ? write_all(copy, to, data + start, size - start, offset + start) : 0;
}

static int copy_ranges(Copy *copy, int from, int to, off_t size, char *buffer) {
  off_t offset = 0;
  while (offset < size) {
    off_t end = size;
    off_t start = lseek(from, offset, SEEK_DATA);
    // Only holes are left.
    if (start < 0 && errno == ENXIO) break;
    // A file system that does not know its holes.
    if (start < 0 && errno != EINVAL && errno != EOPNOTSUPP) return failed(copy, "lseek");
    if (start < 0) start = offset;
    else if ((end = lseek(from, start, SEEK_HOLE)) < 0) return failed(copy, "lseek");
    if (end > size) end = size;
    for (offset = start; offset < end;) {
      // Whole blocks, aligned in the file.
      size_t wanted = CHUNK - offset % BLOCK;
      if ((off_t)wanted > end - offset) wanted = end - offset;
      ssize_t got = pread(from, buffer, wanted, offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failed(copy, "read");
      // It became shorter.
      if (got == 0) return 0;
      if (write_data(copy, to, buffer, got, offset) < 0) return -1;
      offset += got;
    }
  }
  return 0;
}

static int copy_content(Copy *copy, int from, int to, off_t size) {
  if (ioctl(to, FICLONE, from) == 0) return 0;
  if (ftruncate(to, size) < 0) return failed(copy, "ftruncate");
  char *buffer = malloc(CHUNK);
  if (buffer == NULL) return failed(copy, "malloc");
  int result = copy_ranges(copy, from, to, size, buffer);
  free(buffer);
  return result;
}

static void run(napi_env env, void *data) {
  (void)env;
  Copy *copy = data;
  struct stat source;
  int from = open(copy->from, O_RDONLY | O_CLOEXEC);
  int to = -1;
  if (from < 0 || fstat(from, &source) < 0) failed(copy, "open");
  else if ((to = open(copy->to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, source.st_mode & 0777)) < 0)
    failed(copy, "open");
  else if (copy_content(copy, from, to, source.st_size) < 0) unlink(copy->to);
  if (to >= 0) close(to);
  if (from >= 0) close(from);
}

static void settle(napi_env env, napi_status status, void *data) {
  Copy *copy = data;
  if (status == napi_cancelled) copy->error = ECANCELED, copy->call = "copy";
  napi_value value;
  if (copy->error == 0) {
    napi_get_undefined(env, &value);
    napi_resolve_deferred(env, copy->deferred, value);
  } else {
    napi_reject_deferred(env, copy->deferred, make_error(env, copy->error, copy->call, copy->to));
  }
  napi_delete_async_work(env, copy->work);
  free(copy);
}

static bool read_path(napi_env env, napi_value value, char *path) {
  size_t size;
  if (napi_get_value_string_utf8(env, value, NULL, 0, &size) == napi_ok && size < PATH_SIZE &&
      napi_get_value_string_utf8(env, value, path, PATH_SIZE, &size) == napi_ok && strlen(path) == size)
    return true;
  napi_throw_type_error(env, NULL, "a path was expected");
  return false;
}

static napi_value copy_sparse(napi_env env, napi_callback_info info) {
  napi_value arguments[2], promise, name;
  size_t count = 2;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  Copy *copy = calloc(1, sizeof *copy);
  if (copy == NULL) return NULL;
  if (!read_path(env, arguments[0], copy->from) || !read_path(env, arguments[1], copy->to)) {
    free(copy);
    return NULL;
  }
  napi_create_promise(env, &copy->deferred, &promise);
  napi_create_string_utf8(env, "copySparse", NAPI_AUTO_LENGTH, &name);
  napi_create_async_work(env, NULL, name, run, settle, copy, &copy->work);
  napi_queue_async_work(env, copy->work);
  return promise;
}

static napi_value set_batch(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  size_t count = 2;
  int32_t thread;
  bool is_batch;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  if (napi_get_value_int32(env, arguments[0], &thread) != napi_ok ||
      napi_get_value_bool(env, arguments[1], &is_batch) != napi_ok) {
    napi_throw_type_error(env, NULL, "a thread and a boolean were expected");
    return NULL;
  }
  struct sched_param none = {0};
  if (sched_setscheduler(thread, is_batch ? SCHED_BATCH : SCHED_OTHER, &none) < 0) {
    char text[32];
    int error = errno;
    snprintf(text, sizeof text, "%d", thread);
    napi_throw(env, make_error(env, error, "sched_setscheduler", text));
  }
  return NULL;
}

NAPI_MODULE_INIT() {
  napi_value function;
  napi_create_function(env, "copySparse", NAPI_AUTO_LENGTH, copy_sparse, NULL, &function);
  napi_set_named_property(env, exports, "copySparse", function);
  napi_create_function(env, "setBatch", NAPI_AUTO_LENGTH, set_batch, NULL, &function);
  napi_set_named_property(env, exports, "setBatch", function);
  return exports;
}
