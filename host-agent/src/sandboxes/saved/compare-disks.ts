// Compares the files of two saved guests, without starting them: runs native/diffdisks.cc, which reads their disks.
// It is jailed like a VMM, because guests wrote them.
import { DIFFERENCES, type FILE_TYPES } from '@sandboxd/api';
import PQueue from 'p-queue';
import { confine, type Jail } from '../../engines/jail/jail.ts';
import { enqueue } from '../../lib/concurrency-limit.ts';
import { AppError } from '../../lib/errors.ts';
import { startProgram } from '../../lib/programs.ts';
import { openRegular } from '../../lib/untrusted-path.ts';
import type { SavedGuest } from './saved-guest.ts';

export type ComparedFile = {
  readonly kind: (typeof FILE_TYPES)[number];
  /** The permissions alone. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** Of a regular file or a symbolic link. */
  readonly sizeBytes?: number;
};

/** A file that only one has, or that is not the same in both. */
export type Difference = {
  /** Absolute. */
  readonly path: Buffer;
  readonly before?: ComparedFile;
  readonly after?: ComparedFile;
  /** If both have it. */
  readonly differs: readonly (typeof DIFFERENCES)[number][];
};

export type DifferencePage = {
  readonly files: readonly Difference[];
  /** Where the next page starts; absent: there is none. */
  readonly next?: Buffer;
};

export type ComparePosition = {
  /** Ids of snapshots. */
  readonly from: string;
  readonly to: string;
  readonly limit: number;
  /** Path of the last file before the page. */
  readonly after?: Buffer | undefined;
};

export type DiskComparerOptions = {
  readonly program: string;
  /** Absent: the program runs as the daemon's user. */
  readonly jail: Jail | undefined;
};

/** Each reads two disks and uses a CPU. */
const CONCURRENCY = 2;
/** For the whole comparison; the program limits its CPU time to less. */
const TIMEOUT_MS = 300_000;
/** The program limits itself to 768 MiB of addresses. */
const MEMORY_MIB = 1024;
/** Of all paths and attributes in a page. */
const PAGE_BYTES = 4 << 20;
/** More than the program sends. */
const MAX_OUTPUT_BYTES = 2 * PAGE_BYTES;
const TAIL_CHARS = 2000;

export class DiskComparer {
  readonly #options: DiskComparerOptions;
  readonly #queue = new PQueue({ concurrency: CONCURRENCY });

  constructor(options: DiskComparerOptions) {
    this.#options = options;
  }

  /**
   * AppError conflict if a disk is damaged or there is too much to compare, not_found when one of them is deleted
   * meanwhile, exhausted when it takes too long, or the signal's reason.
   */
  async compare(
    { from, to, ...position }: ComparePosition,
    toGuest: (id: string) => SavedGuest,
    signal: AbortSignal,
  ): Promise<DifferencePage> {
    const guests = [toGuest(from), toGuest(to)] as const;
    const work = () => this.#compare(guests, position, signal);
    return enqueue(this.#queue, () => guests[0].use(() => guests[1].use(work)), signal);
  }

  async #compare(
    guests: readonly [before: SavedGuest, after: SavedGuest],
    { limit, after }: Pick<ComparePosition, 'limit' | 'after'>,
    signal: AbortSignal,
  ): Promise<DifferencePage> {
    await using files = new AsyncDisposableStack();
    const opened = new Map<string, number>();
    const toDescriptors = async (paths: readonly string[]): Promise<string> => {
      for (const path of paths)
        if (!opened.has(path)) opened.set(path, files.use(await openRegular(path)).fd);
      // Behind the three standard ones.
      const order = [...opened.keys()];
      return paths.map((path) => 3 + order.indexOf(path)).join(',');
    };
    const args = [
      String(limit),
      String(PAGE_BYTES),
      await toDescriptors(disksOf(guests[0])),
      await toDescriptors(disksOf(guests[1])),
      ...(after ? [after.subarray(1).toString('hex')] : []),
    ];
    const leaving = AbortSignal.any(guests.map((guest) => guest.leaving));
    const timeout = AbortSignal.timeout(TIMEOUT_MS);
    const stop = AbortSignal.any([signal, leaving, timeout]);
    const { output, exit, stderr } = await this.#run(args, [...opened.values()], stop);
    signal.throwIfAborted();
    if (leaving.aborted)
      throw new AppError('not_found', 'a snapshot was deleted while its files were compared');
    if (timeout.aborted)
      throw new AppError(
        'exhausted',
        `the comparison took longer than ${TIMEOUT_MS / 1000} s; try again later`,
      );
    if (exit === 'SIGXCPU')
      throw new AppError('conflict', 'the snapshots cannot be compared: it takes too much CPU time');
    try {
      if (exit !== 'exit code 0') throw new Error(`diffdisks ended with ${exit}: ${stderr}`);
      return parseRecords(output);
    } catch (cause) {
      if (cause instanceof AppError) throw cause;
      const message = 'the snapshots cannot be compared: the program failed; the log of the daemon says why';
      throw new AppError('internal', message, { cause });
    }
  }

