// One machine of the test's internet: a network namespace with addresses, and programs that run in it.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);
const MAX_OUTPUT_BYTES = 64 * 2 ** 20;

export class Place {
  readonly name: string;
  /** The first is what it is called by. */
  readonly addresses: readonly string[];
  /** As `ip netns` knows it; absent: that of the test. */
  readonly namespace: string | undefined;
  readonly #children = new Set<ChildProcess>();

  constructor(name: string, namespace: string | undefined, addresses: readonly string[]) {
    this.name = name;
    this.namespace = namespace;
    this.addresses = addresses;
  }

  get address(): string {
    return this.addresses[0] ?? '';
  }

  /** Of the network namespace; the mounts are those of the test. */
  get path(): string {
    return this.namespace === undefined ? '/proc/self/ns/net' : `/run/netns/${this.namespace}`;
  }

  /** For what starts programs by itself: those that become `command` in this place. */
  enter(command: readonly string[]): string[] {
    return ['nsenter', `--net=${this.path}`, '--', ...command];
  }

  /** What it printed. Rejects with its errors when it fails. */
  async run(...command: string[]): Promise<string> {
    const [program = '', ...args] = this.enter(command);
    return (await run(program, args, { maxBuffer: MAX_OUTPUT_BYTES })).stdout;
  }

  sh(script: string): Promise<string> {
    return this.run('sh', '-ec', script);
  }

  /** A program that runs until the place is closed, or `end` ends it and what it started. */
  start(...command: string[]): ChildProcess {
    const [program = '', ...args] = this.enter(command);
    const child = spawn(program, args, { detached: true, stdio: ['pipe', 'pipe', 'inherit'] });
    this.#children.add(child);
    child.once('exit', () => this.#children.delete(child));
    return child;
  }

  async end(child: ChildProcess): Promise<void> {
    if (!this.#children.has(child) || child.pid === undefined) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    process.kill(-child.pid, 'SIGKILL');
    await ended;
  }

  /** Resolves when something listens on the port, of that address if one is given. */
  async listening(protocol: 'tcp' | 'udp', port: number, address?: string): Promise<void> {
    const source =
      address === undefined ? '' : ` and src ${address.includes(':') ? `[${address}]` : address}`;
    const list = `ss -H -${protocol[0]}ln 'sport = :${port}${source}'`;
    await this.sh(`for _ in $(seq 500); do ${list} | grep -q . && exit 0; sleep 0.02; done; exit 1`);
  }

  async close(): Promise<void> {
    for (const child of this.#children) await this.end(child);
  }
}
