/*
 * The bare channel, the baseline of the benchmarks: transfers plain bytes over the agent's port.
 * Commands are one letter and a big-endian 64-bit length:
 *   E n  echoes the next n bytes
 *   S n  sends n bytes
 *   R n  receives n bytes, then sends one byte
 *   P n  the same, with a pipe to another process, as a command's input has
 *   O n  sends n bytes that come through a pipe from another process, as a command's output does
 *   D n  as R, but writes the bytes to the second disk with O_DIRECT, one chunk ahead
 *   F n  sends n bytes that are read from there in the same way
 */
#include "port.h"

#include <linux/aio_abi.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define CHUNK 65536
static char buffer[CHUNK];

/* A pipe between this process and a child; 0 in the child. */
static pid_t fork_with_pipe(int ends[2]) {
  if (pipe(ends) < 0) end("pipe");
  fcntl(ends[1], F_SETPIPE_SZ, 4 * CHUNK);
  pid_t child = fork();
  if (child < 0) end("fork");
  return child;
}

/* The write end of a pipe; a child reads the other end until it is closed. */
static int start_reader(void) {
  int ends[2];
  if (fork_with_pipe(ends) == 0) {
    close(ends[1]);
    while (read(ends[0], buffer, CHUNK) > 0) {
    }
    _exit(0);
  }
  close(ends[0]);
  return ends[1];
}

static void pass_on(int pipe_fd, uint64_t left) {
  while (left > 0) {
    size_t have = 0, want = left < CHUNK ? left : CHUNK;
    while (have < want) have += read_some(buffer + have, want - have);
    for (size_t put = 0; put < have;) {
      ssize_t more = write(pipe_fd, buffer + put, have - put);
      if (more < 0) end("write");
      put += more;
    }
    left -= have;
  }
  close(pipe_fd);
  wait(NULL);
}

static void pass_out(uint64_t left) {
  int ends[2];
  if (fork_with_pipe(ends) == 0) {
    for (uint64_t more = left; more > 0;) {
      ssize_t put = write(ends[1], buffer, more < CHUNK ? more : CHUNK);
      if (put < 0) end("write");
      more -= put;
    }
    _exit(0);
  }
  close(ends[1]);
  while (left > 0) {
    ssize_t got = read(ends[0], buffer, CHUNK);
    if (got <= 0) end("read");
    write_all(buffer, got);
    left -= got;
  }
  close(ends[0]);
  wait(NULL);
}

/* Two chunks in one huge page: the disk uses one while the program uses the other, as in the agent's direct-file.cc. */
#define PIECE (900 << 10)
static char *pieces[2];
static aio_context_t queue;
static int disk;

static void open_disk(void) {
  size_t huge = 2 << 20;
  disk = open("/dev/vdb", O_RDWR | O_DIRECT);
  if (disk < 0) end("/dev/vdb");
  if (pieces[0]) return;
  FILE *setting = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "w");
  if (setting) {
    fputs("madvise", setting);
    fclose(setting);
  }
  char *memory = aligned_alloc(huge, huge);
  if (!memory || syscall(SYS_io_setup, 1, &queue) < 0) end("memory for the disk");
  madvise(memory, huge, MADV_HUGEPAGE);
  memset(memory, 0, huge);
  for (int i = 0; i < 2; i++) pieces[i] = memory + i * PIECE;
}

static void start_io(int opcode, char *piece, size_t size, uint64_t position) {
  struct iocb call = {.aio_lio_opcode = opcode, .aio_fildes = disk, .aio_nbytes = size, .aio_offset = position};
  struct iocb *calls[] = {&call};
  call.aio_buf = (uintptr_t)piece;
  if (syscall(SYS_io_submit, queue, 1, calls) != 1) end("io_submit");
}

static void finish_io(size_t size) {
  struct io_event event;
  long got;
  do got = syscall(SYS_io_getevents, queue, 1, 1, &event, NULL);
  while (got < 0 && errno == EINTR);
  if (got != 1 || event.res < (int64_t)size) end("the disk");
}

static void store(uint64_t left) {
  open_disk();
  int mine = 0;
  for (uint64_t position = 0; left > 0; position += PIECE, mine ^= 1) {
    size_t have = 0, want = left < PIECE ? left : PIECE;
    while (have < want) have += read_some(pieces[mine] + have, want - have);
    if (position > 0) finish_io(PIECE);
    start_io(IOCB_CMD_PWRITE, pieces[mine], PIECE, position);
    left -= want;
  }
  finish_io(PIECE);
  close(disk);
}

static void fetch(uint64_t left) {
  open_disk();
  int mine = 0;
  start_io(IOCB_CMD_PREAD, pieces[mine], PIECE, 0);
  for (uint64_t position = PIECE; left > 0; position += PIECE, mine ^= 1) {
    size_t want = left < PIECE ? left : PIECE;
    finish_io(want);
    left -= want;
    if (left > 0) start_io(IOCB_CMD_PREAD, pieces[mine ^ 1], PIECE, position);
    write_all(pieces[mine], want);
  }
  close(disk);
}

int main(void) {
  open_port();
  for (;;) {
    unsigned char command[9];
    for (size_t have = 0; have < sizeof command;) have += read_some((char *)command + have, sizeof command - have);
    uint64_t left = 0;
    for (int i = 1; i < 9; i++) left = left << 8 | command[i];
    if (command[0] == 'P') {
      pass_on(start_reader(), left);
      left = 0;
    }
    if (command[0] == 'O') {
      pass_out(left);
      left = 0;
    }
    if (command[0] == 'D') {
      store(left);
      left = 0;
    }
    if (command[0] == 'F') {
      fetch(left);
      left = 0;
    }
    while (left > 0) {
      size_t step = left < CHUNK ? left : CHUNK;
      if (command[0] != 'S') step = read_some(buffer, step);
      if (command[0] != 'R') write_all(buffer, step);
      left -= step;
    }
    if (strchr("RPD", command[0])) write_all("!", 1);
  }
}
