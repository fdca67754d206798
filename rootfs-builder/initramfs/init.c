/*
 * PID 1 of every sandbox during boot: loads the virtio drivers, joins the read-only root (/dev/vda)
 * and the writable layer (/dev/vdb) with overlayfs, switches root and executes the guest agent.
 * It runs on each cold boot, often under emulation, so it leaves everything else to the agent.
 *
 * Kernel command line:
 *   sandbox.init=<path>      execute this instead of the agent (searched in the initramfs, then in the root)
 *   sandbox.agent-disk       the root image has no agent: join the agent's own image (/dev/vdc) above it
 *   sandbox.modules=<a,b>    also load these optional modules of /modules/list
 *   sandbox.bare             no root yet: run the agent from its own image (/dev/vdc), and release the other disks
 *   sandbox.disk-errors      the layer's disk returns errors for writes that the host cannot store
 *   sandbox.debug            print the time of each stage
 *   sandbox.probe=<nonce>    start no sandbox: print proofs of life that only this program can print, until the VM ends
 *
 * /modules/list has one module file per line in load order, followed by its conditions: empty = always,
 * a number = only when a virtio device with that id is present, a name = only when sandbox.modules names it.
 */
#define _GNU_SOURCE
#include "report.h"
#include "root.h"

#define PROBE_PAUSE_MS 20
#define AGENT_DIR "/.sandbox"
#ifdef __aarch64__
#define AGENT_LOADER AGENT_DIR "/lib/ld-linux-aarch64.so.1"
#else
#define AGENT_LOADER AGENT_DIR "/lib/ld-linux-x86-64.so.2"
#endif

/* ---- probe -------------------------------------------------------------------------------------- */

/* FNV-1a: the kernel prints its command line, so printing the nonce itself would prove nothing. */
static uint64_t hash_text(const char *text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
  return hash;
}

/* Counts forever, after a sleep and a write to the layer's disk each time. A copy that continues to count has working
   memory, timer, interrupts and disk. The engine waits for these lines. */
static void show_life(const char *nonce) {
  static char block[4096] __attribute__((aligned(4096)));
  wait_for_disk("/dev/vda");
  wait_for_disk("/dev/vdb");
  int root = open("/dev/vda", O_RDONLY | O_CLOEXEC);
  int layer = open("/dev/vdb", O_RDWR | O_DIRECT | O_CLOEXEC);
  if (root < 0 || pread(root, block, sizeof block, 0) != sizeof block) fail_errno("probe", "/dev/vda");
  if (layer < 0) fail_errno("probe", "/dev/vdb");
  struct timespec pause = {0, PROBE_PAUSE_MS * 1000000L};
  for (unsigned long count = 1;; count++) {
    memcpy(block, &count, sizeof count);
    if (pwrite(layer, block, sizeof block, 0) != sizeof block) fail_errno("probe", "/dev/vdb");
    say("sandbox-probe: %016llx %lu.", (unsigned long long)hash_text(nonce), count);
    nanosleep(&pause, NULL);
  }
}

/* ---- hand over ---------------------------------------------------------------------------------- */

static void execute_agent(void) {
  char *arguments[] = {AGENT_LOADER,    "--library-path",           AGENT_DIR "/lib", "--argv0",
                       "sandbox-agent", AGENT_DIR "/sandbox-agent", NULL};
  char *environment[] = {"SANDBOX_AGENT_DIR=" AGENT_DIR,
                         "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", NULL};
  execve(AGENT_LOADER, arguments, environment);
  fail_errno("exec", AGENT_LOADER);
}

static void execute_instead(char *path, int initramfs_fd) {
  char *arguments[] = {path, NULL};
  char *environment[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", NULL};
  if (initramfs_fd >= 0) syscall(SYS_execveat, initramfs_fd, "", arguments, environment, AT_EMPTY_PATH);
  else execve(path, arguments, environment);
  fail_errno("exec", path);
}

int main(void) {
  umask(022);
  mount_or_fail("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
  if (read_text("/proc/cmdline", command_line, sizeof command_line) < 0) fail_errno("command line", "/proc/cmdline");
  debugging = parameter("sandbox.debug") != NULL;
  mark("init started");
  mount_or_fail("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
  mount_or_fail("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, "mode=0755");
  mark("kernel file systems mounted");
  load_modules(NULL);
  char *nonce = parameter("sandbox.probe");
  if (nonce) show_life(nonce);
  assemble_root();

  char *instead = parameter("sandbox.init");
  int instead_fd = instead ? open(instead, O_PATH | O_CLOEXEC) : -1;
  switch_root();
  if (instead) execute_instead(instead, instead_fd);
  execute_agent();
  return 1;
}
