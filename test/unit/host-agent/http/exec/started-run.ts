// An exec without a guest, and all that comes of it.
import type { ExecRequest } from '@sandboxd/api';
import type { ExecOutcome } from '../../../../../host-agent/src/guest/exec.ts';
import { ExecRun } from '../../../../../host-agent/src/http/exec/exec-run.ts';
import type { PullStream } from '../../../../../host-agent/src/lib/byte-queue.ts';
import { FakeExec } from '../../../../http/fake-sandboxes.ts';

export function start() {
  const seen: { outcomes: ExecOutcome[]; drains: number } = { outcomes: [], drains: 0 };
  let exec!: FakeExec;
  const run = new ExecRun({
    start: (events) => {
      exec = new FakeExec({} as ExecRequest, events, true);
      return exec;
    },
    onExit: (outcome) => seen.outcomes.push(outcome),
    onDrain: () => {
      seen.drains += 1;
    },
  });
  run.opened.catch(() => undefined);
  return { run, exec, seen };
}

/** All that comes, each piece released. */
export async function drain(flow: PullStream): Promise<Buffer> {
  const all: Buffer[] = [];
  for (let chunk = await flow.next(); chunk !== undefined; chunk = await flow.next()) {
    all.push(Buffer.from(chunk.bytes));
    chunk.release();
  }
  return Buffer.concat(all);
}
