// Changes of what a guest may reach, while it runs or is paused. The record is written before the rules of the kernel
// are changed, with what held until then: the next daemon completes a change that was cut short.
import { isDeepStrictEqual } from 'node:util';
import { INTERNET_PRESET } from '@sandboxd/api';
import type { Logger } from 'pino';
import type { Limits, RequestContext } from '../keys/index.ts';
import { AppError, firstLine, toError } from '../lib/errors.ts';
import type { Faults } from '../lib/faults.ts';
import { parseIpv4 } from '../lib/ipv4.ts';
import {
  type EgressLog,
  EgressPolicy,
  type NamedPresets,
  type NetworkPolicy,
  type NetworkSlot,
  type Traffic,
} from '../network/index.ts';
import type { Presets } from '../network/presets.ts';
import { assertFew, resolvePolicy } from '../network/resolve-policy.ts';
import type { SandboxSecrets, StoredBinding } from '../secrets/index.ts';
import { asNoSpace } from './admission.ts';
import type { LifecycleEvents } from './lifecycle-events.ts';
import { metadataOf } from './metadata.ts';
import type { ChangedNetwork, ExplainedVerdict, NetworkChange, NetworkState } from './network-types.ts';
import { goneSandbox, type SandboxRecord } from './record.ts';
import type { SandboxNetworks } from './resources/resource.ts';
import type { Sandbox } from './sandbox.ts';
import { findChangedSecrets, patchSecrets, withSecrets } from './secret-changes.ts';
import { assertInspectable, heldPolicyOf, withInspection } from './secret-hosts.ts';
import { toSecretInfos } from './secrets.ts';
import { changeTrust, makeAuthorityFor, type TrustDeps } from './trust-changes.ts';

/** The part of `Presets` that sandboxes need. */
export type SandboxPresets = NamedPresets & Pick<Presets, 'assertAvailable' | 'withCurrentNames'>;

export type NetworkChangeDeps = {
  readonly network: Pick<SandboxNetworks, 'change' | 'changeSecrets' | 'shut'>;
  readonly egressLog: Pick<EgressLog, 'change'>;
  readonly secrets: Pick<SandboxSecrets, 'change' | 'hasValue'>;
  readonly presets: SandboxPresets;
  readonly limits: Pick<Limits, 'admitNetwork' | 'admitSecrets'>;
  readonly authorities: TrustDeps['authorities'];
  readonly events: LifecycleEvents;
  readonly faults: Faults;
};

type ReadSandbox = Pick<Sandbox, 'id' | 'record' | 'authority'>;

type ApplyDeps = Omit<NetworkChangeDeps, 'limits' | 'presets' | 'secrets'>;

/** AppError conflict without a network. */
export function networkStateOf(
  { id, record, authority }: ReadSandbox,
  secrets: Pick<SandboxSecrets, 'hasValue'>,
): NetworkState {
  const { slot, policy } = networkOf(id, record);
  const { guestIp, gateway } = slot;
  const bound = toSecretInfos(metadataOf(record).secrets ?? [], secrets);
  const state = { ...policy, secrets: bound, generation: generationOf(record), guestIp, gateway };
  return { ...state, ...(authority && { ca: authority }) };
}

/** Names and addresses are judged as the policy has them; nothing is resolved. AppError conflict without a network. */
export function checkNetwork(
  { id, record }: Pick<Sandbox, 'id' | 'record'>,
  host: string,
  traffic: Traffic,
  network: Pick<SandboxNetworks, 'namesOf'>,
): ExplainedVerdict {
  const { slot, policy } = networkOf(id, record);
  const egress = new EgressPolicy(heldPolicyOf(record) ?? policy);
  const generation = generationOf(record);
  const verdict = egress.check(host, traffic);
  if (verdict.isAllowed || parseIpv4(host) === undefined) return { ...verdict, generation };
  for (const name of network.namesOf(slot, host)) {
    const byName = egress.check(name, traffic);
    // Not the name: below a wildcard it is data of the guest, which not every client may see.
    const reason =
      'a name that the guest has resolved leads to the address; it is open for as long as its DNS record';
    if (byName.isAllowed) return { ...byName, reason, generation };
  }
  return { ...verdict, generation };
}

/**
 * AppError not_found, conflict for another generation or without a network, invalid_argument, forbidden, unsupported,
 * internal with what holds.
 */
