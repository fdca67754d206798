// Records the packets of test/guest/escape.c that are visible in a network namespace, by interface.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

export class Witness {
  readonly #child: ChildProcess;
  #text = '';

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
      this.#text += chunk;
    });
  }

  /** `program`: test/guest/witness.c. Without a namespace, it captures in the test's own. Capturing starts at once. */
  static async start(program: string, namespace?: string): Promise<Witness> {
    const command = namespace === undefined ? [] : ['nsenter', `--net=${namespace}`, '--'];
    const [first = '', ...rest] = [...command, program];
    const child = spawn(first, rest, { stdio: ['pipe', 'pipe', 'inherit'] });
    const witness = new Witness(child);
    await once(child.stdout as NodeJS.ReadableStream, 'data');
    return witness;
  }

  /** Stops capturing; returns the packets: `tap0 <escape:udp to host port 7>`. */
  async end(): Promise<string[]> {
    const ended = once(this.#child, 'close');
    this.#child.stdin?.end();
    await ended;
    return this.#text.split('\n').filter((line) => line.includes('<'));
  }
}

/** Names of the packets on one of these interfaces. */
export function namesOn(
  seen: readonly string[],
  kind: 'escape' | 'control',
  ...interfaces: string[]
): string[] {
  return seen.flatMap((line) => {
    const [, link = '', said, name = ''] = /^(\S+) <(\w+):(.*)>$/.exec(line) ?? [];
    return said === kind && (interfaces.length === 0 || interfaces.includes(link)) ? [name] : [];
  });
}
