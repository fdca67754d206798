// Verifies the whole trail and reports where it was modified.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { type Anchors, BEGIN, END, listFiles, readEnd } from './files.ts';
import { type Link, NO_HASH, type ReadLine, readLine } from './line.ts';

export type Verified = {
  readonly lines: number;
  readonly files: number;
  readonly first: ReadLine | undefined;
  readonly last: ReadLine | undefined;
  /** One sentence for each problem. */
  readonly problems: readonly string[];
  /** Expected irregularities that a crash, or a daemon that writes at this moment, leaves. */
  readonly notes: readonly string[];
};

const MAX_PROBLEMS = 100;

/** Rejects only if the files cannot be read. May be called while a daemon writes. */
export async function verifyTrail(dir: string, anchors: Pick<Anchors, 'latest'>): Promise<Verified> {
  // Read before the files: lines that are added meanwhile are not a contradiction.
  const known = anchors.latest(END);
  const reader = new TrailReader(anchors.latest(BEGIN), known);
  const files = listFiles(dir);
  for (const { path } of files) {
    const isLast = path === files.at(-1)?.path;
    const { wholeBytes, tornBytes } = readEnd(path);
    if (wholeBytes > 0) {
      const input = createReadStream(path, { end: wholeBytes - 1 });
      for await (const line of createInterface({ input, crlfDelay: 0 })) reader.take(line, path);
    }
    if (tornBytes > 0) reader.torn(path, tornBytes, isLast);
  }
  return { ...reader.finish(), files: files.length };
}

class TrailReader {
  readonly #begin: Link | undefined;
  readonly #known: Link | undefined;
  readonly #problems: string[] = [];
  readonly #notes: string[] = [];
  #lines = 0;
  #first: ReadLine | undefined;
  #last: ReadLine | undefined;
  #isBroken = false;
  #hasKnown = false;

  constructor(begin: Link | undefined, known: Link | undefined) {
    this.#begin = begin;
    this.#known = known;
  }

  take(text: string, path: string): void {
    this.#lines += 1;
    const line = readLine(text);
    if (line === undefined) {
      this.#problem(
        `${path}: the line behind number ${this.#last?.seq ?? 0} was changed, or is not of the trail`,
      );
      this.#isBroken = true;
      return;
    }
    if (this.#first === undefined) this.#checkFirst(line);
    else this.#checkNext(line, this.#last);
    this.#checkWords(line);
    this.#first ??= line;
    this.#last = line;
    this.#isBroken = false;
    if (line.seq === this.#known?.seq) {
      this.#hasKnown = true;
      if (line.hash !== this.#known.hash)
        this.#problem(`line ${line.seq} is not the one that the registry knows: the trail was written again`);
    }
  }

  torn(path: string, bytes: number, isLast: boolean): void {
    if (!isLast)
      this.#problem(`${path}: ${bytes} bytes after its last line are not a line, and another file follows`);
    else
      this.#notes.push(
        `${path} ends with ${bytes} bytes of a line that is not whole: a crash, or it is being written; the next start cuts it off`,
      );
  }

  finish(): Omit<Verified, 'files'> {
    const known = this.#known;
    const lastSeq = this.#last?.seq ?? 0;
    if (known !== undefined && !this.#hasKnown && known.seq > lastSeq)
      this.#problem(
        `lines ${lastSeq + 1} to ${known.seq} at least are missing at the end: cut off, or lost when the host lost power`,
      );
    return {
      lines: this.#lines,
      first: this.#first,
      last: this.#last,
      problems: this.#problems,
      notes: this.#notes,
    };
  }

  /** Rotation may have removed older lines; the registry records that. */
  #checkFirst({ seq, prev }: ReadLine): void {
    const before = this.#begin ?? { seq: 0, hash: NO_HASH };
    if (seq > before.seq + 1)
      this.#problem(`lines ${before.seq + 1} to ${seq - 1} are missing at the beginning`);
    else if (seq === before.seq + 1 && prev !== before.hash)
      this.#problem(`line ${seq} does not follow the one before it, which is gone`);
  }

  #checkNext({ seq, prev }: ReadLine, last: ReadLine | undefined): void {
    if (last === undefined) return;
    if (seq <= last.seq) this.#problem(`line ${seq} comes behind line ${last.seq}`);
    else if (seq > last.seq + 1 && !this.#isBroken)
      this.#problem(`lines ${last.seq + 1} to ${seq - 1} are missing`);
    else if (prev !== last.hash && !this.#isBroken)
      this.#problem(`line ${seq} does not follow line ${last.seq}: one of them was exchanged`);
  }

  /** Reports what a daemon's start found, as the hash chain continues after the gap. */
  #checkWords({ seq, at, fields }: ReadLine): void {
    const { torn_bytes: torn, lost } = fields;
    if (typeof torn === 'number')
      this.#notes.push(`before line ${seq} (${at}) a crash left ${torn} bytes of a line that was not whole`);
    if (lost !== undefined)
      this.#problem(
        `line ${seq} (${at}): at this start the end of the trail was not what it had been: ${JSON.stringify(lost)}`,
      );
  }

  #problem(text: string): void {
    if (this.#problems.length < MAX_PROBLEMS) this.#problems.push(text);
  }
}
