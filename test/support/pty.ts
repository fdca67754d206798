// Runs a program in a terminal, by util-linux's `script`: its output, typed input, and window size.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { scaled } from './time-scale.ts';
import { until } from './until.ts';

/** Generous, because a program in a guest may be slow. */
const LIMIT_MS = 60_000;

class Pty {
  /** All output so far, escape sequences included. */
  shown = '';
  readonly #child: ChildProcess;
  readonly #ttyPath: () => string;
  readonly exited: Promise<number | null>;

  constructor(child: ChildProcess, ttyPath: () => string) {
    this.#child = child;
    this.#ttyPath = ttyPath;
    child.stdout?.on('data', (bytes: Buffer) => {
      this.shown += bytes.toString();
    });
    this.exited = new Promise((resolve) => child.once('exit', resolve));
  }

  /** Pid of the program itself, which runs under `script`. */
  get programPid(): number {
    const { pid } = this.#child;
    return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim());
  }

  type(keys: string): void {
    this.#child.stdin?.write(keys);
  }

  resize(cols: number, rows: number): void {
    execFileSync('stty', ['-F', this.#ttyPath(), 'cols', String(cols), 'rows', String(rows)]);
  }

  /** Resolves once the output contains this text. */
  async shows(text: string | RegExp): Promise<void> {
    const has = () => (typeof text === 'string' ? this.shown.includes(text) : text.test(this.shown));
    const deadline = performance.now() + scaled(LIMIT_MS);
    while (!has()) {
      if (performance.now() > deadline || this.#child.exitCode !== null)
        throw new Error(`waited for ${String(text)}, but it shows ${JSON.stringify(this.shown.slice(-500))}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
}

/** `words` are quoted for the shell that `script` runs. */
export async function openPty(
  t: Test,
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Pty> {
  const dir = mkdtempSync(join(tmpdir(), 'pty-'));
  const note = join(dir, 'tty');
  const quoted = words.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
  const command = `stty cols 80 rows 24; tty >'${note}.new'; mv '${note}.new' '${note}'; exec ${quoted}`;
  const child = spawn('script', ['-qefc', command, '/dev/null'], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, SHELL: '/bin/sh', TERM: 'xterm', ...env },
  });
  const pty = new Pty(child, () => readFileSync(note, 'utf8').trim());
  t.teardown(async () => {
    child.kill('SIGKILL');
    await pty.exited;
    rmSync(dir, { recursive: true });
  });
  await until(() => existsSync(note), 'the terminal');
  return pty;
}
