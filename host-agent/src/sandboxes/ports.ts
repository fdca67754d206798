// The ports of a sandbox: connections to them, and which are open for URLs.
import { type HostHeader, MAX_OPEN_PORTS, type PortAccess } from '@sandboxd/api';
import type { PortConnection, PortOptions } from '../guest/port-stream.ts';
import { AppError } from '../lib/errors.ts';
import { asNoSpace } from './admission.ts';
import type { PortCounts } from './exec.ts';
import type { LifecycleEvents } from './lifecycle-events.ts';
import { goneSandbox } from './record.ts';
import type { Sandbox } from './sandbox.ts';
import type { OpenPort } from './types.ts';

/** A connection is a use until it is closed. AppErrors as in `AwakeSandbox`. */
export async function connectPort(
  sandbox: Sandbox,
  port: number,
  counts: PortCounts,
  options?: PortOptions,
): Promise<PortConnection> {
  sandbox.assertAlive();
  const endUse = sandbox.use.beginUse();
  try {
    const connection = await sandbox.awake.guest.ports.connect(port, options);
    counts.open += 1;
    const onClose = (): void => {
      endUse();
      counts.open -= 1;
      counts.receivedBytes += connection.bytesRead;
      counts.sentBytes += connection.bytesWritten;
    };
    if (connection.closed) onClose();
    else connection.once('close', onClose);
    return connection;
  } catch (error) {
    endUse();
    throw error;
  }
}

export type PortChange = {
  readonly port: number;
  /** Undefined: it is closed. */
  readonly access: PortAccess | undefined;
  readonly host?: HostHeader | undefined;
};

/** Opens a port for URLs, changes its access or, without one, closes it. AppError not_found, exhausted. */
export async function changePort(
  sandbox: Sandbox,
  { port, access, host = 'sent' }: PortChange,
  events: LifecycleEvents,
): Promise<readonly OpenPort[]> {
  const change = async (): Promise<void> => {
    if (sandbox.isGone || sandbox.state === 'deleting' || sandbox.state === 'deleted')
      throw goneSandbox(sandbox);
    const { record } = sandbox;
    const before = record.ports ?? [];
    const known = before.find((each) => each.port === port);
    if (known?.access === access && (known?.host ?? 'sent') === host) return;
    const others = before.filter((each) => each.port !== port);
    const opened =
      access === undefined
        ? []
        : [{ port, access, ...(host === 'localhost' && { host }), openedAtMs: Date.now() }];
    const ports = [...others, ...opened].sort((a, b) => a.port - b.port);
    if (ports.length > MAX_OPEN_PORTS)
      throw new AppError('exhausted', `the sandbox has ${MAX_OPEN_PORTS} open ports already; close some`);
    const event = events.prepare(
      access === undefined
        ? { kind: 'port-closed', sandbox: sandbox.id, port }
        : { kind: 'port-opened', sandbox: sandbox.id, port, access },
      record.owner,
      record.metadata,
    );
    await sandbox.replaceRecord({ ...record, ports }, event.persist).catch((error: unknown) => {
      throw asNoSpace(error, 'change the ports of the sandbox', 'record') ?? error;
    });
    event.publish();
  };
  // Not in the middle of a pause or resume, which changes its record, too.
  await sandbox.snapshotQueue.add(() => sandbox.changes.add(change));
  return sandbox.record.ports ?? [];
}
