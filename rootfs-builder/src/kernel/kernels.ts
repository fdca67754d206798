// The guest kernels of a data directory: prepares one from Debian's package, and finds the one to boot.
import { copyFile, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ARCHITECTURE, type Architecture } from '@sandboxd/proto';
import { z } from 'zod';
import { BuilderError } from '../errors.ts';
import {
  createWorkDirectory,
  publishDirectory,
  retireDirectory,
  sweepWorkDirectories,
  syncPath,
  writeFileAtomically,
} from '../lib/atomic.ts';
import { digestFile, digestValue, shortDigest } from '../lib/digest.ts';
import { CURRENT_FILE, kernelPackagesDirectory, kernelsDirectory } from '../lib/layout.ts';
import { type Progress, runStep, silentProgress } from '../lib/progress.ts';
import { buildInitramfs } from './initramfs.ts';
import { GUEST_MODULES } from './modules.ts';
import { LOADER_PACKAGE, makeModulesArchive } from './modules-archive.ts';
import { ensureDeb, findKernelPackage, type KernelPackage, unpackKernelDeb } from './package.ts';
import { extractVmlinux } from './vmlinux.ts';

/** Increase when the same package, modules and init would produce other files. */
export const KERNEL_FORMAT = 2;
/** File name in a kernel's directory. */
const MODULES_FILE = 'modules.tar.zst';

export const kernelManifestSchema = z.object({
  /** A kernel of format 1 is bootable, but has no modules for its guests. */
  formatVersion: z.literal([1, KERNEL_FORMAT]),
  digest: z.string(),
  package: z.string(),
  version: z.string(),
  /** Identifies the module list and init, so that a change of either is detected without apt. */
  initDigest: z.string(),
  vmlinuxSizeBytes: z.number(),
  initramfsSizeBytes: z.number(),
  modulesSizeBytes: z.number().optional(),
  createdAt: z.string(),
});

type KernelManifest = z.infer<typeof kernelManifestSchema>;

export type ResolvedKernel = {
  vmlinuxPath: string;
  initramfsPath: string;
  /** Archive of the modules for the agent's image; absent: guests have no modules. */
  modulesPath?: string;
  /** Identifies the pair; a snapshot needs exactly this pair. */
  digest: string;
  /** Debian version, or "custom" for files given by KERNEL= and INITRD=. */
  version: string;
};

export type EnsureKernelOptions = {
  dataDir: string;
  /** The compiled rootfs-builder/initramfs/init.c, a static executable. */
  initPath: string;
  /** Of the guests; absent: this host's. For another one, apt must be set to it. */
  architecture?: Architecture;
  /** Query apt for a newer kernel even when one is prepared. */
  refresh?: boolean;
  progress?: Progress;
};

/** Prepares kernel and initramfs unless the current ones match. Queries apt only without any, or on `refresh`. */
export async function ensureKernel(
  options: EnsureKernelOptions,
): Promise<ResolvedKernel & { isFresh: boolean }> {
  const { dataDir, architecture = ARCHITECTURE, progress = silentProgress } = options;
  const init = await digestInit(options.initPath);
  const initDigest = digestValue({ format: KERNEL_FORMAT, modules: GUEST_MODULES, init });
  const current = await readCurrent(dataDir);
  if (current?.initDigest === initDigest && options.refresh !== true) {
    return { ...toResolved(dataDir, current), isFresh: false };
  }
  const packaged: KernelPackage =
    current !== undefined && options.refresh !== true
      ? { name: current.package, version: current.version } // a changed init does not require a newer kernel
      : await runStep(progress, 'kernel version', (note) => findKernelPackage(architecture, note));
  const digest = digestValue({ ...packaged, initDigest });
  const isFresh = (await readManifest(dataDir, digest)) === undefined;
  if (isFresh) await buildKernel(packaged, digest, initDigest, options);
  await writeFileAtomically(join(kernelsDirectory(dataDir), CURRENT_FILE), `${digest}\n`);
  return { ...(await resolvePrepared(dataDir)), isFresh };
}

