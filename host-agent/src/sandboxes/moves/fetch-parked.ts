// Writes the files of a sandbox that arrives. Those that were fetched ahead get what differs.
import { mkdir, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { FileContent, StoreManifest } from '../../snapshot-store/index.ts';
import type { SandboxRecord } from '../record.ts';
import { makeSandboxDirs, pinAgent, pinRootfs, type sandboxPaths } from '../resources/files.ts';
import { pausedDir } from '../saved/paused.ts';
import { FIRST_GENERATION, placePaused } from '../saved/place-paused.ts';
import { flush } from '../saved/save.ts';
import type { SharedDeps } from '../stored/shared.ts';
import type { Parked } from './parked.ts';
import type { Prefetched } from './prefetches.ts';

type FetchInput = {
  readonly paths: ReturnType<typeof sandboxPaths>;
  readonly manifest: StoreManifest;
  readonly parked: Parked;
  readonly rootfs: SandboxRecord['options']['rootfs'];
  readonly store: Pick<SharedDeps['store'], 'download'>;
  readonly prefetched: Prefetched | undefined;
};

/** Resolves with the bytes that came from the store, when everything is on disk. The caller removes what is left. */
export async function fetchParked(
  {
    paths,
    manifest,
    parked: { archive, record, memoryDigest: digest },
    rootfs,
    store,
    prefetched,
  }: FetchInput,
  signal: AbortSignal,
): Promise<number> {
  await makeSandboxDirs(paths);
  await pinRootfs(paths.dir, rootfs.rootfsPath);
  if (rootfs.agentPath !== undefined) await pinAgent(paths.dir, rootfs.agentPath);
  const dir = pausedDir(paths.dir);
  const own = join(dir, FIRST_GENERATION);
  await mkdir(own, { recursive: true, mode: 0o700 });
  const { memory, state } = archive.parts;
  const [memoryName, stateName] = [basename(memory.name), basename(state.name)];
  const files = { memory: join(own, memoryName), state: join(own, stateName), disk: paths.layerPath };
  const content = new Map<string, FileContent>();
  if (prefetched !== undefined)
    for (const [part, path] of Object.entries(files)) {
      const has = prefetched.content.get(part);
      if (has === undefined) continue;
      await rename(prefetched.files[part as keyof typeof files], path);
      content.set(part, has);
    }
  const { bytes, written } = await store.download(manifest, files, signal, { content });
  if (record.paused.hasMemory) {
    const { compatibility, needsResync } = archive;
    const known = prefetched?.checksums;
    const checksums = known?.sizeBytes === memory.sizeBytes ? known : undefined;
    await checksums?.update(files.memory, written.get('memory') ?? []);
    const { layerPath } = paths;
    const placed = { dir, layerPath, memoryName, stateName, compatibility, needsResync, checksums };
    await placePaused({ ...placed, digest, signal });
  } else {
    await rm(dir, { recursive: true });
    await flush(paths.layerPath);
    await flush(paths.dir);
  }
  return bytes;
}