export async function changeNetwork(
  sandbox: Sandbox,
  change: NetworkChange,
  request: RequestContext,
  deps: NetworkChangeDeps,
): Promise<ChangedNetwork> {
  let closed = 0;
  const carryOut = async (): Promise<void> => {
    closed = await carryOutChange(sandbox, change, request, deps);
  };
  // Not in the middle of a pause or resume, which changes its record, too.
  await sandbox.snapshotQueue.add(() => sandbox.changes.add(carryOut));
  return { ...networkStateOf(sandbox, deps.secrets), closed };
}

async function carryOutChange(
  sandbox: Sandbox,
  change: NetworkChange,
  request: RequestContext,
  deps: NetworkChangeDeps,
): Promise<number> {
  const { presets, limits } = deps;
  const { id } = sandbox;
  assertExists(sandbox);
  sandbox.use.touch();
  const { record } = sandbox;
  const { policy: before } = networkOf(id, record);
  const current = generationOf(record);
  const { ifGeneration = current } = change;
  if (ifGeneration !== current)
    throw new AppError(
      'conflict',
      `the network of sandbox ${id} has generation ${current}, not ${ifGeneration}`,
    );
  const policy = patchPolicy(before, change, presets);
  limits.admitNetwork(request, presets.withCurrentNames(policy));
  const secrets = patchSecrets(record, change, request, deps);
  return applyPolicy(sandbox, policy, deps, secrets);
}

async function applyPolicy(
  sandbox: Sandbox,
  policy: NetworkPolicy,
  deps: ApplyDeps,
  secrets: readonly StoredBinding[] = metadataOf(sandbox.record).secrets ?? [],
): Promise<number> {
  const { network, events, egressLog, faults, authorities } = deps;
  const { id, record } = sandbox;
  const { slot, policy: before } = networkOf(id, record);
  const current = generationOf(record);
  const names = findChangedSecrets(metadataOf(record).secrets ?? [], secrets);
  const changed = [...findChanges(before, policy), ...(names.length > 0 ? ['secrets'] : [])];
  if (changed.length === 0 && record.networkBefore === undefined) return 0;
  const generation = current + 1;
  assertInspectable(policy, secrets);
  const held = withInspection(policy, secrets);
  const made = await makeAuthorityFor(sandbox, held, authorities);
  const { networkBefore: pending, ...settled } = record;
  const options = { ...record.options, network: policy };
  const metadata = withSecrets(metadataOf(record), secrets);
  const authority = made && { authority: made.id };
  const next = { ...settled, options, metadata, networkGeneration: generation, ...authority };
  // Where a change failed before this one, any of its connections may be there as well.
  const networkBefore = pending === undefined ? (heldPolicyOf(record) ?? before) : 'unknown';
  await sandbox.replaceRecord({ ...next, networkBefore }, made?.persist).catch((error: unknown) => {
    throw asNoSpace(error, 'change the network of the sandbox', 'record') ?? error;
  });
  faults.reach('network.recorded');
  egressLog.change(id, { mode: policy.log, generation });
  await changeTrust(sandbox, record, next, deps);
  const closed = await network
    .change(slot, held, generation)
    .catch((error: unknown) => undo(sandbox, record, deps, error));
  faults.reach('network.changed');
  assertExists(sandbox);
  const event = events.prepare(
    { kind: 'network-changed', sandbox: id, generation, changed, closed },
    record.owner,
    record.metadata,
  );
  const bound = events.prepare(
    { kind: 'secrets-changed', sandbox: id, changed: names },
    record.owner,
    record.metadata,
  );
  const prepared = names.length > 0 ? [event, bound] : [event];
  await sandbox.replaceRecord(next, () => {
    for (const each of prepared) each.persist();
  });
  for (const each of prepared) each.publish();
  return closed;
}

/**
 * Rejects always. Where the earlier policy cannot be restored, the network is closed until the next change or daemon
 * applies the new one.
 */
async function undo(
  sandbox: Sandbox,
  record: SandboxRecord,
  deps: ApplyDeps,
  cause: unknown,
): Promise<never> {
  assertExists(sandbox);
  const { network, egressLog } = deps;
  const { slot, policy } = networkOf(sandbox.id, record);
  const reason = firstLine(toError(cause));
  const held = heldPolicyOf(record) ?? policy;
  const isRestored = await network.change(slot, held, generationOf(record)).then(
    () => true,
    () => false,
  );
  const isShut = isRestored || (await shut(network, slot));
  assertExists(sandbox);
  if (isRestored) {
    const { record: failed } = sandbox;
    // The guest has it in its files.
    const { authority } = failed;
    const restored = { ...record, ...(authority !== undefined && { authority }) };
    await sandbox.replaceRecord(restored);
    await changeTrust(sandbox, failed, restored, deps);
    await network.changeSecrets(slot).catch(() => undefined);
    egressLog.change(sandbox.id, { mode: policy.log, generation: generationOf(record) });
  }
  const until = 'until the next change, or until the daemon starts again';
  const state = isRestored
    ? 'the earlier policy holds'
    : `${isShut ? 'nothing passes' : 'either policy may hold'} ${until}`;
  throw new AppError('internal', `cannot change the network of sandbox ${sandbox.id}; ${state}: ${reason}`, {
    cause: toError(cause),
  });
}

