// Kernel modules from the agent's image: mounted where programs look for them, so that the kernel can load a missing
// one on demand.
import { existsSync, mkdirSync } from 'node:fs';
import { AGENT_DIR } from '@sandboxd/proto';
import { addon, NO_DIRECTORY } from '../native/addon.ts';
import { attempt } from './attempt.ts';

/** That of the agent's image. */
const AGENT_DISK = '/dev/vdc';
/** The kernel's default module loader. */
const USUAL_LOADER = '/sbin/modprobe';
const LOADER = `${AGENT_DIR}/modprobe`;

const MS_RDONLY = 1;
const MS_NOSUID = 2;
const MS_NODEV = 4;
const MS_NOATIME = 1024;
const MS_BIND = 4096;
const MNT_DETACH = 2;

/** Directory where the modules are mounted; undefined when they are not mounted. */
export function findModules(): string | undefined {
  const mounts = addon.readText(NO_DIRECTORY, '/proc/self/mounts').split('\n');
  return mounts.find((line) => line.startsWith(`${AGENT_DISK} `))?.split(' ')[1];
}

/** Mounts the modules in a root where nothing runs yet, unless that root already has modules for this exact kernel. */
export function mountModules(): void {
  if (!existsSync(AGENT_DISK)) return;
  attempt('modules', () => {
    const release = addon.readText(NO_DIRECTORY, '/proc/sys/kernel/osrelease').trim();
    const target = `/lib/modules/${release}`;
    if (existsSync(`${target}/modules.dep`)) return;
    // The root has these files too. A separate mount makes the directory a different file system for programs that
    // walk the tree.
    addon.mount(AGENT_DISK, AGENT_DIR, 'ext4', MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOATIME, 'noload');
    try {
      const source = `${AGENT_DIR}${AGENT_DIR}/modules/${release}`;
      if (!existsSync(source)) return; // the operator's own kernel
      mkdirSync(target, { recursive: true });
      addon.mount(source, target, '', MS_BIND, '');
    } finally {
      addon.unmount(AGENT_DIR, MNT_DETACH);
    }
  });
  if (!existsSync(USUAL_LOADER) && existsSync(LOADER))
    addon.writeText(NO_DIRECTORY, '/proc/sys/kernel/modprobe', LOADER);
}
