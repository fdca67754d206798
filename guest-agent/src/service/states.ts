// The service's state machine: one table of each event's effect in each state.

export const SERVICE_STATES = [
  /** Never configured. */
  'idle',
  'starting',
  'running',
  /** Stopping on request. */
  'stopping',
  /** Stopping on request, to be started afterwards; reported as stopping. */
  'restarting',
  /** Exited; restarted after a pause. */
  'backing_off',
  'stopped',
  /** Failed to start, or exited with a failure, and is not restarted. */
  'failed',
] as const;
export type ServiceState = (typeof SERVICE_STATES)[number];

export const SERVICE_EVENTS = [
  // Commands. The last command wins.
  'configure',
  'start',
  'stop',
  'restart',
  // Results of a launch.
  'launched',
  'not_launched',
  // All processes are gone, and by the restart policy this was the final exit, …
  'ended_well',
  'ended_badly',
  /** … or the service is restarted. */
  'ended_for_now',
  // Timers.
  'grace_over',
  'pause_over',
] as const;
export type ServiceEvent = (typeof SERVICE_EVENTS)[number];

export type ServiceAction =
  | 'launch'
  /** Send the stop signal and start the grace period. */
  | 'terminate'
  /** Kill all processes at once. */
  | 'kill'
  /** A repeated stop may shorten the grace period. */
  | 'regrace'
  | 'pause'
  | 'cancel_pause'
  /** Refuse the command, because no service is configured. */
  | 'refuse';

export type Step = { readonly to: ServiceState; readonly actions: readonly ServiceAction[] };

const step = (to: ServiceState, ...actions: ServiceAction[]): Step => ({ to, actions });
const launch = step('starting', 'launch');

/** Absent: the event has no effect in that state. */
const TABLE: Readonly<Record<ServiceState, Partial<Readonly<Record<ServiceEvent, Step>>>>> = {
  idle: {
    configure: launch,
    start: step('idle', 'refuse'),
    restart: step('idle', 'refuse'),
  },
  // Lasts only from a launch to its result, which is one step, or while the guest is frozen: no command arrives then.
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

/** The effect of `event` in `state`; undefined when there is no effect. */
export function nextStep(state: ServiceState, event: ServiceEvent): Step | undefined {
  return TABLE[state][event];
}

/** Whether a command that waits for its outcome can be answered. */
export function isSettled(state: ServiceState): boolean {
  return state !== 'starting' && state !== 'stopping' && state !== 'restarting';
}
