// What the labs of guests share: an internet whose servers say what arrives, and guests that run programs.
import type { Test } from 'tap';
import type { NetworkOptions, NetworkPolicy, NetworkSlot } from '../../../host-agent/src/network/index.ts';
import type { ServeOptions } from '../../../host-agent/src/network/network-options.ts';
import { Lab } from './lab.ts';

/** Lines of the servers of `script`, which prints one when they are up. */
export async function openInternet(t: Test, script: string) {
  const lab = await Lab.open(t);
  const seen: string[] = [];
  const witness = await lab.serve(lab.internet, script);
  collect(witness.stdout, seen);
  return { lab, seen };
}

export type GuestOptions = {
  readonly policy: Partial<NetworkPolicy>;
  /** Begins each script: functions that return a word. */
  readonly program: (slot: NetworkSlot) => string;
  readonly served: Omit<ServeOptions, keyof NetworkPolicy | 'wasServed' | 'before'>;
  readonly network?: Partial<NetworkOptions>;
  readonly roots?: string;
};

/** A guest on a network of its own, which go with the test. */
export async function openGuest(t: Test, lab: Lab, { policy, program, served, ...options }: GuestOptions) {
  const openNetwork = () => lab.openNetwork(options.network, options.roots);
  const network = await openNetwork();
  const slot = await network.allocate();
  await network.create(slot);
  /** Of the daemon that runs now. */
  const owner = { network };
  await network.start(slot, { allowlist: [], ...policy, ...served, wasServed: false });
  const guest = await lab.boot(slot);
  t.teardown(async () => {
    guest.unplug();
    await owner.network.destroy(slot);
    await owner.network.close();
  });
  const run = async (script: string): Promise<Record<string, unknown>> =>
    JSON.parse(
      await guest.js(
        `${program(slot)} const out = {}; ${script} console.log(JSON.stringify(out)); process.exit();`,
      ),
    );
  const change = (to: Partial<NetworkPolicy>) =>
    owner.network.change(
      slot,
      { allowlist: [], ...to },
      served.generation === undefined ? undefined : served.generation + 1,
    );
  /** Runs until the test's end, and prints lines. */
  const background = async (script: string) => {
    const child = await lab.serve(
      guest.namespace,
      `console.log('started'); setTimeout(async () => {${program(slot)} ${script}}, 100); setInterval(() => {}, 1000);`,
    );
    const lines: string[] = [];
    collect(child.stdout, lines);
    return lines;
  };
  /** Ends the daemon; the result starts the next. */
  const endDaemon = async () => {
    await owner.network.close();
    return async (to: Partial<NetworkPolicy> & { before?: NetworkPolicy }) => {
      owner.network = await openNetwork();
      owner.network.adopt(slot);
      await owner.network.start(slot, { allowlist: [], ...to, ...served, wasServed: true });
    };
  };
  return { slot, guest, network, owner, run, change, background, endDaemon };
}

function collect(from: NodeJS.ReadableStream | null, lines: string[]): void {
  from?.on('data', (data) => lines.push(...String(data).trim().split('\n')));
}
