// One exec as the host sees it, over a channel whose other end the test plays.
import { mock } from 'node:test';
import { type Channel, FLOW, type Stream } from '@sandboxd/proto';
import t from 'tap';
import { startExec } from '../../../../host-agent/src/guest/exec.ts';
import type { ExecOutcome } from '../../../../host-agent/src/guest/exec-types.ts';
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

/** A command that ends when all of its output was taken, as one does that nobody can kill. */
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
  const pair = channelPair(() => undefined);
  const { exec, ends } = start(pair.host);
  await settle(pair.links);
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  exec.cancel();
  mock.timers.tick(9_999);
  t.same(ends, []);
  mock.timers.tick(1);
  t.match(ends, [{ exitCode: -1, error: /did not say how the cancelled command ended/ }]);
});