  async #run(args: readonly string[], fds: readonly number[], signal: AbortSignal) {
    const { program, jail } = this.#options;
    const command = { program, args, reads: [], descriptors: 3 + fds.length, memoryMib: MEMORY_MIB };
    const confined = jail ? await confine(jail, command) : { program, args, leave: async () => undefined };
    try {
      const child = startProgram(confined.program, confined.args, {
        stdio: ['ignore', 'pipe', 'pipe', ...fds],
      });
      const kill = () => child.kill('SIGKILL');
      const chunks: Buffer[] = [];
      let bytes = 0;
      let stderr = '';
      child.stdout?.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > MAX_OUTPUT_BYTES) kill();
        else chunks.push(chunk);
      });
      child.stderr?.on('data', (text: Buffer) => {
        stderr = `${stderr}${text}`.slice(-TAIL_CHARS);
      });
      signal.addEventListener('abort', kill);
      if (signal.aborted) kill();
      const exit = await new Promise<string>((resolve, reject) => {
        child.on('error', reject);
        child.on('close', (code, by) => resolve(by ?? `exit code ${code}`));
      }).finally(() => signal.removeEventListener('abort', kill));
      return { output: Buffer.concat(chunks), exit, stderr };
    } finally {
      await confined.leave();
    }
  }
}

/** What its root consists of, the topmost first. */
function disksOf({ diskPath, manifest }: SavedGuest): string[] {
  const { agentPath, rootfsPath } = manifest.options.rootfs;
  return [diskPath, ...(agentPath === undefined ? [] : [agentPath]), rootfsPath];
}

const ATTRIBUTES_BYTES = 20;
const HEAD_BYTES = 1 + 2 * ATTRIBUTES_BYTES;
/** By the upper four bits of a mode. */
const TYPES: Readonly<Record<number, ComparedFile['kind']>> = {
  1: 'fifo',
  2: 'character-device',
  4: 'directory',
  6: 'block-device',
  8: 'file',
  10: 'symlink',
  12: 'socket',
};

/** The format is that of native/diffdisks.cc. Throws for any other one: hostile disks may have broken the program. */
export function parseRecords(output: Buffer): DifferencePage {
  const files: Difference[] = [];
  for (let at = 0; at < output.length; ) {
    const length = output.readUInt32LE(at);
    const record = output.subarray(at + 4, at + 4 + length);
    at += 4 + length;
    if (length === 0 || record.length !== length) throw new Error('diffdisks sent an incomplete record');
    const kind = String.fromCharCode(record.readUInt8(0));
    const body = record.subarray(1);
    if ('ARC'.includes(kind)) {
      files.push(parseDifference(kind, body));
      continue;
    }
    if (at !== output.length) throw new Error('diffdisks sent records after its last one');
    const last = files.at(-1);
    if (kind === 'E') return { files };
    if (kind === 'M' && last) return { files, next: last.path };
    if (kind === 'd' || kind === 'l')
      throw new AppError('conflict', `the snapshots cannot be compared: ${toText(body)}`);
    throw new Error(`diffdisks sent a record of the unknown kind ${kind}`);
  }
  throw new Error('diffdisks sent no last record');
}

function parseDifference(kind: string, body: Buffer): Difference {
  if (body.length < HEAD_BYTES) throw new Error('diffdisks sent an incomplete difference');
  const bits = body.readUInt8(0);
  return {
    path: Buffer.concat([Buffer.from('/'), body.subarray(HEAD_BYTES)]),
    ...(kind !== 'A' && { before: parseAttributes(body, 1) }),
    ...(kind !== 'R' && { after: parseAttributes(body, 1 + ATTRIBUTES_BYTES) }),
    differs: kind === 'C' ? DIFFERENCES.filter((_, bit) => bits & (1 << bit)) : [],
  };
}

function parseAttributes(body: Buffer, at: number): ComparedFile {
  const mode = body.readUInt32LE(at);
  const kind = TYPES[mode >>> 12];
  if (kind === undefined)
    throw new AppError('conflict', 'the snapshots cannot be compared: a file has no kind');
  return {
    kind,
    mode: mode & 0o7777,
    uid: body.readUInt32LE(at + 4),
    gid: body.readUInt32LE(at + 8),
    ...((kind === 'file' || kind === 'symlink') && { sizeBytes: Number(body.readBigUInt64LE(at + 12)) }),
  };
}

function toText(body: Buffer): string {
  return body.toString('latin1', 0, 500).replace(/[^\x20-\x7e]/g, '?');
}
