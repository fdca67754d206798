// Turns an unpacked package tree into a guest's root: removes files, adds neutral settings, recipe files and the agent.
import { chmod, cp, mkdir, readdir, readlink, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { BuilderError } from '../errors.ts';
import type { RecipeFile } from '../recipe/recipe.ts';

/** The agent's directory in every guest. */
export const GUEST_AGENT_DIRECTORY = '/.sandbox';

/** The kernel's own limit. */
const MAX_LINKS = 40;

const MOUNT_POINTS: [path: string, mode: number][] = [
  ['/dev', 0o755],
  ['/proc', 0o555],
  ['/run', 0o755],
  ['/sys', 0o555],
  ['/tmp', 0o1777],
];

/** Directories whose content is removed. */
const EMPTIED_DIRECTORIES = ['/var/cache/apt', '/var/lib/apt/lists', '/var/log', '/run', '/tmp'];
/** mmdebstrap's copy of the host's apt settings, and files that only package scripts need. */
const REMOVED_FILES = [
  '/etc/apt/apt.conf.d/99mmdebstrap',
  '/etc/apt/sources.list.d/0000sources.list',
  '/var/cache/debconf/config.dat-old',
  '/var/cache/debconf/templates.dat-old',
  '/var/lib/dpkg/status-old',
  '/var/lib/dpkg/diversions-old',
  '/etc/resolv.conf', // may be a link
];

export async function trimTree(root: string): Promise<void> {
  for (const path of EMPTIED_DIRECTORIES) {
    for (const name of await readdir(join(root, path)).catch(() => [])) {
      await rm(join(root, path, name), { recursive: true, force: true });
    }
  }
  for (const path of REMOVED_FILES) await rm(join(root, path), { force: true });
  for (const [path, mode] of MOUNT_POINTS) {
    await mkdir(join(root, path), { recursive: true });
    await chmod(join(root, path), mode);
  }
}

/** Initial settings of every guest. The agent sets host name, machine id and name servers. */
export function neutralSettings(suite: string): RecipeFile[] {
  return [
    { path: '/etc/hostname', mode: '0644', content: 'sandbox\n' },
    {
      path: '/etc/hosts',
      mode: '0644',
      content: '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n',
    },
    { path: '/etc/resolv.conf', mode: '0644', content: '# written when the sandbox has a network\n' },
    { path: '/etc/machine-id', mode: '0444', content: '' },
    { path: '/etc/apt/sources.list', mode: '0644', content: publicSources(suite) },
  ];
}

/** Debian's public mirrors: the host's own mirrors may be private, or contain a password. */
function publicSources(suite: string): string {
  return [
    `deb http://deb.debian.org/debian ${suite} main`,
    `deb http://deb.debian.org/debian ${suite}-updates main`,
    `deb http://deb.debian.org/debian-security ${suite}-security main`,
    '',
  ].join('\n');
}

export async function writeGuestFiles(root: string, files: RecipeFile[]): Promise<void> {
  for (const file of files) {
    const path = await prepareTarget(root, file.path);
    await writeFile(path, file.content);
    await chmod(path, Number.parseInt(file.mode, 8));
  }
}

export async function copyExecutable(root: string, source: string, guestPath: string): Promise<void> {
  const path = await prepareTarget(root, guestPath);
  await cp(source, path, { dereference: true });
  await chmod(path, 0o755);
}

/** Copies dist/agent to /.sandbox. Links are resolved, because the guest has only this directory. */
export async function copyAgent(root: string, agentDir: string): Promise<void> {
  const target = join(root, GUEST_AGENT_DIRECTORY);
  await rm(target, { recursive: true, force: true });
  await cp(agentDir, target, { recursive: true, dereference: true });
  await chmod(target, 0o755);
}

/** The host path of a guest path, after creating its parents and removing an old file. */
async function prepareTarget(root: string, guestPath: string): Promise<string> {
  const path = join(await ensureGuestDirectory(root, dirname(guestPath)), basename(guestPath));
  await rm(path, { force: true });
  return path;
}

/**
 * Creates a directory of the guest. Resolves links as the guest would: absolute links start at its root, not the
 * host's.
 */
export async function ensureGuestDirectory(root: string, guestPath: string): Promise<string> {
  let guest = '/';
  let links = 0;
  const rest = guestPath.split('/');
  for (let part = rest.shift(); part !== undefined; part = rest.shift()) {
    const next = resolve(guest, part);
    const target = await readlink(join(root, next)).catch(() => undefined);
    if (target === undefined) {
      guest = next;
      await mkdir(join(root, guest), { recursive: true });
      continue;
    }
    links += 1;
    if (links > MAX_LINKS)
      throw new BuilderError('recipe_invalid', `${guestPath}: too many links in the tree`);
    if (target.startsWith('/')) guest = '/';
    rest.unshift(...target.split('/'));
  }
  return join(root, guest);
}
