// Uses of a sandbox through the daemon: when the last one was, and the idle watch that they keep from firing.
import { mkdirSync, rmdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { GuestFiles, PulledFile } from '../../guest/files.ts';
import type { IdleWatch } from './idle-watch.ts';

/** The time of a last use is stored at most this often, for the next daemon. */
const STORE_MS = 60_000;

type OpenUse = { end: (() => void) | undefined };

export class SandboxUse {
  #lastUsedAtMs: number;
  #watch: IdleWatch | undefined;
  #isStopped = false;
  readonly #open = new Set<OpenUse>();

  /** Its modification time is that of the last use, for the next daemon. */
  readonly #path: string;
  #storedAtMs: number;

  /** `path` is in a directory that a reboot empties and no VMM can write. */
  constructor(path: string, createdAtMs: number) {
    this.#path = path;
    this.#storedAtMs = Math.round(statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? createdAtMs);
    this.#lastUsedAtMs = this.#storedAtMs;
  }

  /** Now while a use is open. */
  get lastUsedAtMs(): number {
    if (this.#open.size > 0) this.#lastUsedAtMs = Date.now();
    return this.#lastUsedAtMs;
  }

  /** Begins a use; returns the function that ends it, which may be called more than once. */
  beginUse(): () => void {
    this.#note();
    const use: OpenUse = { end: this.#watch?.beginUse() };
    this.#open.add(use);
    return () => {
      if (!this.#open.delete(use)) return;
      this.#note();
      use.end?.();
    };
  }

  touch(): void {
    this.#note();
    this.#watch?.touch();
  }

  /** Activity of the guest, such as output: it is not idle, but no client used it. */
  noteActivity(): void {
    this.#watch?.touch();
  }

  /** Replaces the idle watch. A new one starts with a whole idle time, and knows the uses that are open. */
  watch(start: (() => IdleWatch) | undefined): void {
    this.#watch?.stop(true);
    this.#watch = start?.();
    for (const use of this.#open) use.end = this.#watch?.beginUse();
  }

  /** `isGone`: the stored state is removed. */
  stop(isGone: boolean): void {
    this.#watch?.stop(isGone);
    if (isGone) this.#remove();
    else if (this.lastUsedAtMs > this.#storedAtMs) this.#store(this.#lastUsedAtMs);
    this.#isStopped = true;
  }

  #remove(): void {
    rmSync(this.#path, { force: true });
    try {
      rmdirSync(dirname(this.#path));
    } catch {
      // Not empty: another sandbox has one; or there is none.
    }
  }

  #note(): void {
    const now = Date.now();
    this.#lastUsedAtMs = now;
    if (now - this.#storedAtMs >= STORE_MS) this.#store(now);
  }

  /** If the file cannot be written, the next daemon knows an earlier use, or the creation. */
  #store(atMs: number): void {
    if (this.#isStopped) return;
    this.#storedAtMs = atMs;
    try {
      mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
      writeFileSync(this.#path, '', { mode: 0o600 });
      utimesSync(this.#path, atMs / 1000, atMs / 1000);
    } catch {
      // For example on a full disk; this daemon has the time in memory.
    }
  }
}

/** A transfer is a use until its last byte, or until it is cancelled. */
export function trackTransferUse(uses: Pick<SandboxUse, 'beginUse'>, files: GuestFiles): GuestFiles {
  const pull = async <T extends PulledFile>(start: () => Promise<T>): Promise<T> => {
    const end = uses.beginUse();
    try {
      const pulled = await start();
      return { ...pulled, body: trackBody(pulled.body, end) };
    } catch (error) {
      end();
      throw error;
    }
  };
  const during = <T>(work: () => Promise<T>): Promise<T> => {
    const end = uses.beginUse();
    return work().finally(end);
  };
  return {
    pushFiles: (...push) => during(() => files.pushFiles(...push)),
    pullFile: (path, maxBytes, signal) => pull(() => files.pullFile(path, maxBytes, signal)),
    pullDirectory: (path, signal) => pull(() => files.pullDirectory(path, signal)),
    read: (read, signal) => pull(() => files.read(read, signal)),
    call: (call, signal) => during(() => files.call(call, signal)),
    write: (write, read, signal) => during(() => files.write(write, read, signal)),
    // Looking on is no use of the sandbox.
    watch: (watch, events) => files.watch(watch, events),
  };
}

function trackBody(body: PulledFile['body'], end: () => void): PulledFile['body'] {
  return {
    next: async () => {
      try {
        const chunk = await body.next();
        if (chunk === undefined) end();
        return chunk;
      } catch (error) {
        end();
        throw error;
      }
    },
    cancel: () => {
      end();
      body.cancel();
    },
    ...(body.keepalive && { keepalive: () => body.keepalive?.() }),
  };
}
