// A command of the operator that prints a value. It and all that it started end with it or with its time.
import type { ChildProcess } from 'node:child_process';
import { startProgram } from '../lib/programs.ts';

/** RangeError for more than `maxBytes`; other errors do not say what it wrote. The caller wipes the bytes. */
export function readCommand(
  path: string,
  { maxBytes, timeoutMs }: { readonly maxBytes: number; readonly timeoutMs: number },
): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const child = startProgram(path, [], { detached: true, stdio: ['ignore', 'pipe', 'ignore'] });
  const parts: Buffer[] = [];
  let size = 0;
  const fail = (error: Error): void => {
    killGroup(child);
    child.stdout?.destroy();
    reject(error);
  };
  const timer = setTimeout(() => fail(new Error('it took too long')), timeoutMs);
  child.stdout?.on('data', (part: Buffer) => {
    size += part.length;
    if (size > maxBytes) fail(new RangeError(`it has more than ${maxBytes} bytes`));
    else parts.push(part);
  });
  child.on('error', fail);
  child.on('close', (code) => {
    if (code === 0) resolve(Buffer.concat(parts));
    else reject(new Error('it failed'));
  });
  return promise.finally(() => {
    clearTimeout(timer);
    for (const part of parts) part.fill(0);
  });
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}
