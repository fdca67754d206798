// Debian packages for the guest's kernel: found and downloaded with apt, unpacked, never installed on the host.
import { chmod, mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Architecture } from '@sandboxd/proto';
import { BuilderError } from '../errors.ts';
import { createWorkDirectory, syncPath } from '../lib/atomic.ts';
import { mirrorEnvironment, runCommand } from '../lib/command.ts';
import { normalizeModuleName } from './modules.ts';
import { decompressXz } from './vmlinux.ts';

/** The package that always depends on the newest kernel of the release. */
const metaPackage = ({ name }: Architecture): string => `linux-image-cloud-${name}`;

export type KernelPackage = { name: string; version: string };

/** The version that apt would install now. Refreshes apt's lists once when the package is unknown. */
export async function findKernelPackage(
  architecture: Architecture,
  note: (text: string) => void,
): Promise<KernelPackage> {
  const metaName = metaPackage(architecture);
  const found = await askApt(metaName);
  if (found !== undefined) return found;
  note('apt does not know the package yet: apt-get update');
  await runCommand('apt-get', ['-q', 'update'], { env: mirrorEnvironment(), onLine: note });
  const foundLater = await askApt(metaName);
  if (foundLater !== undefined) return foundLater;
  const message = `apt offers no ${metaName}; add Debian's main component to the apt sources, or set KERNEL= and INITRD=`;
  throw new BuilderError('kernel_package_missing', message);
}

async function askApt(metaName: string): Promise<KernelPackage | undefined> {
  try {
    const args = ['--no-all-versions', 'show', metaName];
    return parseKernelPackage(await runCommand('apt-cache', args, { env: mirrorEnvironment() }));
  } catch (error) {
    if (error instanceof BuilderError && error.code === 'command_failed') return undefined;
    throw error;
  }
}

/** `apt-cache show` of the meta package → the image package that it depends on in one exact version. */
export function parseKernelPackage(text: string): KernelPackage | undefined {
  const match = /^Depends:.*?(linux-image-[a-z0-9.+-]+) \(= ([^)]+)\)/m.exec(text);
  return match?.[1] !== undefined && match[2] !== undefined
    ? { name: match[1], version: match[2] }
    : undefined;
}

/**
 * Downloads a package into `directory` unless it is there already, in any version where `version` is absent. Returns
 * the path of the .deb file.
 */
export async function ensureDeb(
  { name, version }: { readonly name: string; readonly version?: string },
  directory: string,
  onLine: (line: string) => void,
): Promise<string> {
  const prefix = version === undefined ? `${name}_` : `${name}_${version.replaceAll(':', '%3a')}.deb`;
  const present = (await readdir(directory).catch(() => [])).find((file) => file.startsWith(prefix));
  if (present !== undefined) return join(directory, present);
  const workDirectory = await createWorkDirectory(directory);
  try {
    await chmod(workDirectory, 0o755);
    const sandbox = ['-o', 'APT::Sandbox::User=root']; // apt's own user may lack access to this directory
    const spec = version === undefined ? name : `${name}=${version}`;
    await runCommand('apt-get', ['-q', ...sandbox, 'download', spec], {
      cwd: workDirectory,
      env: mirrorEnvironment(),
      onLine,
    });
    const deb = (await readdir(workDirectory)).find((file) => file.endsWith('.deb'));
    if (deb === undefined)
      throw new BuilderError('kernel_package_missing', `apt-get download gave no file for ${name}`);
    await syncPath(join(workDirectory, deb));
    // apt's file name includes the architecture.
    const target = join(directory, version === undefined ? deb : prefix);
    await rename(join(workDirectory, deb), target);
    return target;
  } finally {
    await rm(workDirectory, { recursive: true, force: true });
  }
}

export type UnpackedKernel = {
  /** Directory of its modules, named after the release. */
  modulesDir: string;
  /** Content of the compressed kernel image. */
  image: Buffer;
  /** Whether the module is built into the kernel. */
  isBuiltin: (module: string) => boolean;
  /** Content of a module file; throws `module_missing`. */
  readModule: (module: string) => Promise<Buffer>;
};

export async function unpackKernelDeb(deb: string, directory: string): Promise<UnpackedKernel> {
  await mkdir(directory, { recursive: true });
  await runCommand('dpkg-deb', ['-x', deb, directory]);
  const image = (await readdir(join(directory, 'boot'))).find((name) => name.startsWith('vmlinuz-'));
  const modulesParent = (await findModulesParent(directory)) ?? '';
  const release = (await readdir(modulesParent).catch(() => []))[0];
  if (image === undefined || release === undefined) {
    throw new BuilderError('kernel_format', `${deb} holds no kernel image or no modules`);
  }
  const modules = join(modulesParent, release);
  const files = (await readdir(modules, { recursive: true })).filter((path) => /\.ko(\.xz)?$/.test(path));
  const pathOf = new Map(
    files.map((path) => [normalizeModuleName(path.replace(/^.*\//, '')), join(modules, path)]),
  );
  const builtinText = await readFile(join(modules, 'modules.builtin'), 'utf8');
  const builtin = new Set(
    builtinText.split('\n').map((path) => normalizeModuleName(path.replace(/^.*\//, ''))),
  );
  return {
    modulesDir: modules,
    image: await readFile(join(directory, 'boot', image)),
    isBuiltin: (module) => builtin.has(module),
    readModule: async (module) => {
      const path = pathOf.get(module);
      if (path === undefined)
        throw new BuilderError('module_missing', `kernel ${release} has no module ${module}`);
      const content = await readFile(path);
      return path.endsWith('.xz') ? decompressXz(content) : content;
    },
  };
}

async function findModulesParent(directory: string): Promise<string | undefined> {
  for (const path of ['lib/modules', 'usr/lib/modules']) {
    if ((await readdir(join(directory, path)).catch(() => [])).length > 0) return join(directory, path);
  }
  return undefined;
}
