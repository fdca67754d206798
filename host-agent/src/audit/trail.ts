// The audit trail: lines are appended, each by one write before the answer is over, so that a daemon that is killed has lost
// nothing of what was answered; files are rotated, and the oldest go.
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
import { type Anchors, BEGIN, END } from './anchor.ts';
import { Budgets } from './budgets.ts';
import { listFiles, readEnd, trailPath } from './files.ts';
import { type AuditEntry, type Link, type Lost, NO_HASH, toLine } from './line.ts';

/** The trail is in this many files, of which the oldest goes whole. */
const FILES = 8;
const ANCHOR_MS = 1000;
export type AuditTrailOptions = {
  readonly dir: string;
  readonly maxBytes: number;
  readonly anchors: Anchors;
  readonly log: Logger;
  readonly now?: () => Date;
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

  /** Goes on with the trail in `dir`, or begins it; a line that a crash left torn is cut off, and the next one says so. */
  constructor(options: AuditTrailOptions) {
    this.#options = options;
    const { dir, anchors } = options;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    const { link, path, tornBytes } = findEnd(dir);
    const known = anchors.latest(END);
    const lost = findLost(known, link);
    // Numbers go on behind what is lost, so that the gap stays to be seen.
    this.#link = lost === undefined ? link : { ...link, seq: Math.max(link.seq, lost.known_seq) };
    if (lost !== undefined)
      options.log.error(
        { ...lost },
        'lines of the audit trail that were there are not; `sandboxd audit verify` says more',
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

  /** Of the last line. */
  get link(): Link {
    return this.#link;
  }

  /** Never throws: what cannot be written is counted, logged, and told by the next line that can. */
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

  /** With all that was written, also for a crash of the host. */
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
    const { now = () => new Date() } = this.#options;
    if (this.#sizeBytes > this.#options.maxBytes / FILES) this.#rotate();
    const { text, link } = toLine(entry, now(), this.#link);
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
    // Known before they are gone: a crash between leaves more than there must be.
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
      this.#options.log.error({ err }, 'cannot write down where the audit trail ends');
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
    // Changed by somebody: the next line follows on nothing, in a file of its own.
    if (end.wholeBytes > 0) return { link: { seq: firstSeq, hash: NO_HASH }, path: undefined, tornBytes };
  }
  return { link: { seq: 0, hash: NO_HASH }, path: files.at(-1)?.path, tornBytes };
}

/** A trail that is behind what was known of it, or has another line there. One that is ahead is of a daemon that was killed. */
function findLost(known: Link | undefined, { seq, hash }: Link): Lost | undefined {
  if (known === undefined || known.seq < seq || (known.seq === seq && known.hash === hash)) return undefined;
  return { known_seq: known.seq, found_seq: seq };
}
