// The modules of the guest's kernel, from the agent's image: where programs look for them, and how the kernel loads what it
// misses by itself.
import { existsSync, mkdirSync } from 'node:fs';
import { AGENT_DIR } from '@sandboxd/proto';
import { addon, NO_DIRECTORY } from '../native/addon.ts';
import { attempt } from './attempt.ts';

/** The agent's image has a disk of its own in every guest but those of earlier daemons. */
const AGENT_DISK = '/dev/vdc';
/** What the kernel calls if nobody says otherwise. */
const USUAL_LOADER = '/sbin/modprobe';
const LOADER = `${AGENT_DIR}/modprobe`;

const MS_RDONLY = 1;
const MS_NOSUID = 2;
const MS_NODEV = 4;
const MS_NOATIME = 1024;
const MS_BIND = 4096;
const MNT_DETACH = 2;

/** Where they are mounted; undefined: nowhere. */
export function findModules(): string | undefined {
  const mounts = addon.readText(NO_DIRECTORY, '/proc/self/mounts').split('\n');
  return mounts.find((line) => line.startsWith(`${AGENT_DISK} `))?.split(' ')[1];
}

/** Mounts them, in a root in which nothing runs yet, unless it has some of this very kernel. */
export function mountModules(): void {
  if (!existsSync(AGENT_DISK)) return;
  attempt('modules', () => {
    const release = addon.readText(NO_DIRECTORY, '/proc/sys/kernel/osrelease').trim();
    const target = `/lib/modules/${release}`;
    if (existsSync(`${target}/modules.dep`)) return;
    // Not from the root, which has these files, too: what is mounted must be another file system to who walks through it.
    addon.mount(AGENT_DISK, AGENT_DIR, 'ext4', MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOATIME, 'noload');
    try {
      const source = `${AGENT_DIR}${AGENT_DIR}/modules/${release}`;
      if (!existsSync(source)) return; // a kernel of the operator's own
      mkdirSync(target, { recursive: true });
      addon.mount(source, target, '', MS_BIND, '');
    } finally {
      addon.unmount(AGENT_DIR, MNT_DETACH);
    }
  });
  if (!existsSync(USUAL_LOADER) && existsSync(LOADER))
    addon.writeText(NO_DIRECTORY, '/proc/sys/kernel/modprobe', LOADER);
}
