// The audit trail: an append-only log. Each line is one write before the response ends, so a killed daemon has lost no
// line of an answered request. Files are rotated, and the oldest are removed.
import {
  closeSync,
  fdatasyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import type { Logger } from 'pino';
import { toError } from '../lib/errors.ts';
import { Budgets } from './budgets.ts';
import { type Anchors, BEGIN, END, listFiles, readEnd, trailPath } from './files.ts';
import { type AuditEntry, type Link, type Lost, NO_HASH, toLine } from './line.ts';

/** Number of files in rotation; the oldest is removed as a whole. */
const FILES = 8;
const ANCHOR_MS = 1000;
export type AuditTrailOptions = {
  readonly dir: string;
  readonly maxBytes: number;
  readonly anchors: Anchors;
  readonly log: Logger;
};

export class AuditTrail {
  readonly #options: AuditTrailOptions;
  #link: Link;
  #fd: number;
  #sizeBytes: number;
  #unwritten = 0;
  readonly #budgets = new Budgets((entry) => this.write(entry));
  #anchorTimer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /**
   * Continues the trail in `dir`, or creates it. An incomplete line that a crash left is cut off, and the next line
   * reports it.
   */
  constructor(options: AuditTrailOptions) {
    this.#options = options;
    const { dir, anchors } = options;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    const { link, path, tornBytes } = findEnd(dir);
    const known = anchors.latest(END);
    const lost = findLost(known, link);
    // Numbers continue after the lost lines, so that the gap stays visible.
    this.#link = lost === undefined ? link : { ...link, seq: Math.max(link.seq, lost.known_seq) };
    if (lost !== undefined)
      options.log.error(
        { ...lost },
        'lines are missing at the end of the audit trail; see `sandboxd audit verify`',
      );
    const file = path ?? trailPath(dir, this.#link.seq + 1);
    this.#fd = openSync(file, 'a', 0o600);
    this.#sizeBytes = statSync(file).size;
    this.write({
      event: 'started',
      pid: process.pid,
      ...(tornBytes > 0 && { torn_bytes: tornBytes }),
      ...(lost && { lost }),
    });
  }

  /** The link of the last line. */
  get link(): Link {
    return this.#link;
  }

  /** Never throws: lines that cannot be written are counted and logged, and the next successful line reports them. */
  write(entry: AuditEntry): void {
    if (this.#isClosed || ('decision' in entry && !this.#budgets.admits(entry))) return;
    try {
      const missed = this.#unwritten;
      if (missed > 0) {
        this.#append({ event: 'unwritten', lines: missed });
        this.#unwritten = 0;
      }
      this.#append(entry);
    } catch (error) {
      this.#unwritten += 1;
      if (this.#unwritten === 1)
        this.#options.log.error(`the audit trail cannot be written: ${toError(error).message}`);
    }
  }

  /** Flushes everything, also against a crash of the host. */
  async close(): Promise<void> {
    this.#budgets.close();
    this.write({ event: 'stopped' });
    this.#isClosed = true;
    clearTimeout(this.#anchorTimer);
    fdatasyncSync(this.#fd);
    closeSync(this.#fd);
    await this.#anchor();
  }

  #append(entry: AuditEntry): void {
    if (this.#sizeBytes > this.#options.maxBytes / FILES) this.#rotate();
    const { text, link } = toLine(entry, new Date(), this.#link);
    const bytes = Buffer.from(`${text}\n`);
    try {
      if (writeSync(this.#fd, bytes) !== bytes.length) throw new Error('no space left on the disk');
    } catch (error) {
      ftruncateSync(this.#fd, this.#sizeBytes);
      throw error;
    }
    this.#sizeBytes += bytes.length;
    this.#link = link;
    this.#anchorTimer ??= setTimeout(() => {
      this.#anchorTimer = undefined;
      void this.#anchor();
    }, ANCHOR_MS).unref();
  }

  #rotate(): void {
    const { dir, anchors, log } = this.#options;
    const next = openSync(trailPath(dir, this.#link.seq + 1), 'ax', 0o600);
    fdatasyncSync(this.#fd);
    closeSync(this.#fd);
    this.#fd = next;
    this.#sizeBytes = 0;
    const files = listFiles(dir);
    const old = files.slice(0, Math.max(0, files.length - FILES));
    if (old.length === 0) return;
    const { last } = readEnd(old.at(-1)?.path ?? '');
    // Recorded before the removal: after a crash in between, more lines exist than must exist.
    const known =
      last === undefined ? Promise.resolve() : anchors.put(BEGIN, { seq: last.seq, hash: last.hash });
    known
      .then(() => {
        for (const { path } of old) rmSync(path, { force: true });
      })
      .catch((err: unknown) => log.error({ err }, 'cannot remove old files of the audit trail'));
  }

  async #anchor(): Promise<void> {
    try {
      await this.#options.anchors.put(END, this.#link);
    } catch (err) {
      this.#options.log.error({ err }, 'cannot record the end of the audit trail in the registry');
    }
  }
}

function findEnd(dir: string): { link: Link; path: string | undefined; tornBytes: number } {
  const files = listFiles(dir);
  let tornBytes = 0;
  for (const { path, firstSeq } of files.toReversed()) {
    const end = readEnd(path);
    if (end.tornBytes > 0) truncateSync(path, end.wholeBytes);
    tornBytes += end.tornBytes;
    const isCurrent = path === files.at(-1)?.path;
    if (end.last !== undefined)
      return { link: end.last, path: isCurrent ? path : files.at(-1)?.path, tornBytes };
    // The last line was modified: the next one starts a new chain, in a new file.
    if (end.wholeBytes > 0) return { link: { seq: firstSeq, hash: NO_HASH }, path: undefined, tornBytes };
  }
  return { link: { seq: 0, hash: NO_HASH }, path: files.at(-1)?.path, tornBytes };
}

/**
 * The trail is behind the recorded end, or has another line there. A trail that is ahead is normal after a killed
 * daemon.
 */
function findLost(known: Link | undefined, { seq, hash }: Link): Lost | undefined {
  if (known === undefined || known.seq < seq || (known.seq === seq && known.hash === hash)) return undefined;
  return { known_seq: known.seq, found_seq: seq };
}
