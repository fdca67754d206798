// The life of the service: one table of what each event does in each state. Nothing else decides.

export const SERVICE_STATES = [
  /** Never configured. */
  'idle',
  'starting',
  'running',
  /** Told to end, and wanted ended. */
  'stopping',
  /** Told to end, to be started again then; shown as stopping. */
  'restarting',
  /** Ended; started again after a pause. */
  'backing_off',
  'stopped',
  /** Could not start, or ended by itself as it should not, and is not started again. */
  'failed',
] as const;
export type ServiceState = (typeof SERVICE_STATES)[number];

export const SERVICE_EVENTS = [
  // Commands. The last one given wins.
  'configure',
  'start',
  'stop',
  'restart',
  // What became of a launch.
  'launched',
  'not_launched',
  // The process and all that it started are gone, and by its policy: that was its end, …
  'ended_well',
  'ended_badly',
  /** … or it is to be started again. */
  'ended_for_now',
  // Timers.
  'grace_over',
  'pause_over',
] as const;
export type ServiceEvent = (typeof SERVICE_EVENTS)[number];

export type ServiceAction =
  | 'launch'
  /** Ask the process to end, and begin its grace. */
  | 'terminate'
  /** End everything at once. */
  | 'kill'
  /** A stop that was asked for again may shorten the grace. */
  | 'regrace'
  | 'pause'
  | 'cancel_pause'
  /** Refuse the command: there is nothing configured. */
  | 'refuse';

export type Step = { readonly to: ServiceState; readonly actions: readonly ServiceAction[] };

const step = (to: ServiceState, ...actions: ServiceAction[]): Step => ({ to, actions });
const launch = step('starting', 'launch');

/** Absent: the event changes nothing there. */
const TABLE: Readonly<Record<ServiceState, Partial<Readonly<Record<ServiceEvent, Step>>>>> = {
  idle: {
    configure: launch,
    start: step('idle', 'refuse'),
    restart: step('idle', 'refuse'),
  },
  // Only between a launch and its outcome, which come in one go, or while the guest is saved: no command comes then.
  starting: {
    launched: step('running'),
    not_launched: step('failed'),
  },
  running: {
    configure: step('restarting', 'terminate'),
    stop: step('stopping', 'terminate'),
    restart: step('restarting', 'terminate'),
    ended_well: step('stopped'),
    ended_badly: step('failed'),
    ended_for_now: step('backing_off', 'pause'),
  },
  stopping: {
    configure: step('restarting'),
    start: step('restarting'),
    stop: step('stopping', 'regrace'),
    restart: step('restarting'),
    ended_well: step('stopped'),
    ended_badly: step('stopped'),
    ended_for_now: step('stopped'),
    grace_over: step('stopping', 'kill'),
  },
  restarting: {
    configure: step('restarting'),
    stop: step('stopping', 'regrace'),
    ended_well: launch,
    ended_badly: launch,
    ended_for_now: launch,
    grace_over: step('restarting', 'kill'),
  },
  backing_off: {
    configure: step('starting', 'cancel_pause', 'launch'),
    start: step('starting', 'cancel_pause', 'launch'),
    stop: step('stopped', 'cancel_pause'),
    restart: step('starting', 'cancel_pause', 'launch'),
    pause_over: launch,
  },
  stopped: { configure: launch, start: launch, restart: launch },
  failed: { configure: launch, start: launch, stop: step('stopped'), restart: launch },
};

/** What `event` does in `state`; undefined when nothing. */
export function nextStep(state: ServiceState, event: ServiceEvent): Step | undefined {
  return TABLE[state][event];
}

/** Whether a command that waits for its outcome has it. */
export function isSettled(state: ServiceState): boolean {
  return state !== 'starting' && state !== 'stopping' && state !== 'restarting';
}
