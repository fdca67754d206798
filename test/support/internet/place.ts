// One machine of the test's internet: a network namespace with addresses, and its programs.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);
const MAX_OUTPUT_BYTES = 64 * 2 ** 20;

export class Place {
  readonly name: string;
  /** The first address identifies it. */
  readonly addresses: readonly string[];
  /** The name for `ip netns`; absent: the test's own namespace. */
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

  /** Path of the network namespace; mounts are those of the test. */
  get path(): string {
    return this.namespace === undefined ? '/proc/self/ns/net' : `/run/netns/${this.namespace}`;
  }

  /** Command line that runs `command` in this machine. */
  enter(command: readonly string[]): string[] {
    return ['nsenter', `--net=${this.path}`, '--', ...command];
  }

  /** Returns its standard output. Rejects with its errors when it fails. */
  async run(...command: string[]): Promise<string> {
    const [program = '', ...args] = this.enter(command);
    return (await run(program, args, { maxBuffer: MAX_OUTPUT_BYTES })).stdout;
  }

  sh(script: string): Promise<string> {
    return this.run('sh', '-ec', script);
  }

  /** Starts a program that runs until the machine is closed, or `end` kills it and its children. */
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

  /** Resolves when the port, of that address if one is given, has a listener. */
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
