// Guests with compromised agents that flood the daemon with the smallest possible frames: other work is still
// scheduled.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Guest } from '../../../../host-agent/src/guest/guest.ts';
import { connectLink } from '../../../../host-agent/src/lib/socket-link.ts';
import { DEFAULT_WINDOW_BYTES, FRAME_CREDIT_BYTES } from '../../../../proto/src/limits.ts';
import { until } from '../../../support/until.ts';

const PROGRAM = resolve(import.meta.dirname, '../../../support/flooding-guest.ts');
const FLOODS = 3;
const PINGS = 100;
/** Frames of output that a guest can send before it gets more credit. */
const WINDOW_FRAMES = DEFAULT_WINDOW_BYTES / (1 + FRAME_CREDIT_BYTES);

async function open(t: Test, dir: string, name: string): Promise<Guest> {
  const path = join(dir, name);
  const process = fork(PROGRAM, [path]);
  t.teardown(() => process.kill());
  await once(process, 'message');
  const source = { openChannel: async () => ({ link: await connectLink(path), needsResync: false }) };
  const guest = new Guest({ source, incarnation: name, log: pino({ level: 'silent' }) });
  t.teardown(() => guest.close(new Error('over')));
  await guest.connect();
  return guest;
}

t.test('who floods the daemon with frames of one byte keeps no other guest from it', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'flood-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const other = await open(t, dir, 'other');
  const frames = Array.from({ length: FLOODS }, () => 0);
  for (const index of frames.keys()) {
    const guest = await open(t, dir, `flood-${index}`);
    const session = guest.exec(
      { cmd: ['x'], env: {}, timeout_s: 0 },
      {
        output: (_stream, chunk) => {
          frames[index] = (frames[index] ?? 0) + 1;
          session.consumed(chunk.length);
        },
        exit: () => undefined,
      },
    );
  }
  const total = (): number => frames.reduce((sum, count) => sum + count);
  await until(() => frames.every((count) => count > 3 * WINDOW_FRAMES), 'floods that were given more credit');
  // Measured in event loop turns, not time: the number of frames before the daemon handles other work.
  let most = 0;
  let last = total();
  let isOver = false;
  const look = (): void => {
    most = Math.max(most, total() - last);
    last = total();
    if (!isOver) setImmediate(look);
  };
  look();
  const earlier = [...frames];
  for (let n = 0; n < PINGS; n++) await other.ping();
  await until(() => frames.every((count, index) => count > (earlier[index] ?? 0)), 'more of each flood');
  isOver = true;
  t.comment(`${most} frames in one turn; a window is ${Math.floor(WINDOW_FRAMES)}`);
  t.ok(most > 0);
  t.ok(most <= 2 * FLOODS * WINDOW_FRAMES, `${most} frames in one turn`);
});
