/*
 * The bare channel that the benchmarks compare against: speaks nothing but bytes on the agent's port.
 * Commands are one letter and a big-endian 64-bit length:
 *   E n  the next n bytes come back
 *   S n  n bytes are sent
 *   R n  n bytes are received, then one byte is sent
 *   P n  the same, but the bytes go through a pipe to another process, as a command's input does
 *   O n  n bytes are sent that come through a pipe from another process, as a command's output does
 *   D n  as R, but the bytes are written to the second disk, past the page cache
 *   F n  n bytes are sent that are read from there
 */
#include "port.h"

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

/* The write end of a pipe whose other end a child reads until it is over. */
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

static char piece[4 * CHUNK] __attribute__((aligned(4096)));

static int open_disk(void) {
  int disk = open("/dev/vdb", O_RDWR | O_DIRECT);
  if (disk < 0) end("/dev/vdb");
  return disk;
}

static void store(uint64_t left) {
  int disk = open_disk();
  for (uint64_t position = 0; left > 0; position += sizeof piece) {
    size_t have = 0, want = left < sizeof piece ? left : sizeof piece;
    while (have < want) have += read_some(piece + have, want - have);
    if (pwrite(disk, piece, sizeof piece, position) < 0) end("pwrite");
    left -= want;
  }
  close(disk);
}

static void fetch(uint64_t left) {
  int disk = open_disk();
  for (uint64_t position = 0; left > 0; position += sizeof piece) {
    size_t want = left < sizeof piece ? left : sizeof piece;
    if (pread(disk, piece, sizeof piece, position) < (ssize_t)want) end("pread");
    write_all(piece, want);
    left -= want;
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
