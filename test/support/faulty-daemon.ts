// A program: the daemon from its sources, with the faults of the file that TEST_FAULTS names. `sandboxd` itself has no
// fault injection.
import { appendFileSync, readFileSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { serve } from '../../host-agent/src/commands/serve.ts';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import type { FaultPoint, Faults } from '../../host-agent/src/lib/faults.ts';
import { HELPERS } from './helper-programs.ts';

/**
 * The file's text is `<point> <error|kill> [passes]`: after this many passes of the point, the fault occurs each time.
 */
class FileFaults implements Faults {
  readonly #path: string;
  #text = '';
  #passes = 0;

  constructor(path: string) {
    this.#path = path;
  }

  reach(point: FaultPoint): void {
    this.#tell(point);
    const text = this.#read();
    if (text !== this.#text) {
      this.#text = text;
      this.#passes = 0;
    }
    const [wanted, action, passes = '0'] = text.trim().split(/\s+/);
    if (wanted !== point || this.#passes++ < Number(passes)) return;
    if (action === 'error') throw new AppError('internal', `a fault was injected at ${point}`);
    // Node writes its cache at a regular end; without it the next daemon compiles all sources again.
    flushCompileCache();
    process.kill(process.pid, 'SIGKILL');
    // The signal is pending; no further action may occur.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  }

  /** Names the point on TEST_FAULT_MARKS, a pipe, and gives its reader time to see it before anything else happens. */
  #tell(point: FaultPoint): void {
    const marks = process.env.TEST_FAULT_MARKS;
    if (marks === undefined) return;
    appendFileSync(marks, `${point}\n`);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
  }

  #read(): string {
    try {
      return readFileSync(this.#path, 'utf8');
    } catch {
      return '';
    }
  }
}

/** The host's clock is off by the milliseconds in this file, which a test changes. */
function followClock(path: string): void {
  let offsetMs = 0;
  const RealDate = Date;
  const now = (): number => RealDate.now() + offsetMs;
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args) => Reflect.construct(target, args.length === 0 ? [now()] : args),
    get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
  });
  const read = (): void => {
    try {
      offsetMs = Number(readFileSync(path, 'utf8'));
    } catch {
      offsetMs = 0;
    }
  };
  setInterval(read, 200).unref();
}

if (process.env.TEST_CLOCK !== undefined) followClock(process.env.TEST_CLOCK);
await serve(process.argv.slice(2), {
  faults: new FileFaults(process.env.TEST_FAULTS ?? ''),
  helpers: HELPERS,
});
