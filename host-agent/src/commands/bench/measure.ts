// Measures tiers at levels of concurrency, within a time: rounds of operations that begin at once.
import { firstLine } from '../../lib/errors.ts';
import { type Cell, type Failures, type Measured, toPercentiles } from './result.ts';

const MAX_EXAMPLE_CHARS = 300;
/** A tier whose first level fails that often is not tried at higher ones. */
const HOPELESS_SHARE = 0.5;

/** Reason why a tier or a level cannot be measured here. */
export class NotMeasured extends Error {
  override readonly name = 'NotMeasured';
}

/** One operation: what `run` does is timed, up to the same line for all tiers: the guest has answered. */
export type Operation = {
  run(signal: AbortSignal): Promise<void>;
  /** Before the next round; not timed. */
  after?(signal: AbortSignal): Promise<void>;
};

export type Tier = {
  readonly name: string;
  /** So many operations for the next round; not timed. NotMeasured if this host cannot. */
  prepare(count: number, signal: AbortSignal): Promise<readonly Operation[]>;
};

export type Plan = {
  readonly levels: readonly number[];
  readonly rounds: number;
  /** All tiers together. */
  readonly timeMs: number;
  /** Aborts when the operator stops it. */
  readonly signal: AbortSignal;
  readonly now?: () => number;
  readonly onCell?: (cell: Cell) => void;
};

export async function measure(
  tiers: readonly Tier[],
  { levels, rounds, timeMs, signal, now = () => performance.now(), onCell }: Plan,
): Promise<Cell[]> {
  const endsAt = now() + timeMs;
  const cells: Cell[] = [];
  let left = tiers.length * levels.length;
  for (const tier of tiers) {
    let reason: string | undefined;
    for (const concurrency of levels) {
      const sliceMs = (endsAt - now()) / left--;
      const isLate = now() >= endsAt;
      const cell =
        reason !== undefined || isLate
          ? { tier: tier.name, concurrency, not_measured: reason ?? 'the time was up' }
          : await measureLevel(tier, { concurrency, rounds, until: now() + sliceMs, endsAt, signal, now });
      // A host that refuses a level would refuse all that are higher.
      reason = 'not_measured' in cell ? cell.not_measured : toReason(cell);
      cells.push(cell);
      onCell?.(cell);
    }
  }
  return cells;
}

type Level = {
  readonly concurrency: number;
  readonly rounds: number;
  /** No round begins later, but the first. */
  readonly until: number;
  /** What is in work then is cancelled. */
  readonly endsAt: number;
  readonly signal: AbortSignal;
  readonly now: () => number;
};

async function measureLevel(
  tier: Tier,
  { concurrency, rounds, until, endsAt, signal, now }: Level,
): Promise<Cell> {
  const times: number[] = [];
  const failures: Failures = { count: 0, codes: {} };
  let isCut = false;
  const late = AbortSignal.timeout(Math.max(1, Math.ceil(endsAt - now())));
  const either = AbortSignal.any([signal, late]);
  const { name } = tier;
  try {
    for (let round = 0; round < rounds; round++) {
      if (round > 0 && now() >= until) {
        isCut = true;
        break;
      }
      const operations = await tier.prepare(concurrency, either);
      await Promise.all(
        operations.map(async (operation) => {
          const startedAt = now();
          try {
            await operation.run(either);
            times.push(now() - startedAt);
          } catch (error) {
            // What was cancelled has not failed; all others are waited for.
            if (!either.aborted) addFailure(failures, error);
          }
        }),
      );
      either.throwIfAborted();
      await Promise.all(operations.map((each) => each.after?.(either)));
    }
  } catch (error) {
    signal.throwIfAborted();
    if (!late.aborted) {
      const why = error instanceof NotMeasured ? error.message : `cannot be prepared: ${firstLine(error)}`;
      if (times.length === 0) return { tier: name, concurrency, not_measured: toCut(why) };
      addFailure(failures, error);
    }
    if (times.length + failures.count === 0)
      return { tier: name, concurrency, not_measured: 'the time was up before the first round had ended' };
    isCut = true;
  }
  return {
    tier: name,
    concurrency,
    operations: times.length,
    failures,
    is_cut: isCut,
    ...(times.length > 0 && { ms: toPercentiles(times) }),
  };
}

function addFailure(failures: Failures, error: unknown): void {
  const code = codeOf(error);
  failures.count++;
  failures.codes[code] = (failures.codes[code] ?? 0) + 1;
  failures.example ??= toCut(firstLine(error));
}

function toReason({ operations, failures, concurrency }: Measured): string | undefined {
  if (failures.count <= HOPELESS_SHARE * (operations + failures.count)) return undefined;
  const codes = Object.keys(failures.codes).join(', ');
  return `most operations failed with ${concurrency} at once: ${codes}`;
}

/** Of an error of the API; otherwise its class. */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}

function toCut(text: string): string {
  return text.length <= MAX_EXAMPLE_CHARS ? text : `${text.slice(0, MAX_EXAMPLE_CHARS)}…`;
}
