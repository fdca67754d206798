// Where tests let the daemon fail on purpose. How they do is not part of it (test/support/faulty-daemon.ts).

/** Every step of the operations that change what exists, in order. */
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
  /** Called at each point; throws, or ends the process, when a test wants it to. */
  reach(point: FaultPoint): void;
}

export const NO_FAULTS: Faults = { reach: () => undefined };
