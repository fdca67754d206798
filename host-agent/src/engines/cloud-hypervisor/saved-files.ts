// A saved VM in our own file layout, and as the directory that the VMM writes and reads.
import { chmod, link, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { copySparse } from '@sandboxd/rootfs-builder';
import type { Logger } from 'pino';
import { z } from 'zod';
import { AppError, errnoOf, toError } from '../../lib/errors.ts';
import { runProgram } from '../../lib/programs.ts';
import { copyRegular, openRegular, readSmall } from '../../lib/untrusted-path.ts';
import type { VmmFiles } from '../control.ts';
import type { SavedVm, VmPaths } from '../engine.ts';
import { diskId } from './start.ts';

const CONFIG_FILE = 'config.json';
const STATE_FILE = 'state.json';
export const MEMORY_FILE = 'memory-ranges';
/**
 * A guest of 32 vCPUs has some 2 MiB of state. A compromised VMM can make us parse for a second at most with this size;
 * with 64 MiB it would be 16 s and 2 GiB of memory.
 */
const MAX_SMALL_BYTES = 4 * 1024 * 1024;

/** The files of a save, and the maximum disk space of all except the guest's memory. */
export const SAVED_FILES = [CONFIG_FILE, STATE_FILE, MEMORY_FILE];
export const MAX_SAVED_BESIDE_BYTES = 2 * MAX_SMALL_BYTES + 2 ** 20;

/** The VMM's two small files as opaque texts, exact to the last digit. */
const savedStateSchema = z.object({ formatVersion: z.literal(1), config: z.string(), state: z.string() });

type CollectOptions = {
  readonly from: string;
  readonly to: string;
  readonly memoryBytes: number;
  /** The file that has the memory; absent: the VMM wrote it. */
  readonly memoryPath?: string;
  /** Path of native/claim.c. */
  readonly claimProgram: string;
  readonly log: Logger;
};

/**
 * Moves what the VMM wrote in `from` to our two files in `to`, out of the VMM's reach. AppError internal if it is
 * incomplete: the VMM neither flushes nor verifies its files.
 */
export async function collectSaved(options: CollectOptions): Promise<SavedVm> {
  const { from, to, memoryBytes } = options;
  const [config, state] = await Promise.all(
    [CONFIG_FILE, STATE_FILE].map(async (name) =>
      (await readSmall(join(from, name), MAX_SMALL_BYTES)).toString('utf8'),
    ),
  );
  for (const [name, text] of [
    [CONFIG_FILE, config],
    [STATE_FILE, state],
  ]) {
    if (!isJson(text)) throw incomplete(`${name} is not JSON`);
  }
  const written = join(from, MEMORY_FILE);
  const saved = { memoryPath: options.memoryPath ?? memoryPathOf(to), statePath: join(to, 'state') };
  await writeFile(saved.statePath, JSON.stringify({ formatVersion: 1, config, state }), { mode: 0o600 });
  if (options.memoryPath === undefined) await takeOver(written, saved.memoryPath, options);
  // In `to`, no other process can replace the file.
  await using memory = await openRegular(saved.memoryPath);
  const { size } = await memory.stat();
  if (size !== memoryBytes) throw incomplete(`${MEMORY_FILE} has ${size} bytes, not ${memoryBytes}`);
  return saved;
}

/** Path of the memory of a guest that is saved to `dir`. */
export function memoryPathOf(dir: string): string {
  return join(dir, 'memory');
}

/** The VMM's two small files as texts. AppError internal if `collectSaved` did not write this. */
export async function readSaved(
  saved: SavedVm,
): Promise<{ readonly config: string; readonly state: string }> {
  try {
    return savedStateSchema.parse(JSON.parse(await readFile(saved.statePath, 'utf8')));
  } catch (cause) {
    throw new AppError(
      'internal',
      `${saved.statePath} holds no saved state of this engine: ${toError(cause).message}`,
      { stage: 'restore', cause },
    );
  }
}

/** Path of the memory in a directory that the VMM restores from. */
export function memoryPathIn(dir: string): string {
  return join(dir, MEMORY_FILE);
}

/** Links the memory into the directory that the VMM restores from: nothing is copied, and the source may be deleted. */
export async function linkMemory(saved: SavedVm, dir: string): Promise<void> {
  await link(saved.memoryPath, memoryPathIn(dir));
}

/** Writes the small files of the directory that the VMM restores from. May be called again for another attempt. */
export async function layOutSaved(dir: string, config: object, state: string): Promise<void> {
  await writeReadable(join(dir, CONFIG_FILE), JSON.stringify(config));
  await writeReadable(join(dir, STATE_FILE), state);
}

/** The VMM runs as another user: the mode must not depend on the daemon's umask. */
async function writeReadable(path: string, text: string): Promise<void> {
  await writeFile(path, text);
  await chmod(path, 0o644);
}

/** Copies the file if it cannot be moved, or if the VMM could still write to it. */
async function takeOver(from: string, to: string, { claimProgram, log }: CollectOptions): Promise<void> {
  let written = from;
  try {
    await rename(from, to);
    written = to;
    await runProgram(claimProgram, [to]);
    return;
  } catch (error) {
    if (written === from && errnoOf(error) !== 'EXDEV') throw error;
    log.info({ err: toError(error) }, 'the memory file of a save cannot be taken over, copying it');
  }
  const copy = `${to}.copy`;
  await copyRegular(written, (source) => copySparse(source, copy));
  await rm(written);
  await rename(copy, to);
}

function isJson(text: string | undefined): boolean {
  try {
    JSON.parse(text ?? '');
    return true;
  } catch {
    return false;
  }
}

function incomplete(what: string): AppError {
  return new AppError('internal', `the VMM did not save everything: ${what}`, { stage: 'save' });
}

// File names of one VMM incarnation, and its command line.

/** argv[0] of the process, whatever the program's file name: a later daemon identifies the VMM by it. */
export const VMM_NAME = 'cloud-hypervisor';

const API_SOCKET = 'api.sock';

export type CloudHypervisorFiles = VmmFiles & {
  readonly dir: string;
  readonly socketDir: string;
  readonly vsockPath: string;
  readonly eventsPath: string;
  /**
   * What the VMM needs only during its start. It is removed afterwards: on a guest reset this VMM would boot the guest
   * again in the same process, but a reset must end the VM.
   */
  readonly startDir: string;
  readonly startKernelPath: string;
  /** Where the VMM opens the console file. */
  readonly earlyConsolePath: string;
};

export function vmmFiles({ dir, socketDir }: VmPaths): CloudHypervisorFiles {
  const startDir = join(dir, 'start');
  const controlSocketPath = join(socketDir, API_SOCKET);
  const vsockPath = join(socketDir, 'vsock.sock');
  const eventsPath = join(dir, 'events.json');
  return {
    dir,
    socketDir,
    controlSocketPath,
    vsockPath,
    eventsPath,
    consolePath: join(dir, 'console.log'),
    logPath: join(dir, 'vmm.log'),
    startDir,
    startKernelPath: join(startDir, 'kernel'),
    earlyConsolePath: join(startDir, 'console'),
    growingPaths: [eventsPath],
    socketPaths: [controlSocketPath, `${controlSocketPath}.lock`, vsockPath],
  };
}

const API_OPTION = '--api-socket';

/** The VM itself is configured over the API, which cannot be combined with options here. */
export function vmmArguments({ controlSocketPath, eventsPath }: CloudHypervisorFiles): string[] {
  return [
    API_OPTION,
    `path=${quote(controlSocketPath)}`,
    '--event-monitor',
    `path=${quote(eventsPath)}`,
    '--seccomp',
    'true',
  ];
}

/** The control socket from a process's arguments; undefined if it is not a VMM of this engine. */
export function apiSocketOf(args: readonly string[]): string | undefined {
  if (basename(args[0] ?? '') !== VMM_NAME) return undefined;
  const option = args[args.indexOf(API_OPTION) + 1] ?? '';
  const path = /^path=(\/.*|"\/.*")$/.exec(option)?.[1];
  if (path === undefined) return undefined;
  const plain = path.startsWith('"') ? path.slice(1, -1).replaceAll('""', '"') : path;
  return plain.endsWith(`/${API_SOCKET}`) ? plain : undefined;
}

/** Quotes the value of an option in a comma-separated list. */
function quote(value: string): string {
  return /[,"[\]]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}

// The VMM's saved device state. Its format is private to the VMM, so it is read and changed only for a version that was
// tested. Each component's state is JSON within a text, so unchanged parts keep all digits of their numbers.

/** Version for which the tests with real guests passed. */
const KNOWN_MAJOR = '53';
const DEVICES = 'device-manager';
const SECTOR_BYTES = 512;

/** Whether the saved state of this version has the known format. */
export function knowsSavedState(version: string): boolean {
  return version.split('.')[0] === KNOWN_MAJOR;
}

type Json = Record<string, unknown>;

export class SavedState {
  readonly #outer: Json;

  constructor(text: string) {
    this.#outer = JSON.parse(text) as Json;
  }

  /** The state of a component, by its path. AppError if the format is unknown. */
  read(...path: readonly string[]): string {
    const { state } = this.#data(path);
    if (typeof state !== 'string') throw unknownForm(`${path.join(' / ')} has no state`);
    return state;
  }

  write(path: readonly string[], state: string): void {
    this.#data(path).state = state;
  }

  toString(): string {
    return JSON.stringify(this.#outer);
  }

  #data(path: readonly string[]): Json {
    let part = this.#outer;
    for (const name of path) part = at(at(part, 'snapshots'), name);
    return at(part, 'snapshot_data');
  }
}

function at(value: Json, key: string): Json {
  const found = value[key];
  if (typeof found === 'object' && found !== null) return found as Json;
  throw unknownForm(`it has no ${key}`);
}

export function unknownForm(what: string): AppError {
  return new AppError('internal', `the saved state has a form that is not known: ${what}`, {
    stage: 'restore',
  });
}

/**
 * Changes disk sizes. The VMM takes each size from its saved state, not from the file. The guest reads it when its
 * driver binds the device, so only an unbound disk is changed. `sizes`: bytes of each disk, by its index in the spec.
 * AppError if the state has an unknown format.
 */
export function setFreeDiskSizes(state: SavedState, sizes: readonly number[]): void {
  for (const [index, size] of sizes.entries()) {
    const id = diskId(index);
    const { device_activated: isTaken } = parse(state.read(DEVICES, `_virtio-pci-${id}`), id);
    if (typeof isTaken !== 'boolean') throw unknownForm(`nothing says whether a driver has ${id}`);
    // The guest of a bound disk is notified of a new size by a request to the VMM.
    if (isTaken) continue;
    const disk = parse(state.read(DEVICES, id), id);
    const { config } = disk;
    const isKnown = typeof config === 'object' && config !== null && 'capacity' in config;
    if (!isKnown || config.capacity !== disk.disk_nsectors) throw unknownForm(`${id} has no size`);
    const sectors = Math.floor(size / SECTOR_BYTES);
    const changed = { ...disk, disk_nsectors: sectors, config: { ...config, capacity: sectors } };
    state.write([DEVICES, id], JSON.stringify(changed));
  }
}

function parse(text: string, id: string): Record<string, unknown> {
  const value: unknown = JSON.parse(text);
  if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  throw unknownForm(`${id} is not an object`);
}