/** Copies a kernel that was prepared elsewhere, in the layout of `kernels/<digest>`, unless one exists here. */
export async function seedKernel(dataDir: string, from: string): Promise<void> {
  if ((await readCurrent(dataDir)) !== undefined) return;
  const manifest = kernelManifestSchema.parse(
    JSON.parse(await readFile(join(from, 'manifest.json'), 'utf8')),
  );
  const { digest } = manifest;
  const parent = kernelsDirectory(dataDir);
  const target = kernelDirectory(dataDir, digest);
  if ((await readManifest(dataDir, digest)) === undefined) {
    const workDirectory = await createWorkDirectory(parent);
    try {
      for (const name of [...sizesOf(manifest).keys(), 'manifest.json']) {
        await copyFile(join(from, name), join(workDirectory, name));
        await syncPath(join(workDirectory, name));
      }
      await retireDirectory(target); // an existing one is damaged
      await publishDirectory(workDirectory, target);
    } finally {
      await rm(workDirectory, { recursive: true, force: true });
    }
  }
  await writeFileAtomically(join(parent, CURRENT_FILE), `${digest}\n`);
}

/**
 * The kernel to boot. `KERNEL` and `INITRD` of `environment` replace either file.
 * Throws `kernel_not_prepared`.
 */
export async function resolveKernel(
  dataDir: string,
  environment: NodeJS.ProcessEnv = process.env,
): Promise<ResolvedKernel> {
  const { KERNEL: kernelPath = '', INITRD: initramfsPath = '' } = environment;
  if (kernelPath === '' && initramfsPath === '') return resolvePrepared(dataDir);
  const prepared = kernelPath === '' || initramfsPath === '' ? await resolvePrepared(dataDir) : undefined;
  const files = {
    vmlinuxPath: kernelPath || (prepared?.vmlinuxPath ?? ''),
    initramfsPath: initramfsPath || (prepared?.initramfsPath ?? ''),
  };
  const digests = await Promise.all([
    digestGiven('KERNEL', files.vmlinuxPath),
    digestGiven('INITRD', files.initramfsPath),
  ]);
  return { ...files, digest: digestValue(digests), version: 'custom' };
}

async function resolvePrepared(dataDir: string): Promise<ResolvedKernel> {
  const current = await readCurrent(dataDir);
  if (current !== undefined) return toResolved(dataDir, current);
  const message = `no kernel is prepared in ${dataDir}; run: sandboxd profiles bake (or give --kernel and --initrd)`;
  throw new BuilderError('kernel_not_prepared', message);
}

