// The logs of all sandboxes, including deleted ones: opens, ends, reads and expires them.
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { AppError, errnoOf, toError } from '../lib/errors.ts';
import { chooseEvicted, type Kept } from '../lib/fair-share.ts';
import { isId } from '../lib/ids.ts';
import { type LogPage, type LogQuery, readLog } from './read-log.ts';
import { RESERVE_NAME, SandboxLog } from './sandbox-log.ts';
import { ENDED_NAME, repairLog, TENANT_NAME } from './segments.ts';

const EXPIRY_CHECK_MS = 10 * 60_000;
/** The total size is measured again when this fraction of the limit is new. */
const TOTAL_SHARES = 16;
/** Unit of `blocks`, independent of the file system's own. */
const BLOCK_BYTES = 512;
/** A file counts as this much at least: ext4 has one inode for it, and these must not run out before the bytes do. */
const LEAST_FILE_BYTES = 16 * 1024;
/** How long a reader waits for queued records to be written. */
const FLUSH_LIMIT_MS = 2000;

export type LogStoreOptions = {
  readonly dir: string;
  /** Maximum size of one log; the oldest records are dropped first. */
  readonly maxBytes: number;
  /** How long the log of a deleted sandbox is kept. */
  readonly retentionMs: number;
  /** Maximum total size of such logs. The tenant with the largest share loses its oldest logs first. */
  readonly retentionBytes: number;
  readonly log: Logger;
};

export class LogStore {
  readonly #options: LogStoreOptions;
  readonly #open = new Map<string, SandboxLog>();
  #expiry: NodeJS.Timeout | undefined;
  /** Size of the logs that ended since the total was measured. */
  #newBytes = 0;
  #removal: Promise<void> | undefined;
  #hasWarned = false;

  constructor(options: LogStoreOptions) {
    this.#options = options;
  }

  /** Ends the logs of an earlier daemon's sandboxes that are not in `alive`, and removes expired ones. */
  async start(alive: ReadonlySet<string>): Promise<void> {
    const { dir, log } = this.#options;
    await mkdir(dir, { recursive: true, mode: 0o700 });
    for (const id of await this.#ids()) {
      if (alive.has(id) || (await exists(join(dir, id, ENDED_NAME)))) continue;
      try {
        const { tornBytes, runningExecs } = await repairLog(join(dir, id));
        if (runningExecs > 0) await (await this.open(id))?.close();
        this.#open.delete(id);
        await rm(join(dir, id, RESERVE_NAME), { force: true });
        await this.#markEnded(id);
        if (tornBytes > 0) log.info({ sandbox: id, tornBytes }, 'repaired the end of a log');
      } catch (err) {
        log.warn({ err, sandbox: id }, 'cannot repair a log');
      }
    }
    await this.#removeOld();
    this.#expiry = setInterval(() => void this.#removeOld(), EXPIRY_CHECK_MS);
    this.#expiry.unref();
  }

