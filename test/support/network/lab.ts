// A host with an internet, as the test's own network. Guests are namespaces behind the taps of sandboxes; they use
// their kernel's own sockets or raw frames.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { pino } from 'pino';
import type { Test } from 'tap';
import { findProgramFiles } from '../../../host-agent/src/engines/jail/jail.ts';
import { LEASES_DIR, leaseUsers } from '../../../host-agent/src/engines/jail/uid-leases.ts';
import {
  HostUpstream,
  Network,
  type NetworkOptions,
  type NetworkSlot,
} from '../../../host-agent/src/network/index.ts';
import { Store } from '../../../host-agent/src/store/store.ts';
import { compileGuestProgram } from '../guest-program.ts';
import { HELPERS } from '../helper-programs.ts';
import { TEST_UIDS } from '../jailed.ts';
import { NameServer } from './name-server.ts';

/** As execFile; tap shows the text of errors only if they have no number as their code. */
const run = (program: string, args: readonly string[]) =>
  promisify(execFile)(program, args).catch((error: Error) => {
    throw new Error(error.message, { cause: error });
  });

/** The host's own address on its network, and those of other machines there. */
export const HOST_IP = '93.184.215.1';
export const WEB_IP = '93.184.215.14';
export const OTHER_IP = '93.184.215.15';
export const PRIVATE_IP = '10.9.9.9';

/** How a network of this daemon is first started where its reports do not matter. */
export const UNHEARD = { wasServed: false, onDenied: () => undefined, onEgress: () => undefined } as const;

export type Output = { readonly code: number; readonly stdout: string; readonly stderr: string };

export class Lab {
  readonly dir: string;
  readonly names: NameServer;
  readonly #t: Test;
  readonly #wire: string;
  readonly #store: Store;
  #guests = 0;

  private constructor(t: Test, dir: string, names: NameServer, wire: string, store: Store) {
    this.#t = t;
    this.dir = dir;
    this.names = names;
    this.#wire = wire;
    this.#store = store;
  }

  static async open(t: Test): Promise<Lab> {
    const dir = await mkdtemp('/tmp/netlab-');
    t.teardown(() => rm(dir, { recursive: true, force: true }));
    await compileGuestProgram('wire', dir);
    const names = await NameServer.open();
    t.teardown(() => names[Symbol.asyncDispose]());
    const store = await Store.open(join(dir, 'state.lmdb'));
    t.teardown(() => store.close());
    const lab = new Lab(t, dir, names, join(dir, 'wire'), store);
    await lab.#makeInternet();
    return lab;
  }

  get internet(): string {
    return join(this.dir, 'internet');
  }

  /** Opens the network module as the daemon does. The caller closes it. */
  async openNetwork(options: Partial<NetworkOptions> = {}, roots?: string): Promise<Network> {
    return Network.open({
      allowedRanges: [],
      upstream: new HostUpstream([this.names.address]),
      runDir: this.dir,
      records: this.#store.table('network'),
      program: HELPERS.netd,
      portProgram: HELPERS.portd,
      egressProgram: HELPERS.egressd,
      gateway: { command: await toGatewayCommand(HELPERS.gateway), roots },
      portUsers: leaseUsers(TEST_UIDS, 'test'),
      log: pino({ level: process.env.LAB_LOG ?? 'silent' }),
      ...options,
    });
  }

  /** Connects a guest to the slot's tap, with its addresses. Returns the path of its namespace. */
  async boot(slot: NetworkSlot): Promise<Guest> {
    // Networks of two tests may choose the same address by chance.
    const path = await this.#makeNamespace(`guest-${slot.guestIp}-${this.#guests++}`);
    const cable = await this.start(['cable', slot.namespace, slot.tap, path, 'eth0']);
    const guest = new Guest(path, cable, this);
    await guest.sh(`
      ip link set eth0 address ${slot.mac}; ip addr add ${slot.guestIp}/${slot.prefixLength} dev eth0
      ip link set eth0 up; ip link set lo up; ip route add default via ${slot.gateway}
    `);
    return guest;
  }

