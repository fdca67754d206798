// Resource accounting: what existing and requested sandboxes use of the host and of their owners' limits.
import type { Engine } from '../engines/engine.ts';
import type { Holding, RequestedResources } from '../keys/index.ts';
import { allocatedBytes } from '../lib/extents.ts';
import type { StoredBinding } from '../secrets/index.ts';
import { type Admission, type AdmissionOptions, type Need, VMM_OVERHEAD_MIB } from './admission.ts';
import type { Sandbox } from './sandbox.ts';
import type { SavedGuest } from './saved/saved-guest.ts';
import { toRequestedSecrets } from './secrets.ts';
import type { ResolvedSandboxOptions } from './types.ts';

/** What a guest writes to its layer before its first use. */
const NEW_LAYER_BYTES = 16 * 2 ** 20;

/** In one walk, for each create. `leaving`: deleted sandboxes whose VMMs may still run. */
export function countInUse(
  sandboxes: Iterable<Sandbox>,
  leaving: Iterable<Sandbox>,
  {
    sharedBytes = 0,
    bootedOverheadMib = VMM_OVERHEAD_MIB,
  }: Pick<Engine, 'sharedBytes' | 'bootedOverheadMib'>,
): ReturnType<AdmissionOptions['inUse']> {
  const memoryMib: number[] = [];
  let [awake, booted] = [0, 0];
  const countVm = ({ record, running, isReplaced }: Sandbox): void => {
    if (!isReplaced && (running === undefined || running.vm.exit !== undefined)) return;
    memoryMib.push(record.options.memoryMib);
    if (running?.vm.identity.memory.kind !== 'copy-on-write') booted++;
  };
  for (const sandbox of sandboxes) {
    if (sandbox.record.paused === undefined || sandbox.isReplaced) awake++;
    countVm(sandbox);
  }
  for (const sandbox of leaving) countVm(sandbox);
  const bootedMib = booted * (bootedOverheadMib - VMM_OVERHEAD_MIB);
  return { sandboxes: awake, memoryMib, sharedBytes, bootedMib };
}

export function toHolding({ record, isReplaced }: Pick<Sandbox, 'record' | 'isReplaced'>): Holding {
  const { options, owner, paused } = record;
  const { vcpus, memoryMib, diskBytes, publish, idle } = options;
  const savesItself = idle?.action === 'snapshot';
  const isPaused = paused !== undefined && !isReplaced;
  return { owner, vcpus, memoryMib, diskBytes, publish, savesItself, isPaused };
}

/** `count`: of a fork; absent for a create. A copy's inherited service was checked when the original was created. */
export function toRequestedResources(
  options: ResolvedSandboxOptions,
  count?: number,
  secrets: readonly StoredBinding[] = [],
): RequestedResources {
  const { vcpus, memoryMib, diskBytes, timeoutS, idle, rootfs, service, network, publish = [] } = options;
  return {
    count: count ?? 1,
    areForks: count !== undefined,
    vcpus,
    memoryMib,
    diskBytes,
    timeoutS,
    idleTimeoutS: idle?.timeoutS ?? 0,
    savesItself: idle?.action === 'snapshot',
    // A user's sandbox never has the agent image as its root file system.
    rootfs: { kind: rootfs.kind === 'profile' ? 'profile' : 'image', name: rootfs.name },
    startsService: service !== undefined,
    ...network,
    ...(publish.length > 0 && { publish }),
    ...(secrets.length > 0 && { secrets: toRequestedSecrets(secrets) }),
  };
}

/** What a new sandbox needs from the host. */
export function toCreateNeed(options: ResolvedSandboxOptions, reservesDisks: boolean): Need {
  const diskBytes = reservesDisks ? options.diskBytes : NEW_LAYER_BYTES;
  return { memoryMib: [options.memoryMib], areCopies: false, diskBytes };
}

/** What copies of a saved guest need from the host. */
export async function toForkNeed(
  saved: SavedGuest,
  count: number,
  reservesDisks: boolean,
  engine: Pick<Engine, 'neededBytes'>,
): Promise<Need> {
  const { memoryMib, diskBytes: wholeBytes } = saved.manifest.options;
  return {
    memoryMib: new Array<number>(count).fill(memoryMib),
    areCopies: true,
    diskBytes: count * (reservesDisks ? wholeBytes : await allocatedBytes(saved.diskPath)),
    ...(await sharedBy(engine, saved)),
  };
}

/** Memory that all running copies share and that is not allocated yet. */
export async function sharedBy(
  engine: Pick<Engine, 'neededBytes'>,
  { vm }: SavedGuest,
): Promise<Pick<Need, 'shared'>> {
  const bytes = (await engine.neededBytes?.(vm)) ?? 0;
  return bytes > 0 ? { shared: { of: vm.memoryPath, bytes } } : {};
}

/** Reserves the shared memory, for a copy whose own needs are already reserved. AppError exhausted. */
export async function reserveShared(
  admission: Admission,
  engine: Engine,
  saved: SavedGuest,
): Promise<Disposable | undefined> {
  const { shared } = await sharedBy(engine, saved);
  return shared && (await admission.reserve({ memoryMib: [], areCopies: true, diskBytes: 0, shared }));
}
