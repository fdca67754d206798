// Runs the converter: a separate process, jailed like a VMM, which inherits the layers and the image as open files.
import { open } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { AppError } from '../lib/errors.ts';
import { startProgram } from '../lib/programs.ts';
import { openRegular } from '../lib/untrusted-path.ts';
import type { Converted, Job, Report } from './convert/convert.ts';
import { type ConvertLimits, DEFAULT_CONVERT_LIMITS } from './convert/limits.ts';

/** A program and its arguments in a jail of its own; `leave` removes the jail. */
export type Confined = { readonly program: string; readonly args: readonly string[]; leave(): Promise<void> };

export type ConverterOptions = {
  /** The Node.js runtime and the script that it runs. */
  readonly runtime: string;
  readonly script: string;
  /** Absent: the converter runs without a jail, as the daemon's user. */
  readonly confine?: ((command: ConfinedCommand) => Promise<Confined>) | undefined;
};

export type ConfinedCommand = {
  readonly program: string;
  readonly args: readonly string[];
  readonly reads: readonly string[];
  readonly descriptors: number;
  readonly memoryMib: number;
};

export type ConvertRequest = {
  readonly layers: readonly { readonly path: string; readonly diffId?: string | undefined }[];
  /** The file is created; it must not exist. */
  readonly imagePath: string;
  readonly limits?: ConvertLimits;
  readonly onLayer?: (done: number) => void;
  readonly signal?: AbortSignal | undefined;
};

/** Enough for two million entries and for decompression. */
const MEMORY_MIB = 2048;
const TAIL_CHARS = 2000;

export class Converter {
  readonly #options: ConverterOptions;

  constructor(options: ConverterOptions) {
    this.#options = options;
  }

  /**
   * AppError upstream for an invalid image, exhausted when the disk is full, or the signal's reason. The caller removes
   * the file.
   */
  async convert(request: ConvertRequest): Promise<Converted> {
    const { layers, imagePath, limits = DEFAULT_CONVERT_LIMITS, signal } = request;
    if (layers.length > limits.layers)
      throw new AppError(
        'upstream',
        `the image has ${layers.length} layers; at most ${limits.layers} are possible`,
      );
    await using files = new AsyncDisposableStack();
    const image = files.use(await open(imagePath, 'wx+', 0o600));
    const fds = [image.fd];
    for (const { path } of layers) fds.push(files.use(await openRegular(path)).fd);
    const job: Job = { diffIds: layers.map(({ diffId }) => diffId ?? null), limits };
    const last = await this.#run(JSON.stringify(job), fds, request);
    signal?.throwIfAborted();
    if ('problem' in last) throw new AppError('upstream', `the image cannot be converted: ${last.problem}`);
    if (!('converted' in last)) throw toFailure(last);
    await image.sync();
    return last.converted;
  }

  async #run(job: string, fds: readonly number[], { signal, onLayer }: ConvertRequest): Promise<Report> {
    const { runtime, script, confine } = this.#options;
    const command: ConfinedCommand = {
      program: runtime,
      args: [script, job],
      reads: [script],
      descriptors: 3 + fds.length,
      memoryMib: MEMORY_MIB,
    };
    const confined = await (confine?.(command) ?? { ...command, leave: async () => undefined });
    try {
      const child = startProgram(confined.program, confined.args, {
        stdio: ['pipe', 'pipe', 'pipe', ...fds],
      });
      const kill = () => child.kill('SIGKILL');
      signal?.addEventListener('abort', kill);
      if (signal?.aborted) kill();
      let last: Report = { failure: 'the converter sent no report', code: '' };
      let stderrTail = '';
      createInterface(child.stdout as NodeJS.ReadableStream).on('line', (line) => {
        last = parseReport(line);
        if ('layersDone' in last) onLayer?.(last.layersDone);
      });
      child.stderr?.on('data', (text: Buffer) => {
        stderrTail = `${stderrTail}${text}`.slice(-TAIL_CHARS);
      });
      const exit = await new Promise<string>((resolve, reject) => {
        child.on('error', reject);
        child.on('close', (code, by) => resolve(by ?? `exit code ${code}`));
      });
      signal?.removeEventListener('abort', kill);
      const isFinal = 'converted' in last || 'problem' in last || 'failure' in last;
      return isFinal && exit === 'exit code 0'
        ? last
        : { failure: `the converter ended with ${exit}: ${stderrTail}`, code: '' };
    } finally {
      await confined.leave();
    }
  }
}

function toFailure(report: Report): AppError {
  const { failure, code } =
    'failure' in report ? report : { failure: 'the converter sent no final report', code: '' };
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new AppError('exhausted', 'cannot convert the image: the disk of the data directory is full');
  return new AppError(
    'internal',
    'cannot convert the image: the converter failed; the log of the daemon says why',
    {
      cause: new Error(failure),
    },
  );
}

// Validates the converter's reports: the program is ours, but its input is untrusted.
const report = z.union([
  z.object({ layersDone: z.int() }),
  z.object({
    converted: z.object({
      digest: z.string().regex(/^[\da-f]{64}$/),
      sizeBytes: z.int().min(0),
      entries: z.int().min(0),
      contentBytes: z.int().min(0),
    }),
  }),
  z.object({ problem: z.string().max(4096) }),
  z.object({ failure: z.string(), code: z.string() }),
]);

/** Parses one line. A line that is not a valid report becomes a failure. */
function parseReport(line: string): Report {
  try {
    return report.parse(JSON.parse(line));
  } catch {
    return { failure: `the converter sent an invalid report: ${line.slice(0, 200)}`, code: '' };
  }
}