  /** Starts the program that sends and captures frames, and waits until it is ready; it ends with the test. */
  async start(args: readonly string[], namespace?: string): Promise<ChildProcess & { lines: string[] }> {
    const command = namespace === undefined ? [] : ['nsenter', `--net=${namespace}`];
    const [program = '', ...rest] = [...command, this.#wire, ...args];
    const child = Object.assign(spawn(program, rest, { stdio: ['ignore', 'pipe', 'inherit'] }), {
      lines: [] as string[],
    });
    this.#t.teardown(() => child.kill('SIGKILL'));
    const reader = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    reader.on('line', (line) => child.lines.push(line));
    await once(reader, 'line');
    return child;
  }

  /** Sends raw frames. */
  async send(namespace: string, link: string, frames: readonly Buffer[]): Promise<void> {
    await run('nsenter', [
      `--net=${namespace}`,
      this.#wire,
      'send',
      link,
      ...frames.map((frame) => frame.toString('hex')),
    ]);
  }

  /** Starts a Node script in a namespace until the test's end; resolves after its first line. */
  async serve(namespace: string, script: string): Promise<ChildProcess> {
    const child = spawn('nsenter', [`--net=${namespace}`, process.execPath, '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#t.teardown(() => child.kill('SIGKILL'));
    await once(child.stdout as NodeJS.ReadableStream, 'data');
    return child;
  }

  async #makeNamespace(name: string): Promise<string> {
    const path = join(this.dir, name);
    await run('sh', ['-c', `: > ${path} && unshare --net=${path} true`]);
    this.#t.teardown(() => run('umount', [path]).catch(() => undefined));
    return path;
  }

  async #makeInternet(): Promise<void> {
    const path = await this.#makeNamespace('internet');
    await sh(`
      ip link set lo up
      ip link add eth0 type veth peer name eth0 netns ${path}
      ip addr add ${HOST_IP}/24 dev eth0; ip link set eth0 up
    `);
    await sh(
      `ip link set lo up; ip link set eth0 up
       for a in 93.184.215.254 ${WEB_IP} ${OTHER_IP}; do ip addr add $a/24 dev eth0; done
       ip addr add ${PRIVATE_IP}/32 dev eth0`,
      path,
    );
    await sh('ip route add default via 93.184.215.254');
  }
}

export async function toGatewayCommand({ program, args, reads }: typeof HELPERS.gateway) {
  const files = [...(await findProgramFiles(program)), ...reads];
  return { jail: HELPERS.jail, root: LEASES_DIR, program, args, files };
}

export class Guest {
  readonly namespace: string;
  readonly #cable: ChildProcess;
  readonly #lab: Lab;

  constructor(namespace: string, cable: ChildProcess, lab: Lab) {
    this.namespace = namespace;
    this.#cable = cable;
    this.#lab = lab;
  }

  sh(script: string): Promise<string> {
    return sh(script, this.namespace);
  }

  /** Output of a Node script, which may use await. */
  async js(script: string): Promise<string> {
    const program = `(async () => {${script}})().catch((error) => { console.log(error.code ?? error.message); })`;
    const { stdout } = await run('nsenter', [`--net=${this.namespace}`, process.execPath, '-e', program]);
    return stdout.trim();
  }

  send(frames: readonly Buffer[]): Promise<void> {
    return this.#lab.send(this.namespace, 'eth0', frames);
  }

  /** Frames for it wait until it goes on. */
  freeze(): void {
    this.#cable.kill('SIGSTOP');
  }

  goOn(): void {
    this.#cable.kill('SIGCONT');
  }

  unplug(): void {
    this.#cable.kill('SIGKILL');
  }
}

export async function sh(script: string, namespace?: string): Promise<string> {
  const command = ['sh', '-ec', script];
  const [program = '', ...args] =
    namespace === undefined ? command : ['nsenter', `--net=${namespace}`, ...command];
  return (await run(program, args)).stdout;
}
