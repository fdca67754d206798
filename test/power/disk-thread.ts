// A thread that serves disks, as whoever mounts one must not be the thread that its reads wait for.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import type { Server } from 'node:net';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { PowerCuts, RecordedDisk, serveDisk } from './recorded-disk.ts';

type Request =
  | { readonly kind: 'record'; readonly path: string; readonly socketPath: string }
  | { readonly kind: 'stop' }
  | { readonly kind: 'cut'; readonly position: number; readonly socketPath: string };

/** Of a cut: how many pieces of 4 KiB were not flushed, and how many of these are on the disk nevertheless. */
export type Cut = { readonly unflushed: number; readonly kept: number };

export class DiskThread {
  readonly #worker: Worker;
  readonly #position: Int32Array;

  constructor(seed: number) {
    this.#position = new Int32Array(new SharedArrayBuffer(4));
    this.#worker = new Worker(import.meta.filename, { workerData: { position: this.#position, seed } });
  }

  /** How many writes and flushes were recorded: a moment at which the power can be cut. */
  get position(): number {
    return Atomics.load(this.#position, 0);
  }

  /** Serves the file system in `path`, whose first state is kept in `<path>.base`. */
  record(path: string, socketPath: string): Promise<unknown> {
    return this.#ask({ kind: 'record', path, socketPath });
  }

  stopRecording(): Promise<unknown> {
    return this.#ask({ kind: 'stop' });
  }

  /** Serves a state of the disk after a cut, in place of the last one. Positions must ascend. */
  cut(position: number, socketPath: string): Promise<Cut> {
    return this.#ask({ kind: 'cut', position, socketPath }) as Promise<Cut>;
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  async #ask(request: Request): Promise<unknown> {
    this.#worker.postMessage(request);
    const [answer] = await once(this.#worker, 'message');
    return answer;
  }
}

/** A generator of numbers from 0 to 1 that a seed repeats (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function serveRequests(): void {
  const { position, seed } = workerData as { position: Int32Array; seed: number };
  let recorded: RecordedDisk | undefined;
  let cuts: PowerCuts | undefined;
  let server: Server | undefined;
  const answer = async (request: Request): Promise<unknown> => {
    if (request.kind === 'stop') return void recorded?.stopRecording();
    server?.close();
    if (request.kind === 'record') {
      execFileSync('cp', ['--sparse=always', request.path, `${request.path}.base`]);
      recorded = new RecordedDisk(request.path, position);
      cuts = new PowerCuts(recorded, `${request.path}.base`, randomOf(seed));
      server = await serveDisk(recorded, request.socketPath);
      return undefined;
    }
    if (cuts === undefined) throw new Error('nothing was recorded');
    const { disk, ...cut } = cuts.at(request.position);
    server = await serveDisk(disk, request.socketPath);
    return cut;
  };
  parentPort?.on(
    'message',
    (request: Request) => void answer(request).then((it) => parentPort?.postMessage(it)),
  );
}

if (!isMainThread) serveRequests();
