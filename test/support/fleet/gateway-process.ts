// `sandboxd gateway` in a process of its own, for tests that kill it.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import type { Test } from 'tap';
import { until } from '../until.ts';

/** Of a process on a busy machine. */
const START_MS = 90_000;
const MAIN = join(import.meta.dirname, '../../../host-agent/src/main.ts');

/** Resolves when it listens. */
export async function startGateway(
  t: Test,
  flags: readonly string[],
): Promise<{ readonly url: string; readonly pid: number; kill(): void }> {
  const child = spawn(process.execPath, [MAIN, 'gateway', '--listen=127.0.0.1:0', ...flags], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
  const address = () => /listens on (127\.0\.0\.1:\d+)/.exec(text)?.[1];
  await until(() => address() !== undefined || child.exitCode !== null, 'a gateway that listens', START_MS);
  if (address() === undefined) throw new Error(text);
  return { url: `http://${address()}`, pid: child.pid ?? 0, kill: () => void child.kill('SIGKILL') };
}
