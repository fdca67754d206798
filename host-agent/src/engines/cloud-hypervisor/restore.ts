// Starts a VM from a saved one.
import { rm, stat } from 'node:fs/promises';
import type { RestoreOptions, SavedVm, Vm } from '../engine.ts';
import { versionKey } from '../mapped-copy.ts';
import { isDirect } from '../start.ts';
import { dropMemoryRanges, setMappedMemory, setPlainMemory } from './mapped-memory.ts';
import { type MemoryMode, type MemoryModes, requestOf } from './memory-modes.ts';
import { hasNet, type PatchOptions, patchConfig } from './patch-config.ts';
import { layOutSaved, linkMemory, memoryPathIn, readSaved } from './saved-files.ts';
import { SavedState, setFreeDiskSizes } from './saved-state.ts';
import { keepConsole, startVmm, type VmmSetup } from './start.ts';
import { buildNetConfig } from './vm-config.ts';

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
