// The command `sandbox` as a user starts it.
import { type ChildProcess, spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { bundleProgram } from './bundle.ts';

const PROGRAM = bundleProgram(resolve(import.meta.dirname, '../../client/src/command/program.ts'));

/** The program and its first arguments. */
export const COMMAND: readonly string[] = [process.execPath, PROGRAM];

export type Ended = { readonly code: number | null; readonly stdout: string; readonly stderr: string };

export class Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;

  constructor(words: readonly string[], env: Readonly<Record<string, string>>) {
    const [program = '', ...first] = COMMAND;
    this.child = spawn(program, [...first, ...words], { env: { ...process.env, ...env } });
    let [stdout, stderr] = ['', ''];
    this.child.stdout?.on('data', (bytes: Buffer) => {
      stdout += bytes.toString();
    });
    this.child.stderr?.on('data', (bytes: Buffer) => {
      stderr += bytes.toString();
    });
    this.ended = new Promise((done) => this.child.once('close', (code) => done({ code, stdout, stderr })));
  }
}

/** Runs it with pipes, with `input` on standard input. */
export function runCommand(
  words: readonly string[],
  env: Readonly<Record<string, string>>,
  input: string | Uint8Array = '',
): Promise<Ended> {
  const running = new Running(words, env);
  running.child.stdin?.on('error', () => undefined).end(input);
  return running.ended;
}
