// Failures on purpose, for tests: a file names a point of the program and what shall happen there. Without that file
// nothing here does anything.
import { readFileSync } from 'node:fs';
import { AppError } from './errors.ts';

/** Every step of the operations that change what exists, in order. */
export const FAULT_POINTS = [
  'start.recorded',
  'start.directories',
  'start.disk',
  'start.spawned',
  'start.spawn-recorded',
  'start.vm',
  'start.agent',
  'start.made',
  'start.committed',
  'template.booted',
  'template.saved',
  'template.published',
  'snapshot.recorded',
  'snapshot.paused',
  'snapshot.saved',
  'snapshot.published',
  'snapshot.committed',
  'delete.marked',
  'delete.killed',
  'delete.directories',
  'delete.forgotten',
  'snapshot-delete.marked',
  'snapshot-delete.files',
  'snapshot-delete.forgotten',
] as const;

export type FaultPoint = (typeof FAULT_POINTS)[number];

export interface Faults {
  /** Called at each point; throws, or ends the process, when a test wants it to. */
  reach(point: FaultPoint): void;
}

export const NO_FAULTS: Faults = { reach: () => undefined };

/** The file's text is `<point> <error|kill> [passes]`: after so many passes of the point it happens, each time. */
export class FileFaults implements Faults {
  readonly #path: string;
  #text = '';
  #passes = 0;

  constructor(path: string) {
    this.#path = path;
  }

  reach(point: FaultPoint): void {
    const text = this.#read();
    if (text !== this.#text) {
      this.#text = text;
      this.#passes = 0;
    }
    const [wanted, action, passes = '0'] = text.trim().split(/\s+/);
    if (wanted !== point || this.#passes++ < Number(passes)) return;
    if (action === 'error') throw new AppError('internal', `a fault was injected at ${point}`);
    process.kill(process.pid, 'SIGKILL');
    // The signal is on its way; nothing more may happen.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  }

  #read(): string {
    try {
      return readFileSync(this.#path, 'utf8');
    } catch {
      return '';
    }
  }
}