  /** Opens or creates the log of a sandbox. Undefined, after a warning, if that fails. */
  async open(id: string, tenant?: string): Promise<SandboxLog | undefined> {
    const dir = join(this.#options.dir, id);
    try {
      await mkdir(dir, { recursive: true, mode: 0o700 });
      if (tenant !== undefined) await writeFile(join(dir, TENANT_NAME), tenant, { mode: 0o600 });
      const { maxBytes } = this.#options;
      const log = await SandboxLog.open({ dir, maxBytes, onFailure: (error) => this.#warn(id, error) });
      this.#open.set(id, log);
      return log;
    } catch (error) {
      this.#warn(id, toError(error));
      return undefined;
    }
  }

  /** Opens the log if it exists: an earlier daemon may have made it. */
  async reopen(id: string): Promise<SandboxLog | undefined> {
    if (!(await exists(join(this.#options.dir, id)))) return undefined;
    return this.#open.get(id) ?? (await this.open(id));
  }

  /** The sandbox was deleted; its log is kept until it expires. */
  async end(id: string): Promise<void> {
    const log = this.#open.get(id);
    if (log === undefined) return;
    await log.close();
    this.#open.delete(id);
    await this.#markEnded(id);
    this.#newBytes += await sizeOf(join(this.#options.dir, id));
    if (this.#newBytes > this.#options.retentionBytes / TOTAL_SHARES) await this.#removeOld();
  }

  /** Removes the log at once. */
  async remove(id: string): Promise<void> {
    const log = this.#open.get(id);
    this.#open.delete(id);
    await log?.close();
    await rm(join(this.#options.dir, id), { recursive: true, force: true });
  }

  /** Undefined if there is no log of that sandbox, or it belongs to another tenant. */
  async read(id: string, query: LogQuery): Promise<LogPage | undefined> {
    const log = this.#open.get(id);
    if (query.tenant !== undefined && query.tenant !== (await this.#tenantOf(id))) return undefined;
    if (log !== undefined) {
      const limit = new Promise<void>((resolve) => setTimeout(resolve, FLUSH_LIMIT_MS).unref());
      await Promise.race([log.flush(), limit]);
    }
    return readLog(join(this.#options.dir, id), query, log?.writtenEnd);
  }

  /** Writes everything that is queued. The logs are not marked as ended. */
  async stop(): Promise<void> {
    clearInterval(this.#expiry);
    await this.#removal;
    await Promise.all([...this.#open.values()].map((log) => log.close()));
    this.#open.clear();
  }

  /** Concurrent callers share one run. */
  #removeOld(): Promise<void> {
    this.#removal ??= this.#removeEnded()
      .catch((err: unknown) => this.#options.log.warn({ err }, 'cannot remove old logs'))
      .finally(() => {
        this.#removal = undefined;
      });
    return this.#removal;
  }

  async #removeEnded(): Promise<void> {
    const { dir, retentionMs, retentionBytes, log } = this.#options;
    this.#newBytes = 0;
    const kept: (Kept & { readonly id: string })[] = [];
    const remove = async (id: string, bytes: number, why: string): Promise<void> => {
      await rm(join(dir, id), { recursive: true, force: true });
      log.info({ sandbox: id, bytes }, `removed the log of a sandbox that ${why}`);
    };
    for (const id of await this.#ids()) {
      if (this.#open.has(id)) continue;
      const endedMs = await stat(join(dir, id, ENDED_NAME)).then(({ mtimeMs }) => mtimeMs, ignoreMissing);
      if (endedMs === undefined) continue;
      const size = await sizeOf(join(dir, id));
      if (Date.now() - endedMs >= retentionMs) await remove(id, size, 'is long gone');
      else kept.push({ id, owner: await this.#tenantOf(id), size, usedAtMs: endedMs, isPinned: false });
    }
    for (const { id, size } of chooseEvicted(kept, retentionBytes))
      await remove(id, size, 'is gone, as newer ones need the space');
  }

  async #tenantOf(id: string): Promise<string | undefined> {
    return readFile(join(this.#options.dir, id, TENANT_NAME), 'utf8').catch(ignoreMissing);
  }

  async #ids(): Promise<string[]> {
    return (await readdir(this.#options.dir)).filter((name) => isId('sbx', name));
  }

  async #markEnded(id: string): Promise<void> {
    await writeFile(join(this.#options.dir, id, ENDED_NAME), '').catch((error: unknown) => {
      this.#warn(id, toError(error));
    });
  }

  /** Warns once: a full disk concerns all logs. */
  #warn(id: string, err: Error): void {
    const { log } = this.#options;
    if (this.#hasWarned) log.debug({ err, sandbox: id }, 'cannot write another sandbox log');
    else log.warn({ err, sandbox: id }, `logs of sandboxes are not written any more: ${err.message}`);
    this.#hasWarned = true;
  }
}

/** AppError unsupported, for a daemon with logs turned off. */
export function logsAreOff(): AppError {
  return new AppError(
    'unsupported',
    'this daemon keeps no logs; its operator can start it with --sandbox-logs on',
  );
}

/** Disk space of a directory and its files, which small ones take more of than they contain. */
async function sizeOf(dir: string): Promise<number> {
  const names = await readdir(dir).catch(() => []);
  const paths = [dir, ...names.map((name) => join(dir, name))];
  const sizes = await Promise.all(
    paths.map((path) =>
      stat(path).then(
        ({ blocks }) => Math.max(blocks * BLOCK_BYTES, LEAST_FILE_BYTES),
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, bytes) => sum + bytes, 0);
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(ignoreMissing)) !== undefined;
}

function ignoreMissing(error: unknown): undefined {
  if (errnoOf(error) !== 'ENOENT') throw error;
  return undefined;
}
