// The network of a sandbox: its addresses, and the network namespace of its VMM.
import type { EgressRecord, NetworkSlot } from '../../network/index.ts';
import type { SandboxRecord } from '../record.ts';
import { heldPolicyOf } from '../secret-hosts.ts';
import type { Resource, ResourceContext, SandboxContext, SandboxNetworks } from './resource.ts';

export const network: Resource = {
  stage: () => 'network',

  async acquire(start) {
    const { context, handles, update, record } = start;
    const { network } = context;
    if (record.options.network === undefined) return;
    const slot = await network.allocate();
    await update({ network: slot });
    context.faults.reach('start.network-recorded');
    await network.create(slot);
    context.faults.reach('start.network-made');
    await network.publish(slot, record.options.publish ?? []);
    context.faults.reach('start.network-published');
    await startNetwork(network, slot, start, false);
    handles.network = slot;
    context.faults.reach('start.network');
  },

  async adopt(sandbox) {
    const { context, handles, log } = sandbox;
    const { network: slot } = sandbox.record;
    if (slot === undefined) return;
    const { network } = context;
    handles.network = slot;
    network.adopt(slot);
    if (sandbox.record.paused !== undefined && !(await network.exists(slot))) {
      await ensureNetwork(sandbox).catch((err) =>
        log.warn({ err }, 'a paused sandbox has lost its network; its resume makes it again'),
      );
      return;
    }
    await startNetwork(network, slot, sandbox, true).catch((err) =>
      log.warn({ err }, 'a sandbox has lost its network'),
    );
    await network
      .adoptPorts(slot, sandbox.record.options.publish ?? [], sandbox.record.paused !== undefined)
      .catch((err) => log.warn({ err }, 'a sandbox has lost its published ports'));
  },

  async release({ context, record }) {
    if (record?.network !== undefined) await context.network.stop(record.network);
    context.faults.reach('delete.network-silenced');
  },

  async sweep({ id, context, record, wasVisible }) {
    if (record?.network !== undefined) await context.network.clear(record.network);
    await context.egressLog.end(id, wasVisible);
    context.faults.reach('delete.network');
  },
};

/**
 * A network that a reboot, of the host or of the daemon's container, has taken gets a place in the run directory of
 * this daemon.
 */
export async function placeNetwork(
  { network, records }: Pick<ResourceContext, 'network' | 'records'>,
  id: string,
  record: SandboxRecord,
): Promise<SandboxRecord> {
  if (record.network === undefined || (await network.exists(record.network))) return record;
  const placed = { ...record, network: network.placed(record.network) };
  if (placed.network.namespace !== record.network.namespace) await records.put(id, placed);
  return placed;
}

/** Makes the network of a paused sandbox again if it is gone: its addresses are in its guest's memory. */
export async function ensureNetwork(sandbox: SandboxContext): Promise<void> {
  const { context, record, log } = sandbox;
  const { network: slot } = record;
  if (slot === undefined || (await context.network.exists(slot))) return;
  const { network } = context;
  await network.createAgain(slot);
  try {
    await startNetwork(network, slot, sandbox, false);
  } catch (error) {
    await network.clear(slot).catch(() => undefined);
    throw error;
  }
  await network
    .publish(slot, record.options.publish ?? [], true)
    .catch((err) => log.warn({ err }, 'a paused sandbox has lost its published ports'));
}

async function startNetwork(
  network: SandboxNetworks,
  slot: NetworkSlot,
  { id, context, record, handles }: SandboxContext,
  wasServed: boolean,
): Promise<void> {
  const { allowlist = [], rules, presets, log: mode } = heldPolicyOf(record) ?? {};
  const { networkBefore: before, networkGeneration: generation = 1 } = record;
  const { egressLog } = context;
  await egressLog.begin(id, { mode, generation }, record.owner?.tenant);
  const onDenied = (text: string) => handles.sandboxLog?.event('exec', text);
  const bindings = () => context.records.get(id)?.metadata?.secrets ?? [];
  const onEgress = (found: EgressRecord) => {
    egressLog.add(id, found);
    if (found.verdict === 'allowed' && found.secrets !== undefined)
      context.secrets.noteUse(bindings(), found);
  };
  const onMissed = (count: number) => egressLog.miss(id, count);
  // A change of the policy may have made it, and writes secrets before the gateway asks.
  const authority = async () => {
    const made = context.records.get(id)?.authority ?? record.authority;
    return made === undefined ? undefined : context.authorities.open(made);
  };
  const secrets = {
    now: () => context.secrets.forGateway(bindings()),
    refresh: () => context.secrets.refresh(bindings()),
  };
  const served = { before, wasServed, generation, authority, secrets, onDenied, onEgress, onMissed };
  await network.start(slot, { allowlist, rules, presets, ...served });
}
