// Starts a VM from a saved one.
import { rm, stat } from 'node:fs/promises';
import { AppError } from '../../lib/errors.ts';
import type { RestoreOptions, SavedVm, Vm, VmSpec } from '../engine.ts';
import { versionKey } from '../mapping.ts';
import { isDirect } from '../start.ts';
import type { CloudHypervisorFiles } from './files.ts';
import { dropMemoryRanges, setMappedMemory, setPlainMemory } from './mapped-memory.ts';
import { type MemoryMode, type MemoryModes, requestOf } from './memory-modes.ts';
import { layOutSaved, linkMemory, memoryPathIn, readSaved } from './saved-files.ts';
import { SavedState, setFreeDiskSizes } from './saved-state.ts';
import { keepConsole, startVmm, type VmmSetup } from './start.ts';
import { buildNetConfig, diskId, landlockRules, NET_ID } from './vm-config.ts';

const RESUME_TIMEOUT_MS = 60_000;
const ADD_TIMEOUT_MS = 60_000;
/** Timeout for copying memory at the speed of a slow disk. */
const RESTORE_BASE_MS = 60_000;
const SLOWEST_MIB_PER_S = 50;

export async function restoreVm(options: RestoreOptions, setup: VmmSetup, modes: MemoryModes): Promise<Vm> {
  const { spec, saved, signal, log } = options;
  const timeoutMs = RESTORE_BASE_MS + (spec.memoryMib / SLOWEST_MIB_PER_S) * 1000;
  const { memoryPath: path } = saved;
  const origin = options.ownsMemory && { path, key: versionKey(await stat(path)) };
  return await startVmm(
    options,
    setup,
    origin ? { kind: 'copy-on-write', path, origin } : { kind: 'anonymous' },
    // The VMM opens the memory by a link in its own directory; the file itself must be readable for it.
    [saved.memoryPath],
    options.beforeRun !== undefined,
    (files) => linkMemory(saved, files.startDir),
    async (api, files) => {
      let lacksNet = false;
      await modes.use(async ({ name }) => {
        lacksNet = !(await layOutCopy(
          saved,
          { ...setup, spec, files, isDirect: isDirect(options, setup.jail) },
          name,
        ));
        // A failed attempt may have created the socket.
        await rm(files.vsockPath, { force: true });
        const body = {
          source_url: `file://${files.startDir}`,
          memory_restore_mode: requestOf(name),
          resume: false,
        };
        await api.put('vm.restore', body, { timeoutMs, signal });
      }, log);
      await keepConsole(files);
      await rm(files.startDir, { recursive: true });
      if (spec.net !== undefined && lacksNet)
        await api.put('vm.add-net', buildNetConfig(spec.net), { timeoutMs: ADD_TIMEOUT_MS, signal });
      // A separate request, so that a cancelled fork never runs.
      signal?.throwIfAborted();
      await options.beforeRun?.();
      // From here on a cancellation would lose a guest that has run.
      const either = options.beforeRun === undefined ? { signal } : {};
      await api.put('vm.resume', undefined, { timeoutMs: RESUME_TIMEOUT_MS, ...either });
    },
  );
}

type LayOutOptions = PatchOptions & Pick<VmmSetup, 'knowsState'>;

/**
 * Writes the files that the VMM reads for a restore; the memory is linked. Returns whether the saved guest has a
 * network device.
 */
export async function layOutCopy(
  saved: SavedVm,
  options: LayOutOptions,
  mode: MemoryMode['name'],
): Promise<boolean> {
  const { startDir } = options.files;
  const { config, state } = await readSaved(saved);
  const patched = JSON.parse(config) as Record<string, unknown>;
  patchConfig(patched, options);
  const isMapped = mode === 'MappedFile';
  if (isMapped) setMappedMemory(patched, memoryPathIn(startDir));
  else setPlainMemory(patched);
  await layOutSaved(startDir, patched, await patchState(state, options, isMapped));
  return hasNet(patched);
}

async function patchState(text: string, options: LayOutOptions, isMapped: boolean): Promise<string> {
  if (!options.knowsState) return text;
  const state = new SavedState(text);
  const disks = await Promise.all(options.spec.disks.map(({ path }) => stat(path)));
  setFreeDiskSizes(
    state,
    disks.map(({ size }) => size),
  );
  if (isMapped) dropMemoryRanges(state);
  return state.toString();
}

type Json = Record<string, unknown>;

type PatchOptions = {
  readonly spec: VmSpec;
  readonly files: CloudHypervisorFiles;
  readonly hasLandlock: boolean;
  readonly isDirect: boolean;
};

/**
 * Changes paths in place and leaves everything else, including unknown keys, as the VMM wrote it. AppError internal if
 * the saved VM does not match the spec.
 */
export function patchConfig(config: Json, { spec, files, hasLandlock, isDirect }: PatchOptions): void {
  const disks = asList(config.disks);
  if (disks.length !== spec.disks.length) throw misfit(`${disks.length} disks, not ${spec.disks.length}`);
  for (const [index, { path, isReadOnly }] of spec.disks.entries()) {
    const disk = disks.find(({ id }) => id === diskId(index));
    if (disk === undefined) throw misfit(`no ${diskId(index)}`);
    disk.path = path;
    disk.direct = isDirect && !isReadOnly;
  }
  asObject(config.vsock, 'vsock').socket = files.vsockPath;
  asObject(config.serial, 'serial').file = files.earlyConsolePath;
  const payload = asObject(config.payload, 'payload');
  // The VMM opens the initramfs again although it is not used. The kernel path must not exist, so that a guest reset
  // cannot boot.
  payload.initramfs = spec.initramfsPath;
  payload.kernel = files.startKernelPath;
  patchNet(asList(config.net), spec);
  config.landlock_enable = hasLandlock;
  if (hasLandlock) config.landlock_rules = landlockRules(files, spec);
  else delete config.landlock_rules;
}

/** Whether the saved guest has a network device. */
export function hasNet(config: Json): boolean {
  return asList(config.net).length > 0;
}

/** A device that the saved guest does not have is added to the fork later. */
function patchNet(saved: readonly Json[], { net }: VmSpec): void {
  for (const device of saved) {
    if (device.id !== NET_ID) throw misfit(`a network device ${JSON.stringify(device.id)}`);
    if (net === undefined) throw misfit('a network device');
    // The guest keeps the saved address until its agent sets a new one.
    device.tap = net.tap;
    // The fork's tap has an address of its own, and only a privileged VMM could change it.
    delete device.host_mac;
  }
}

function asList(value: unknown): Json[] {
  return Array.isArray(value) ? (value as Json[]) : [];
}

function asObject(value: unknown, name: string): Json {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Json;
  throw misfit(`no ${name}`);
}

function misfit(what: string): AppError {
  return new AppError('internal', `the saved VM does not fit this sandbox: it has ${what}`, {
    stage: 'restore',
  });
}
