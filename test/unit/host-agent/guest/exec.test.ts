// One exec from the host's side; the test acts as the agent.
import process from 'node:process';
import { mock } from 'node:test';
import { type Channel, FLOW, type Stream } from '@sandboxd/proto';
import t from 'tap';
import { type ExecOutcome, startExec } from '../../../../host-agent/src/guest/exec.ts';
import { settle } from '../../../support/memory-link.ts';
import { channelPair } from '../../proto/support/channel-pair.ts';

const WINDOW_BYTES = 16 * 1024;
const REQUEST = { cmd: ['x'], env: {}, timeout_s: 0 };

type Session = {
  readonly exec: ReturnType<typeof startExec>;
  readonly ends: ExecOutcome[];
  readonly outputBytes: () => number;
};

function start(channel: Channel, hasStdin = false): Session {
  const ends: ExecOutcome[] = [];
  let outputBytes = 0;
  const exec = startExec(
    channel,
    REQUEST,
    {
      output: (_stream, chunk) => {
        outputBytes += chunk.length;
      },
      exit: (outcome) => void ends.push(outcome),
    },
    { hasStdin },
  );
  return { exec, ends, outputBytes: () => outputBytes };
}

/** A command that ends only when all of its output was read, and that cannot be killed. */
function writing(totalBytes: number) {
  return (stream: Stream): void => {
    let left = totalBytes;
    stream.setSource(FLOW.out, (maxBytes) => {
      if (left === 0) {
        stream.finish({ exec: { exitCode: 0 } });
        return null;
      }
      const bytes = Buffer.alloc(Math.min(maxBytes, left, 1000), 1);
      left -= bytes.length;
      return bytes;
    });
    stream.ready(FLOW.out);
  };
}

t.test('what a cancelled command still writes is taken, so that its end is heard', async (t) => {
  const pair = channelPair(writing(10 * WINDOW_BYTES), { windowBytes: WINDOW_BYTES });
  const { exec, ends, outputBytes } = start(pair.host);
  await settle(pair.links);
  const before = outputBytes();
  t.ok(before > 0 && before <= WINDOW_BYTES);
  t.same(ends, [], 'nobody takes it: it waits');
  exec.cancel();
  exec.consumed(before);
  await settle(pair.links);
  t.match(ends, [{ exitCode: 0 }]);
  t.equal(outputBytes(), before, 'and nobody is bothered with it');
  t.strictSame(pair.faults, []);
});

t.test('input goes on as it is taken, and its end comes behind it', async (t) => {
  const got: Buffer[] = [];
  let isEnded = false;
  const pair = channelPair(
    (stream) => {
      stream.handlers = {
        data: (_flow, chunk) => {
          got.push(Buffer.from(chunk));
          stream.consumed(chunk.length);
        },
        end: () => {
          isEnded = true;
          stream.finish({ exec: { exitCode: got.length > 0 ? 0 : 1 } });
        },
      };
    },
    { windowBytes: WINDOW_BYTES },
  );
  const { exec, ends } = start(pair.host, true);
  const input = Buffer.from(Array.from({ length: 5 * WINDOW_BYTES }, (_, n) => n % 251));
  exec.write(input);
  exec.closeStdin();
  exec.write(Buffer.from('too late'));
  t.equal(isEnded, false);
  await settle(pair.links);
  t.ok(Buffer.concat(got).equals(input));
  t.match(ends, [{ exitCode: 0 }]);

  const other = start(pair.host, true);
  got.length = 0;
  other.exec.closeStdin();
  await settle(pair.links);
  t.match(other.ends, [{ exitCode: 1 }], 'an input of nothing has an end, too');
});

t.test('a guest that says nothing of a cancelled command is given up', async (t) => {
  const streams: Stream[] = [];
  const pair = channelPair((stream) => void streams.push(stream));
  const { exec, ends } = start(pair.host);
  await settle(pair.links);
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  exec.cancel();
  mock.timers.tick(9_999);
  t.same(ends, []);
  mock.timers.tick(1);
  t.match(ends, [{ exitCode: -1, error: /did not say how the cancelled command ended/ }]);
  streams[0]?.finish({ exec: { exitCode: 0 } });
  await settle(pair.links);
  t.equal(ends.length, 1, 'and heard no more');
});

t.test('output keeps its stream, and arrives without waiting for the start', async (t) => {
  const pair = channelPair((stream) => {
    stream.started(7);
    for (const flow of [FLOW.out, FLOW.err]) {
      let left = 1;
      stream.setSource(flow, () => (left-- > 0 ? Buffer.from(`${flow}`) : null));
      stream.ready(flow);
    }
  });
  const seen: string[] = [];
  startExec(pair.host, REQUEST, {
    output: (stream, chunk) => void seen.push(`${stream} ${chunk}`),
    exit: ({ error }) => void seen.push(`${error}`),
  });
  await settle(pair.links);
  pair.host.close(new Error('broken pipe'));
  await settle(pair.links);
  t.same(seen, ['stdout 1', 'stderr 2', 'the sandbox was lost while the command ran: broken pipe']);
  t.same(pair.faults, []);
});

t.test('a command that is cancelled twice is waited for once, which keeps no process', async (t) => {
  const isTimer = (name: string) => name === 'Timeout';
  const pair = channelPair((stream) => {
    if (stream.id === 2) stream.finish({ exec: { exitCode: 0 } });
  });
  const { exec } = start(pair.host, true);
  const { exec: over } = start(pair.host);
  await settle(pair.links);
  const set = mock.method(globalThis, 'setTimeout');
  t.teardown(() => set.mock.restore());
  const before = process.getActiveResourcesInfo().filter(isTimer).length;
  t.notOk(exec.write(Buffer.alloc(2 ** 21)), 'more than may wait');
  exec.cancel();
  exec.cancel();
  over.cancel();
  t.equal(set.mock.callCount(), 1);
  t.equal(process.getActiveResourcesInfo().filter(isTimer).length, before);
  t.ok(exec.write(Buffer.of(1)), 'and what waited is forgotten');
  const { exec: unwatched } = start(pair.host, true);
  t.notOk(unwatched.write(Buffer.alloc(2 ** 19)));
  await settle(pair.links);
  t.same(pair.faults, []);
});

t.test('stdin is queued up to a limit, and drain is reported when there is space again', async (t) => {
  const LIMIT_BYTES = 256 * 1024;
  for (const [bytes, isWritable, told] of [
    [LIMIT_BYTES - 1, true, []],
    [LIMIT_BYTES, false, ['drain']],
    [LIMIT_BYTES + 65_536, false, ['drain']],
  ] as const) {
    const events: string[] = [];
    const pair = channelPair((stream) => {
      stream.handlers = {
        data: (_flow, chunk) => stream.consumed(chunk.length),
        end: () => void events.push('end'),
      };
    });
    const exec = startExec(
      pair.host,
      REQUEST,
      { output: () => undefined, exit: () => undefined, drain: () => void events.push('drain') },
      { hasStdin: true },
    );
    // It waits while sending to the guest is held.
    void pair.host.hold().catch(() => undefined);
    t.equal(exec.write(Buffer.alloc(bytes)), isWritable);
    t.ok(exec.write(Buffer.alloc(0)) === isWritable);
    pair.host.release();
    await settle(pair.links);
    t.same(events, told);
    exec.closeStdin();
    exec.closeStdin();
    await settle(pair.links);
    t.same(events, [...told, 'end']);
  }
});
