// The agent's own image with the kernel's modules, the top layer of every root. It contains only /.sandbox.
import { access, chmod, link, mkdir, readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { BuilderError, hasErrno } from '../errors.ts';
import type { ResolvedKernel } from '../kernel/kernels.ts';
import { createWorkDirectory, sweepWorkDirectories, syncPath } from '../lib/atomic.ts';
import { type CommandOptions, runCommand } from '../lib/command.ts';
import { digestValue, shortDigest } from '../lib/digest.ts';
import { agentsDirectory } from '../lib/layout.ts';
import { makeRootImage } from './ext4.ts';
import { copyAgent, GUEST_AGENT_DIRECTORY } from './guest-files.ts';

/** Increase when the same agent would produce another image. */
const AGENT_IMAGE_FORMAT = 2;
const SUFFIX = '.ext4';
const MODE = 0o644;
/** A daemon of another version on the same images, which has no sandbox yet, links its image some time after this. */
const UNUSED_MS = 3_600_000;

export type AgentImage = { readonly path: string; readonly digest: string };

type MakeOptions = Pick<CommandOptions, 'signal' | 'onStart'>;

export type AgentImageOptions = MakeOptions & { readonly unusedMs?: number };

/**
 * The image of the agent in `agentDir` with the kernel's modules, if it has any. Built unless an image of exactly these
 * files exists. Removes other images that no sandbox uses (each user holds a hard link) and that none of these calls
 * has returned for `unusedMs`. Throws `agent_missing`; the signal's reason, with nothing left of an image.
 */
export async function ensureAgentImage(
  dataDir: string,
  agentDir: string,
  kernel: Pick<ResolvedKernel, 'modulesPath' | 'digest'>,
  { unusedMs = UNUSED_MS, ...options }: AgentImageOptions = {},
): Promise<AgentImage> {
  const digest = await fingerprint(agentDir, kernel);
  const parent = agentsDirectory(dataDir);
  const path = join(parent, `${shortDigest(digest)}${SUFFIX}`);
  await sweepWorkDirectories(parent);
  if (await isMissing(path))
    await makeImage({ agentDir, modulesPath: kernel.modulesPath, parent, path }, options);
  // Changes nothing but the time of the inode's last change, which says when it was used. So do a new and a lost link.
  await chmod(path, MODE);
  await removeUnused(dataDir, path, unusedMs);
  return { path, digest };
}

/** Removes nothing where uses are not visible: across file systems. */
async function removeUnused(dataDir: string, path: string, unusedMs: number): Promise<void> {
  const parent = dirname(path);
  const [outer, inner] = await Promise.all([stat(dataDir), stat(parent)]);
  if (outer.dev !== inner.dev) return;
  for (const name of await readdir(parent)) {
    const other = join(parent, name);
    if (!name.endsWith(SUFFIX) || other === path) continue;
    const { nlink, ctimeMs } = (await stat(other).catch(() => undefined)) ?? {};
    if (nlink === 1 && ctimeMs !== undefined && Date.now() - ctimeMs >= unusedMs)
      await rm(other, { force: true });
  }
}

type ImageInput = {
  readonly agentDir: string;
  readonly modulesPath: string | undefined;
  readonly parent: string;
  readonly path: string;
};

async function makeImage(
  { agentDir, modulesPath, parent, path }: ImageInput,
  options: MakeOptions,
): Promise<void> {
  await mkdir(parent, { recursive: true });
  const workDirectory = await createWorkDirectory(parent);
  try {
    const root = join(workDirectory, 'root');
    const image = join(workDirectory, 'image');
    await mkdir(root, { mode: 0o755 });
    await copyAgent(root, agentDir);
    options.signal?.throwIfAborted();
    if (modulesPath !== undefined) {
      const target = join(root, GUEST_AGENT_DIRECTORY);
      await runCommand('tar', ['--zstd', '--no-same-owner', '-xf', modulesPath, '-C', target], options);
    }
    await makeRootImage(root, image, options);
    await syncPath(image);
    options.signal?.throwIfAborted();
    // Guests may run from one that another daemon has made meanwhile, and be saved with its blocks in their memory.
    await link(image, path).catch((error) => {
      if (!hasErrno(error, 'EEXIST')) throw error;
    });
    await syncPath(parent);
  } finally {
    await rm(workDirectory, { recursive: true, force: true });
  }
}

/** By name, size and time: reading 120 MB would take the largest part of each start. */
async function fingerprint(
  agentDir: string,
  { modulesPath, digest }: Pick<ResolvedKernel, 'modulesPath' | 'digest'>,
): Promise<string> {
  const facts: unknown[] = [];
  try {
    await access(join(agentDir, 'sandbox-agent'));
    for (const name of (await readdir(agentDir, { recursive: true })).sort()) {
      const { size, mtimeMs, mode } = await stat(join(agentDir, name));
      facts.push([name, size, mtimeMs, mode]);
    }
  } catch (cause) {
    throw new BuilderError(
      'agent_missing',
      `no guest agent in ${agentDir}; it comes with sandboxd, beside its executable`,
      {
        cause,
      },
    );
  }
  return digestValue({
    format: AGENT_IMAGE_FORMAT,
    facts,
    ...(modulesPath !== undefined && { kernel: digest }),
  });
}

async function isMissing(path: string): Promise<boolean> {
  return access(path).then(
    () => false,
    () => true,
  );
}