/** Tried twice: the program that does it may have been killed, and starts again. */
async function shut(network: NetworkChangeDeps['network'], slot: NetworkSlot): Promise<boolean> {
  const tryOnce = () =>
    network.shut(slot).then(
      () => true,
      () => false,
    );
  return (await tryOnce()) || (await tryOnce());
}

/** The changes that an earlier daemon began are complete, as their networks were adopted. */
export async function settleNetworks(
  sandboxes: readonly Sandbox[],
  network: Pick<SandboxNetworks, 'isServed'>,
  log: Logger,
): Promise<void> {
  const settle = (sandbox: Sandbox) => async (): Promise<void> => {
    const { networkBefore, ...record } = sandbox.record;
    if (networkBefore === undefined || record.network === undefined || !network.isServed(record.network))
      return;
    // The record of a delete must stay.
    if (isLeaving(sandbox)) return;
    await sandbox
      .replaceRecord(record)
      .catch((err) => log.warn({ err, sandbox: sandbox.id }, 'the next daemon changes a network again'));
  };
  await Promise.all(sandboxes.map((sandbox) => sandbox.changes.add(settle(sandbox))));
}

/** What the operator does not offer any more is closed when the daemon starts: their word is newer. */
export async function closeInternet(
  sandboxes: readonly Sandbox[],
  deps: Omit<NetworkChangeDeps, 'limits' | 'secrets'>,
  log: Logger,
): Promise<void> {
  const close = async (sandbox: Sandbox): Promise<void> => {
    const { network: policy } = sandbox.record.options;
    if (policy?.presets?.some(({ name }) => name === INTERNET_PRESET) !== true || isLeaving(sandbox)) return;
    const { presets = [], ...rest } = policy;
    const left = presets.filter(({ name }) => name !== INTERNET_PRESET);
    await applyPolicy(sandbox, { ...rest, ...(left.length > 0 && { presets: left }) }, deps);
    log.info({ sandbox: sandbox.id }, 'closed what the preset internet had opened: it is off now');
  };
  const closeLogged = (sandbox: Sandbox) =>
    sandbox.changes
      .add(() => close(sandbox))
      .catch((err) =>
        log.error({ err, sandbox: sandbox.id }, 'cannot close what the preset internet opened'),
      );
  if (!isOffered(deps.presets)) await Promise.all(sandboxes.map(closeLogged));
}

function isOffered(presets: SandboxPresets): boolean {
  try {
    presets.assertAvailable([{ name: INTERNET_PRESET, rules: [] }]);
    return true;
  } catch {
    return false;
  }
}

function patchPolicy(before: NetworkPolicy, change: NetworkChange, presets: NamedPresets): NetworkPolicy {
  const { allowlist = before.allowlist, rules = before.rules, log = before.log } = change;
  const policy = resolvePolicy({ allowlist, rules, presets: change.presets, log }, presets);
  if (change.presets !== undefined || before.presets === undefined) return policy;
  const kept = { ...policy, presets: before.presets };
  assertFew(kept);
  return kept;
}

function findChanges(before: NetworkPolicy, after: NetworkPolicy): string[] {
  const lists = (['allowlist', 'rules', 'presets'] as const).filter(
    (field) => !isDeepStrictEqual(before[field] ?? [], after[field] ?? []),
  );
  return before.log === after.log ? lists : [...lists, 'log'];
}

function networkOf(id: string, record: SandboxRecord): { slot: NetworkSlot; policy: NetworkPolicy } {
  const { network: slot, options } = record;
  if (slot !== undefined && options.network !== undefined) return { slot, policy: options.network };
  throw new AppError('conflict', `sandbox ${id} has no network`);
}

function generationOf({ networkGeneration = 1 }: SandboxRecord): number {
  return networkGeneration;
}

/** AppError not_found. */
function assertExists(sandbox: Sandbox): void {
  if (isLeaving(sandbox)) throw goneSandbox(sandbox);
}

function isLeaving({ isGone, state }: Sandbox): boolean {
  return isGone || state === 'deleting' || state === 'deleted';
}
