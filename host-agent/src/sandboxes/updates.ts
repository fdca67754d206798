// Changes of a sandbox that exists: name, labels, timeouts. A change is refused whole, or stored in one transaction
// with its event.
import { isDeepStrictEqual } from 'node:util';
import type { Limits, RequestContext } from '../keys/index.ts';
import { AppError, isAppError, toError } from '../lib/errors.ts';
import { changeLabels } from '../lib/labels.ts';
import { asNoSpace } from './admission.ts';
import type { LifecycleEvents } from './lifecycle-events.ts';
import { metadataOf } from './metadata.ts';
import type { Names } from './names.ts';
import { goneSandbox, pausesAtEnd, type SandboxRecord } from './record.ts';
import type { Sandbox } from './sandbox.ts';
import type { IdleRule, SandboxInfo, SandboxPatch } from './types.ts';

export type UpdateDeps = {
  readonly names: Names<Sandbox>;
  readonly limits: Pick<Limits, 'admitChange'>;
  readonly events: LifecycleEvents;
};

/**
 * AppError not_found when it is being deleted, invalid_argument, conflict when another sandbox has the name, forbidden,
 * exhausted.
 */
export async function updateSandbox(
  sandbox: Sandbox,
  patch: SandboxPatch,
  request: RequestContext,
  { names, limits, events }: UpdateDeps,
): Promise<SandboxInfo> {
  const change = async (): Promise<void> => {
    if (sandbox.isGone || sandbox.state === 'deleting' || sandbox.state === 'deleted')
      throw goneSandbox(sandbox);
    sandbox.use.touch();
    const { record } = sandbox;
    const changed = applyPatch(record, patch, Date.now());
    const fields = findChanges(record, changed);
    if (fields.length === 0) return;
    using _admitted = limits.admitChange(request, toChange(record, changed, patch));
    const { name } = metadataOf(changed);
    using _name = names.reserve(record.owner, fields.includes('name') ? name : undefined);
    const updated = { kind: 'updated', sandbox: sandbox.id, changed: fields } as const;
    const event = events.prepare(updated, record.owner, changed.metadata);
    await sandbox.replaceRecord(changed, event.persist).catch((error: unknown) => {
      throw (
        asNoSpace(error, 'change the sandbox', 'record') ??
        (isAppError(error) ? error : undefined) ??
        new AppError('internal', `cannot change the sandbox: ${toError(error).message}`, { cause: error })
      );
    });
    event.publish();
  };
  // Not in the middle of a pause or resume, which changes its record, too.
  await sandbox.snapshotQueue.add(() => sandbox.changes.add(change));
  return sandbox.info;
}

/** AppError invalid_argument. */
export function applyPatch(record: SandboxRecord, patch: SandboxPatch, nowMs: number): SandboxRecord {
  const { name: oldName, expiresAtMs: oldExpiry, ...metadata } = metadataOf(record);
  const { idle: oldIdle, timeoutAction: oldAction, autoResume: oldResume, ...options } = record.options;
  const { name = oldName ?? null, labels = {}, timeoutS = options.timeoutS } = patch;
  const expiresAtMs = patch.timeoutS === undefined ? oldExpiry : nowMs + timeoutS * 1000;
  const idle = patchIdle(oldIdle, patch);
  const { timeoutAction = oldAction ?? 'delete', autoResume = oldResume ?? true } = patch;
  return {
    ...record,
    options: {
      ...options,
      timeoutS,
      ...(idle && { idle }),
      ...(timeoutAction === 'pause' && { timeoutAction }),
      ...(!autoResume && { autoResume }),
    },
    metadata: {
      ...metadata,
      ...(name !== null && { name }),
      labels: labels === null ? {} : changeLabels(metadata.labels, labels),
      ...(timeoutS > 0 && expiresAtMs !== undefined && { expiresAtMs }),
    },
  };
}

function patchIdle(
  old: IdleRule | undefined,
  { idleTimeoutS, idleAction }: SandboxPatch,
): IdleRule | undefined {
  const timeoutS = idleTimeoutS ?? old?.timeoutS ?? 0;
  if (timeoutS > 0) return { ...old, timeoutS, action: idleAction ?? old?.action ?? 'delete' };
  if (idleAction === undefined || idleTimeoutS !== undefined) return undefined;
  throw new AppError('invalid_argument', 'idle_action needs idle_timeout_s: the sandbox has no idle timeout');
}

/** The changed fields, as the API names them. */
function findChanges(before: SandboxRecord, after: SandboxRecord): string[] {
  const [old, now] = [metadataOf(before), metadataOf(after)];
  const [oldIdle, idle] = [before.options.idle, after.options.idle];
  const differs = (name: string, a: unknown, b: unknown): string[] => (isDeepStrictEqual(a, b) ? [] : [name]);
  return [
    ...differs('name', old.name, now.name),
    ...differs('labels', { ...old.labels }, { ...now.labels }),
    ...differs(
      'timeout_s',
      [before.options.timeoutS, old.expiresAtMs],
      [after.options.timeoutS, now.expiresAtMs],
    ),
    ...differs('idle_timeout_s', oldIdle?.timeoutS, idle?.timeoutS),
    ...differs('idle_action', oldIdle?.action ?? 'delete', idle?.action ?? 'delete'),
    ...differs('timeout_action', pausesAtEnd(before), pausesAtEnd(after)),
    ...differs('auto_resume', before.options.autoResume ?? true, after.options.autoResume ?? true),
  ];
}

/** What a key's policy limits, as far as the request changes it. */
function toChange(
  before: SandboxRecord,
  { options, owner, createdAtMs, metadata }: SandboxRecord,
  patch: SandboxPatch,
): Parameters<Limits['admitChange']>[1] {
  const { timeoutS, idle } = options;
  const lifetimeMs = timeoutS > 0 ? (metadata?.expiresAtMs ?? 0) - createdAtMs : 0;
  const changesIdle = patch.idleTimeoutS !== undefined || patch.idleAction !== undefined;
  return {
    owner,
    ...(patch.timeoutS !== undefined && { lifetimeS: Math.ceil(lifetimeMs / 1000) }),
    ...(changesIdle && { idleTimeoutS: idle?.timeoutS ?? 0 }),
    savesItself: changesIdle && idle?.action === 'snapshot',
    savedItself: before.options.idle?.action === 'snapshot',
  };
}