async function buildKernel(
  packaged: KernelPackage,
  digest: string,
  initDigest: string,
  options: EnsureKernelOptions,
): Promise<void> {
  const { dataDir, progress = silentProgress } = options;
  const parent = kernelsDirectory(dataDir);
  await sweepWorkDirectories(parent);
  await sweepWorkDirectories(kernelPackagesDirectory(dataDir));
  const deb = await runStep(progress, `kernel package ${packaged.name} ${packaged.version}`, (note) =>
    ensureDeb(packaged, kernelPackagesDirectory(dataDir), note),
  );
  const loaderDeb = await runStep(progress, `package ${LOADER_PACKAGE}`, (note) =>
    ensureDeb({ name: LOADER_PACKAGE }, kernelPackagesDirectory(dataDir), note),
  );
  const workDirectory = await createWorkDirectory(parent);
  try {
    await runStep(progress, 'vmlinux, initramfs and modules', async () => {
      const unpacked = join(workDirectory, 'unpacked');
      const kernel = await unpackKernelDeb(deb, unpacked);
      const init = await readFile(options.initPath);
      const files = {
        vmlinux: extractVmlinux(kernel.image, options.architecture ?? ARCHITECTURE),
        initramfs: await buildInitramfs(init, kernel),
      };
      const archivePath = join(workDirectory, MODULES_FILE);
      const staging = join(unpacked, 'modules-archive');
      const { modulesDir } = kernel;
      await makeModulesArchive({ modulesDir, loaderDeb, workDirectory: staging, archivePath });
      await syncPath(archivePath);
      await rm(unpacked, { recursive: true });
      const manifest: KernelManifest = {
        formatVersion: KERNEL_FORMAT,
        digest,
        package: packaged.name,
        version: packaged.version,
        initDigest,
        vmlinuxSizeBytes: files.vmlinux.length,
        initramfsSizeBytes: files.initramfs.length,
        modulesSizeBytes: (await stat(archivePath)).size,
        createdAt: new Date().toISOString(),
      };
      const contents = { ...files, 'manifest.json': `${JSON.stringify(manifest, null, 2)}\n` };
      for (const [name, content] of Object.entries(contents)) {
        await writeFile(join(workDirectory, name), content);
        await syncPath(join(workDirectory, name));
      }
      const target = kernelDirectory(dataDir, digest);
      await retireDirectory(target); // an existing one is damaged
      await publishDirectory(workDirectory, target);
    });
  } finally {
    await rm(workDirectory, { recursive: true, force: true });
  }
}

async function readCurrent(dataDir: string): Promise<KernelManifest | undefined> {
  const digest = await readFile(join(kernelsDirectory(dataDir), CURRENT_FILE), 'utf8').catch(() => '');
  return digest === '' ? undefined : readManifest(dataDir, digest.trim());
}

/** Undefined when the kernel is missing or its files do not have the recorded sizes; it is prepared again then. */
async function readManifest(dataDir: string, digest: string): Promise<KernelManifest | undefined> {
  const directory = kernelDirectory(dataDir, digest);
  try {
    const manifest = kernelManifestSchema.parse(
      JSON.parse(await readFile(join(directory, 'manifest.json'), 'utf8')),
    );
    for (const [name, sizeBytes] of sizesOf(manifest))
      if ((await stat(join(directory, name))).size !== sizeBytes) return undefined;
    return manifest;
  } catch {
    return undefined;
  }
}

/** Size of each file, by name. */
function sizesOf(manifest: KernelManifest): Map<string, number> {
  const { vmlinuxSizeBytes, initramfsSizeBytes, modulesSizeBytes } = manifest;
  return new Map([
    ['vmlinux', vmlinuxSizeBytes],
    ['initramfs', initramfsSizeBytes],
    ...(modulesSizeBytes === undefined ? [] : [[MODULES_FILE, modulesSizeBytes] as const]),
  ]);
}

function kernelDirectory(dataDir: string, digest: string): string {
  return join(kernelsDirectory(dataDir), shortDigest(digest));
}

function toResolved(dataDir: string, { digest, version, modulesSizeBytes }: KernelManifest): ResolvedKernel {
  const directory = kernelDirectory(dataDir, digest);
  return {
    vmlinuxPath: join(directory, 'vmlinux'),
    initramfsPath: join(directory, 'initramfs'),
    ...(modulesSizeBytes !== undefined && { modulesPath: join(directory, MODULES_FILE) }),
    digest,
    version,
  };
}

/** Throws BuilderError agent_missing when the file is missing. */
export async function digestInit(path: string): Promise<string> {
  return digestFile(path).catch((cause) => {
    const message = `no init of the initramfs at ${path}; it comes with sandboxd, beside its executable: install it again, or build it (make build)`;
    throw new BuilderError('agent_missing', message, { cause });
  });
}

async function digestGiven(variable: string, path: string): Promise<string> {
  try {
    return await digestFile(path);
  } catch (cause) {
    throw new BuilderError(
      'kernel_not_prepared',
      `${variable}=${path} cannot be read (in ${dirname(path)})`,
      { cause },
    );
  }
}
