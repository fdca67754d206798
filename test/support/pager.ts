// A process that maps a file privately as a VMM does its guest's memory, and writes where a test says.
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { type Mapping, privateMappings } from '../../host-agent/src/engines/mapping.ts';
import { compileGuestProgram } from './guest-program.ts';

export class Pager {
  readonly pid: number;
  readonly mappings: readonly Mapping[];
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #answers: AsyncIterator<string>;

  private constructor(
    child: ChildProcessByStdio<Writable, Readable, null>,
    answers: AsyncIterator<string>,
    mappings: readonly Mapping[],
  ) {
    this.#child = child;
    this.#answers = answers;
    this.pid = child.pid ?? 0;
    this.mappings = mappings;
  }

  /** `dir` is for the program. */
  static async compile(dir: string): Promise<string> {
    await compileGuestProgram('pager', dir);
    return join(dir, 'pager');
  }

  static async start(program: string, path: string, sizeBytes: number, ...options: 'one'[]): Promise<Pager> {
    const child = spawn(program, [path, String(sizeBytes), ...options], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const answers = createInterface(child.stdout)[Symbol.asyncIterator]();
    if ((await answers.next()).value !== 'ready') throw new Error('the program does not start');
    const maps = await readFile(`/proc/${child.pid}/maps`, 'utf8');
    const mappings = privateMappings(maps).filter(({ name }) => name === path);
    return new Pager(child, answers, mappings);
  }

  async write(offset: number, length: number, byte: number): Promise<void> {
    this.#child.stdin.write(`${offset} ${length} ${byte}\n`);
    await this.#answers.next();
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.kill('SIGKILL');
    await once(this.#child, 'exit');
  }
}
