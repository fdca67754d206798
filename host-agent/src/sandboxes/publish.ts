// Ports of the host that lead to a sandbox, published and freed while it exists.
import type { Logger } from 'pino';
import type { Limits, RequestContext } from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';
import { isSamePort, type PublishedPort } from '../network/index.ts';
import { asNoSpace } from './admission.ts';
import type { LifecycleEvents } from './lifecycle-events.ts';
import { goneSandbox } from './record.ts';
import { assertFewPorts } from './resolve-create.ts';
import type { SandboxNetworks } from './resources/resource.ts';
import type { Sandbox } from './sandbox.ts';
import type { Sleep } from './sleep/sleep.ts';

export type PublishChange =
  | { readonly add: PublishedPort }
  /** On all addresses. */
  | { readonly remove: Pick<PublishedPort, 'hostPort' | 'guestPort'> };

type PublishDeps = {
  readonly context: {
    readonly network: Pick<SandboxNetworks, 'publish' | 'unpublish'>;
    readonly events: LifecycleEvents;
  };
  readonly limits: Pick<Limits, 'admitPorts'>;
  readonly sleep: Pick<Sleep, 'holdPorts'>;
  readonly log: Logger;
};

/**
 * AppError not_found, forbidden, conflict for a port in use, invalid_argument without a network and for an address that
 * this host does not have.
 */
export async function changePublished(
  sandbox: Sandbox,
  change: PublishChange,
  request: RequestContext,
  deps: PublishDeps,
): Promise<void> {
  const apply = async (): Promise<void> => {
    if (sandbox.isGone || sandbox.state === 'deleting' || sandbox.state === 'deleted')
      throw goneSandbox(sandbox);
    sandbox.use.touch();
    if ('add' in change) await publish(sandbox, change.add, request, deps);
    else await unpublish(sandbox, change.remove, deps);
  };
  // Not in the middle of a pause or resume, which changes its record, too.
  await sandbox.snapshotQueue.add(() => sandbox.changes.add(apply));
}

async function publish(
  sandbox: Sandbox,
  port: PublishedPort,
  request: RequestContext,
  deps: PublishDeps,
): Promise<void> {
  const { network: slot, options, owner, paused } = sandbox.record;
  const before = options.publish ?? [];
  if (before.some((each) => isSamePort(each, port))) return;
  if (slot === undefined)
    throw new AppError(
      'invalid_argument',
      'publish needs a sandbox that has a network, and this one has none',
    );
  const after = [...before, port];
  assertFewPorts(after);
  using _admitted = deps.limits.admitPorts(request, owner, [port]);
  await deps.context.network.publish(slot, [port], paused !== undefined);
  try {
    await record(sandbox, 'port-published', [port], after, deps.context.events);
  } catch (error) {
    await deps.context.network.unpublish(slot, port).catch((err) => {
      deps.log.warn({ err, sandbox: sandbox.id }, 'cannot free a port that could not be published');
    });
    throw error;
  } finally {
    if (paused !== undefined) await deps.sleep.holdPorts(sandbox);
  }
}

/** The record first: the next daemon frees what this one did not. */
async function unpublish(
  sandbox: Sandbox,
  { hostPort, guestPort }: Pick<PublishedPort, 'hostPort' | 'guestPort'>,
  { context: { network, events }, sleep }: PublishDeps,
): Promise<void> {
  const { network: slot, options, paused } = sandbox.record;
  const isOne = (each: PublishedPort) => each.hostPort === hostPort && each.guestPort === guestPort;
  const freed = (options.publish ?? []).filter(isOne);
  if (slot === undefined || freed.length === 0) return;
  const after = (options.publish ?? []).filter((each) => !isOne(each));
  await record(sandbox, 'port-unpublished', freed, after, events);
  for (const port of freed) await network.unpublish(slot, port);
  if (paused !== undefined) await sleep.holdPorts(sandbox);
}

async function record(
  sandbox: Sandbox,
  kind: 'port-published' | 'port-unpublished',
  changed: readonly PublishedPort[],
  publish: readonly PublishedPort[],
  events: LifecycleEvents,
): Promise<void> {
  const { record } = sandbox;
  const { publish: _, ...options } = record.options;
  const pending = changed.map(({ hostIp, hostPort, guestPort: port }) => {
    const about = { kind, sandbox: sandbox.id, port, hostPort, ...(hostIp !== undefined && { hostIp }) };
    return events.prepare(about, record.owner, record.metadata);
  });
  const next = { ...record, options: { ...options, ...(publish.length > 0 && { publish }) } };
  const persist = () => {
    for (const event of pending) event.persist();
  };
  await sandbox.replaceRecord(next, persist).catch((error: unknown) => {
    throw asNoSpace(error, 'change the ports of the sandbox', 'record') ?? error;
  });
  for (const event of pending) event.publish();
}
