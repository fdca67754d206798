// The network of a sandbox: addresses of its own, and a namespace that its VMM runs in.
import { AppError } from '../../lib/errors.ts';
import type { Network, NetworkSlot } from '../../network/index.ts';
import type { Resource, ResourceContext, Site } from './resource.ts';

export const network: Resource = {
  stage: () => 'network',

  async acquire(making) {
    const { context, held, update, record } = making;
    if (record.options.network === undefined) return;
    const network = networkOf(context);
    const slot = await network.lease();
    await update({ network: slot });
    context.faults.reach('start.network-recorded');
    await network.make(slot);
    context.faults.reach('start.network-made');
    await network.publish(slot, record.options.publish ?? []);
    context.faults.reach('start.network-published');
    await serve(network, slot, making, false);
    held.network = slot;
    context.faults.reach('start.network');
  },

  async adopt(site) {
    const { context, held, log } = site;
    const { network: slot } = site.record;
    if (slot === undefined) return;
    const network = networkOf(context);
    held.network = slot;
    network.adopt(slot);
    // A boot of the host has ended it, with its VMM.
    await serve(network, slot, site, true).catch((err) =>
      log.warn({ err }, 'a sandbox has lost its network'),
    );
    await network
      .adoptPorts(slot, site.record.options.publish ?? [])
      .catch((err) => log.warn({ err }, 'a sandbox has lost its published ports'));
  },

  async release({ context, record }) {
    if (record?.network !== undefined) await context.network?.silence(record.network);
    context.faults.reach('delete.network-silenced');
  },

  async sweep({ context, record }) {
    if (record?.network !== undefined) await context.network?.remove(record.network);
    context.faults.reach('delete.network');
  },
};

/** AppError unsupported on a daemon without networks. */
function networkOf({ network }: ResourceContext): Network {
  if (network !== undefined) return network;
  throw new AppError('unsupported', 'networks are not enabled on this daemon; leave network and publish out');
}

async function serve(
  network: Network,
  slot: NetworkSlot,
  { record, held }: Site,
  wasServed: boolean,
): Promise<void> {
  const { allowlist = [] } = record.options.network ?? {};
  const onDenied = (text: string) => held.sandboxLog?.event('exec', text);
  await network.serve(slot, { allowlist, wasServed, onDenied });
}
