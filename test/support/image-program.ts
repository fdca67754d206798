// A program for test images, compiled for each C library.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Executes the action of its first argument; as `serve`, it keeps running. */
const SOURCE = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int count, char **words) {
  char cwd[256];
  const char *what = count > 1 ? words[1] : "serve";
  if (!strcmp(what, "mode")) {
    struct stat found;
    for (int n = 2; n < count; n++) {
      if (lstat(words[n], &found) < 0) printf("%s missing\\n", words[n]);
      else printf("%s %o %u:%u %lld %llu\\n", words[n], found.st_mode, found.st_uid, found.st_gid, (long long)found.st_mtime,
                  (unsigned long long)found.st_nlink);
    }
    return 0;
  }
  printf("%s uid=%u A=%s cwd=%s\\n", what, getuid(), getenv("A") ? getenv("A") : "-", getcwd(cwd, sizeof cwd));
  fflush(stdout);
  while (!strcmp(what, "serve")) pause();
  return 0;
}`;

/** `command`: a C compiler with its flags. */
export function compileProgram(...command: readonly string[]): Buffer {
  return compileSource(SOURCE, ...command);
}

export function compileSource(source: string, ...command: readonly string[]): Buffer {
  const [compiler = 'gcc', ...flags] = command;
  const dir = mkdtempSync(join(tmpdir(), 'program-'));
  try {
    writeFileSync(join(dir, 'it.c'), source);
    execFileSync(compiler, [...flags, '-O1', '-o', join(dir, 'it'), join(dir, 'it.c')]);
    return readFileSync(join(dir, 'it'));
  } finally {
    rmSync(dir, { recursive: true });
  }
}
