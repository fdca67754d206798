// The memory of saved guests, as their forks map it. QEMU opens what it maps for writing and refuses a read-only file,
// so a compromised VMM could change the memory of every other fork. Forks therefore map a copy in a sealed memfd, which
// no process can write to, not even root. There is one copy per saved guest while it has forks.
import { once } from 'node:events';
import { closeSync, fstatSync, openSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { AppError, toError } from '../../lib/errors.ts';
import { startProgram } from '../../lib/programs.ts';
import type { FileVersion } from '../engine.ts';
import { versionKey } from '../mapping.ts';

const NAME = 'saved-memory';
/** The name of the mapping in /proc/<pid>/maps. */
export const SEALED_MAPPING = `/memfd:${NAME}`;
/**
 * Idle time before a copy is freed: the next fork usually comes sooner, and a new copy takes some tenths of a second.
 */
const IDLE_MS = 60_000;

type SealedMemory = {
  /** A child that inherits it can map it privately. */
  readonly fd: number;
  /** The file that it is a copy of. */
  readonly origin: FileVersion;
  /** Called when the mapping is gone. */
  release(): void;
};

type Entry = {
  readonly made: Promise<number>;
  sizeBytes: number;
  users: number;
  idle: NodeJS.Timeout | undefined;
};

export class SealedMemories {
  readonly #program: string;
  readonly #idleMs: number;
  /** Keyed by the file's identity: a file that replaces another has another key. */
  readonly #entries = new Map<string, Entry>();

  /** `program` is the path of native/memfd.c. */
  constructor(program: string, idleMs = IDLE_MS) {
    this.#program = program;
    this.#idleMs = idleMs;
  }

  /** Host memory that all copies use. */
  get sizeBytes(): number {
    return this.#entries.values().reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  }

  /** Host memory that the next fork of this file needs for a new copy; 0 if the copy exists, or the file does not. */
  async neededBytes(path: string): Promise<number> {
    const file = await identify(path).catch(() => undefined);
    return file === undefined || this.#entries.has(file.key) ? 0 : file.allocatedBytes;
  }

  /** Creates the copy if there is none; concurrent callers share it. AppError exhausted if memory does not suffice. */
  async hold(path: string): Promise<SealedMemory> {
    const { key, allocatedBytes } = await identify(path);
    const entry = this.#entries.get(key) ?? this.#make(key, path, allocatedBytes);
    clearTimeout(entry.idle);
    entry.users += 1;
    let isHeld = true;
    const release = (): void => {
      if (!isHeld) return;
      isHeld = false;
      entry.users -= 1;
      if (entry.users === 0) entry.idle = setTimeout(() => this.#drop(key, entry), this.#idleMs).unref();
    };
    return { fd: await entry.made, origin: { path, key }, release };
  }

  #make(key: string, path: string, sizeBytes: number): Entry {
    const made = makeSealed(this.#program, path);
    const entry: Entry = { made, sizeBytes, users: 0, idle: undefined };
    this.#entries.set(key, entry);
    made.then(
      (fd) => {
        entry.sizeBytes = fstatSync(fd).blocks * 512;
      },
      () => this.#forget(key, entry),
    );
    return entry;
  }

  #drop(key: string, entry: Entry): void {
    if (!this.#forget(key, entry)) return;
    void entry.made.then(closeSync, () => undefined);
  }

  #forget(key: string, entry: Entry): boolean {
    return this.#entries.get(key) === entry && this.#entries.delete(key);
  }
}

async function identify(path: string): Promise<{ readonly key: string; readonly allocatedBytes: number }> {
  const stats = await stat(path);
  return { key: versionKey(stats), allocatedBytes: stats.blocks * 512 };
}

/** A descriptor of the copy. The program that creates it must live until the daemon has opened it. */
async function makeSealed(program: string, path: string): Promise<number> {
  const child = startProgram(program, [NAME, path], { stdio: ['pipe', 'pipe', 'pipe'] });
  let said = '';
  let complaint = '';
  child.stderr.on('data', (chunk: Buffer) => {
    complaint += chunk.toString();
  });
  // A program that is not installed has no standard input.
  child.stdin.on('error', () => undefined);
  const ended = once(child, 'close') as Promise<[exitCode: number | null, signal: string | null]>;
  ended.catch(() => undefined);
  try {
    for await (const chunk of child.stdout) {
      said += chunk;
      if (said.endsWith('\n')) return openSync(`/proc/${child.pid}/fd/${Number(said)}`, 'r');
    }
    const [exitCode, signal] = await ended;
    throw new Error(complaint.trim() || `its maker ended with ${exitCode ?? signal}`);
  } catch (cause) {
    const { message } = toError(cause);
    const isFull = /Cannot allocate memory|No space left|SIGKILL/.test(message);
    throw new AppError(
      isFull ? 'exhausted' : 'internal',
      `cannot hold the saved memory ${path}: ${message}`,
      {
        stage: 'restore',
        cause,
      },
    );
  } finally {
    child.stdin.end();
  }
}
