// Lifecycle events in the daemon's log: one line each.
import type { Logger } from 'pino';
import type { LifecycleEvent, LifecycleListener } from './lifecycle-events.ts';

type LogLine = readonly ['info' | 'warn', string];

const LOG_LINES: Readonly<Record<LifecycleEvent['kind'], LogLine>> = {
  created: ['info', 'sandbox created'],
  forked: ['info', 'sandbox created'],
  adopted: ['info', 'sandbox adopted'],
  updated: ['info', 'sandbox changed'],
  died: ['warn', 'the VM of a sandbox exited unexpectedly'],
  hung: ['warn', 'a sandbox hangs'],
  recovered: ['info', 'the guest agent answers again'],
  expired: ['info', 'the timeout_s of a sandbox has passed'],
  idle: ['info', 'the idle_timeout_s of a sandbox has passed'],
  'idle-kept': ['warn', 'an idle sandbox could not be saved and keeps running'],
  paused: ['info', 'sandbox paused'],
  'pause-failed': ['warn', 'a sandbox could not be paused and keeps running'],
  resumed: ['info', 'sandbox resumed'],
  'port-opened': ['info', 'port of a sandbox opened'],
  'port-closed': ['info', 'port of a sandbox closed'],
  'port-published': ['info', 'port of a sandbox published'],
  'port-unpublished': ['info', 'published port of a sandbox freed'],
  'network-changed': ['info', 'network of a sandbox changed'],
  'secrets-changed': ['info', 'secrets of a sandbox changed'],
  'rolled-back': ['info', 'sandbox rolled back'],
  deleted: ['info', 'sandbox deleted'],
  moved: ['info', 'sandbox moved to another host'],
  'snapshot-taken': ['info', 'snapshot taken'],
  'snapshot-imported': ['info', 'snapshot imported'],
  'snapshot-stored': ['info', 'snapshot uploaded to the snapshot store'],
  'snapshot-fetched': ['info', 'snapshot fetched from the snapshot store'],
  'snapshot-changed': ['info', 'snapshot changed'],
  'snapshot-deleted': ['info', 'snapshot deleted'],
  'template-made': ['info', 'template made'],
  'template-evicted': ['info', 'template evicted'],
};

/** Writes each event to the daemon's log. */
export function logLifecycleEvents(log: Logger): LifecycleListener {
  return ({ kind, ...facts }) => {
    const [level, message] = LOG_LINES[kind];
    const { times, ...rest } = 'times' in facts ? facts : { ...facts, times: {} };
    log[level]({ ...rest, ...times }, message);
  };
}
