/*
 * The guest's init as an ordinary program: init-host <directory>. The directory is its root. Actions that would change
 * the machine (mounts, modules, power, programs) are printed on standard output instead, one per line.
 */
#define _GNU_SOURCE
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

static int said_mount(const char *source, const char *target, const char *type, unsigned long flags, const void *options) {
  printf("mount %s %s %s %lx %s\n", source, target, type ? type : "-", flags, options ? (const char *)options : "-");
  return 0;
}

/* A module's file contains its name; the only other raw system call starts a program of the initramfs. */
static long said_syscall(long number, int fd, const char *text, ...) {
  char name[64] = "";
  (void)text;
  if (number != SYS_finit_module) printf("execveat\n");
  else if (read(fd, name, sizeof name - 1) >= 0) printf("module %s\n", name);
  if (number == SYS_finit_module) return 0;
  fflush(stdout);
  _exit(0);
}

static int said_execve(const char *path, char *const arguments[], char *const environment[]) {
  printf("execve %s", path);
  for (; *arguments; arguments++) printf(" %s", *arguments);
  for (; *environment; environment++) printf(" %s", *environment);
  printf("\n");
  fflush(stdout);
  _exit(0);
}

static int said_reboot(int how) {
  printf("reboot %x\n", (unsigned)how);
  fflush(stdout);
  _exit(how == (int)RB_POWER_OFF ? 3 : 4);
}

static int said_chroot(const char *path) {
  printf("chroot %s\n", path);
  return 0;
}

static int said_umount(const char *path) {
  printf("umount %s\n", path);
  return 0;
}

static int init_main(void);
#define mount said_mount
#define syscall said_syscall
#define execve said_execve
#define reboot said_reboot
#define chroot said_chroot
#define umount said_umount
#define sync() ((void)0)
#define main init_main
#include "../../rootfs-builder/initramfs/init.c"
#undef chroot
#undef umount
#undef main

int main(int count, char **arguments) {
  if (count != 2 || chroot(arguments[1]) < 0 || chdir("/") < 0) return 2;
  return init_main();
}
