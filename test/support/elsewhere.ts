// A process in a PID namespace of its own, as in another container: neither sees the other.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import type { Test } from 'tap';

/** Runs `code` with the `module` of that path below the checkout, and then waits. */
export function startElsewhere(t: Test, path: string, code: string) {
  const module = join(import.meta.dirname, '../..', path);
  const script = `const module = await import(${JSON.stringify(module)});
    ${code}
    console.log('done');
    process.stdin.resume();`;
  const args = [
    '--pid',
    '--fork',
    '--kill-child',
    '--mount-proc',
    process.execPath,
    '--input-type=module',
    '-e',
  ];
  const child = spawn('unshare', [...args, script], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.teardown(() => child.kill('SIGKILL'));
  const done = new Promise<void>((resolve, reject) => {
    child.stdout.on('data', (text) => String(text).includes('done') && resolve());
    child.once('exit', (code) => reject(new Error(`it ended with ${code}`)));
  });
  return { child, done };
}
