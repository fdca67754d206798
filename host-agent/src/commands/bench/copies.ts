// Idle copies of one snapshot: what each takes, and how many fit on the host.
import type { Sandbox } from '@sandboxd/client';
import { firstLine } from '../../lib/errors.ts';
import { answer, type Lab } from './lab.ts';
import { codeOf, NotMeasured } from './measure.ts';
import { type BenchResult, toSpread } from './result.ts';

const COPIES = 8;
/** After its first command a guest has some work left, such as closing what the command used. */
const SETTLE_MS = 3000;

export async function measureIdleCopies(
  lab: Lab,
  signal: AbortSignal,
  settleMs = SETTLE_MS,
): Promise<BenchResult['idle_copies']> {
  try {
    await lab.clearCopies(signal);
    const copies = await lab.copies(COPIES, signal);
    for (const copy of copies) await answer(copy, signal);
    await new Promise((resolve) => setTimeout(resolve, settleMs));
    const stats = await Promise.all(copies.map((copy) => copy.stats({ signal })));
    return {
      copies: stats.length,
      private_bytes: toSpread(stats.map(({ private_bytes }) => private_bytes)),
      resident_bytes: toSpread(stats.map(({ resident_bytes }) => resident_bytes)),
      layer_bytes: toSpread(stats.map(({ layer_bytes }) => layer_bytes)),
    };
  } catch (error) {
    if (error instanceof NotMeasured) return { not_measured: error.message };
    if (signal.aborted) return { not_measured: 'the time was up' };
    return { not_measured: firstLine(error) };
  }
}

/** One after another until the daemon refuses one, at most `limit`. All of them answer at the end. */
export async function fillHost(
  lab: Lab,
  limit: number,
  signal: AbortSignal,
): Promise<NonNullable<BenchResult['until_full']>> {
  await lab.clearCopies(signal);
  const made: Sandbox[] = [];
  try {
    while (made.length < limit) {
      const fork = await lab.fork(signal);
      made.push(fork);
      await answer(fork, signal);
    }
    return { sandboxes: made.length, ended_by: 'limit' };
  } catch (error) {
    if (signal.aborted) return { sandboxes: made.length, ended_by: 'time' };
    return { sandboxes: made.length, ended_by: codeOf(error), message: firstLine(error).slice(0, 300) };
  } finally {
    await Promise.all(made.map((each) => each.delete().catch(() => undefined)));
  }
}
