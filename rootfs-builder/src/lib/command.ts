// Runs one child program to its end: output collected, lines reported, failures explained.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { BuilderError, hasErrno } from '../errors.ts';

export type CommandOptions = {
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  onLine?: (line: string) => void;
  signal?: AbortSignal | undefined;
};

const TAIL_LINES = 12;

/** Standard output as text. Throws `tool_missing`, `host_disk_full` or `command_failed` with the last lines of both streams. */
export function runCommand(program: string, args: string[], options: CommandOptions = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: options.cwd,
      env: { ...(options.env ?? process.env), LC_ALL: 'C.UTF-8' },
      stdio: ['ignore', 'pipe', 'pipe'],
      signal: options.signal,
    });
    const output: string[] = [];
    const tail: string[] = [];
    const onLine = (line: string) => {
      if (line.trim() === '') return;
      tail.push(line);
      if (tail.length > TAIL_LINES) tail.shift();
      options.onLine?.(line);
    };
    createInterface(child.stderr).on('line', onLine);
    createInterface(child.stdout).on('line', (line) => {
      output.push(line);
      onLine(line);
    });
    child.on('error', (error) => {
      reject(hasErrno(error, 'ENOENT') ? toolMissing(program, error) : error);
    });
    child.on('close', (code, signal) => {
      if (code === 0) resolve(output.join('\n'));
      else reject(commandFailed(program, code === null ? `signal ${signal}` : `exit code ${code}`, tail));
    });
  });
}

function toolMissing(program: string, cause: Error): BuilderError {
  const message = `${program} is not installed; install the packages of scripts/packages.txt (scripts/setup.sh does it)`;
  return new BuilderError('tool_missing', message, { cause });
}

function commandFailed(program: string, ending: string, tail: string[]): BuilderError {
  // The first line says it all by itself.
  const last = tail.length > 0 ? `: ${tail.at(-1)?.trim()}` : '';
  const lines = `${last}${tail
    .slice(0, -1)
    .map((line) => `\n  before that: ${line}`)
    .join('')}`;
  const isFull = tail.some((line) => /No space left on device|Disk quota exceeded/.test(line));
  return new BuilderError(
    isFull ? 'host_disk_full' : 'command_failed',
    `${program} ended with ${ending}${lines}`,
  );
}
