// Fault injection points for tests. The injection itself is in test/support/faulty-daemon.ts.

/** Steps of the operations that change state, in order. */
export const FAULT_POINTS = [
  'image.fetched',
  'image.converted',
  'image.committed',
  'image.forgotten',
  'start.recorded',
  'start.directories',
  'start.disk',
  'start.network-recorded',
  'start.network-made',
  'start.network-published',
  'start.network',
  'start.spawned',
  'start.spawn-recorded',
  'start.vm',
  'start.agent',
  'start.made',
  'start.committed',
  'template.booted',
  'template.saved',
  'template.published',
  'snapshot.recorded',
  'snapshot.paused',
  'snapshot.saved',
  'snapshot.published',
  'snapshot.committed',
  'pause.memory',
  'pause.paused',
  'pause.written',
  'pause.flushed',
  'pause.durable',
  'pause.recorded',
  'pause.killed',
  'pause.applied',
  'pause.settled',
  'resume.recorded',
  'resume.awake',
  'resume.woken',
  'rollback.prepared',
  'rollback.recorded',
  'rollback.exchanged',
  'rollback.identified',
  'rollback.committed',
  'network.recorded',
  'network.changed',
  'fork.saved',
  'delete.marked',
  'delete.network-silenced',
  'delete.killed',
  'delete.network',
  'delete.directories',
  'delete.forgotten',
  'snapshot-delete.marked',
  'snapshot-delete.files',
  'snapshot-delete.forgotten',
] as const;

export type FaultPoint = (typeof FAULT_POINTS)[number];

export interface Faults {
  /** Called at each point. A test's implementation throws or ends the process. */
  reach(point: FaultPoint): void;
}

export const NO_FAULTS: Faults = { reach: () => undefined };
