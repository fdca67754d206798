// Counts of commands and of connections to ports, for metrics.
import type { ExecEvents, ExecOutcome, ExecSession } from '../guest/exec.ts';

type CommandKind = 'attached' | 'detached';
type CommandOutcome =
  | 'exited'
  | 'failed'
  | 'signalled'
  | 'timed-out'
  | 'out-of-memory'
  | 'not-started'
  | 'lost';

/** Connections to ports of guests. */
export class PortCounts {
  open = 0;
  /** Of connections that have ended. */
  receivedBytes = 0;
  sentBytes = 0;
}

export class CommandCounts {
  attached = 0;
  /** Of connections to ports. */
  readonly ports = new PortCounts();
  readonly #ended = new Map<CommandKind, Map<CommandOutcome, number>>();

  get ended(): readonly {
    readonly kind: CommandKind;
    readonly outcome: CommandOutcome;
    readonly count: number;
  }[] {
    return [...this.#ended].flatMap(([kind, counts]) =>
      [...counts].map(([outcome, count]) => ({ kind, outcome, count })),
    );
  }

  /** Runs an attached command. */
  track(events: ExecEvents, start: (events: ExecEvents) => ExecSession): ExecSession {
    this.attached += 1;
    try {
      return start({
        ...events,
        exit: (outcome) => {
          this.attached -= 1;
          this.count('attached', outcome);
          events.exit(outcome);
        },
      });
    } catch (error) {
      this.attached -= 1;
      throw error;
    }
  }

  count(kind: CommandKind, outcome: ExecOutcome | undefined): void {
    const counts = this.#ended.get(kind) ?? new Map<CommandOutcome, number>();
    const key = toKey(outcome);
    this.#ended.set(kind, counts.set(key, (counts.get(key) ?? 0) + 1));
  }
}

function toKey(outcome: ExecOutcome | undefined): CommandOutcome {
  if (outcome === undefined || outcome.isLost) return 'lost';
  if (outcome.timedOut) return 'timed-out';
  if (outcome.oomKilled) return 'out-of-memory';
  if (outcome.signal) return 'signalled';
  if (outcome.error) return 'not-started';
  return outcome.exitCode === 0 ? 'exited' : 'failed';
}
