// The round-robin scheduler of flows on a link: the length of a round, and when it stops.
import {
  type ByteLink,
  type Flow,
  MAX_BACKLOG_BYTES,
  MAX_DATA_BYTES,
  MAX_SOURCE_BYTES,
} from '@sandboxd/proto';
import t from 'tap';
import { RoundRobinScheduler } from '../../../../proto/src/channel/round-robin-scheduler.ts';
import type { Stream } from '../../../../proto/src/channel/stream.ts';

const FLOW: Flow = 1;
const turn = () => new Promise(setImmediate);

type Take = (maxBytes: number, maxSourceBytes: number) => ReturnType<Stream['take']>;

/** A scheduler whose link records frames, and flows that request another turn after each one. */
function makeRound(more: Partial<ByteLink> = {}) {
  const link = { hasSpace: true, written: [] as string[] };
  const errors: unknown[] = [];
  const write = (chunks: readonly Uint8Array[]) => {
    link.written.push(Buffer.concat(chunks).toString('latin1'));
    return link.hasSpace;
  };
  const round = new RoundRobinScheduler(
    { start: () => undefined, destroy: () => undefined, write, ...more },
    (_stream, error) => errors.push(error),
  );
  const flow = (id: number, take: Take): Stream => {
    const stream = {
      id,
      take: (_flow: Flow, maxBytes: number, maxSourceBytes: number) => take(maxBytes, maxSourceBytes),
      sent: () => round.enqueue(stream, FLOW),
      sentFrom: () => round.enqueue(stream, FLOW),
    } as unknown as Stream;
    return stream;
  };
  return { round, link, errors, flow };
}

t.test(
  'a round has so many bytes and turns, and another comes when the event loop had its own',
  async (t) => {
    const source = { descriptor: 7, length: 1000, took: () => undefined };
    for (const [name, bytes, turns, result] of [
      ['single bytes', Buffer.of(1), 4081, 0],
      ['full frames', Buffer.alloc(MAX_DATA_BYTES, 1), 16, 0],
      ['bytes that the link reads', source, 15, 70_000],
      ['nothing to read', source, 4096, 0],
      ['readings that fail', source, 4096, -5000],
    ] as const) {
      await t.test(name, async (t) => {
        const { round, flow } = makeRound({ writeFrom: () => ({ result, hasSpace: true }) });
        let takes = 0;
        const stream = flow(1, () => {
          takes += 1;
          return bytes;
        });
        round.enqueue(stream, FLOW);
        t.equal(takes, turns);
        round.enqueue(
          flow(2, () => t.fail('it is not its turn') as never),
          FLOW,
        );
        round.drained();
        round.hold();
        round.release();
        t.equal(takes, turns, 'whatever happens until then');
        round.stop();
        await turn();
        t.equal(takes, turns);
      });
    }
    const { round, flow } = makeRound();
    let takes = 0;
    const stream = flow(1, () => {
      takes += 1;
      if (takes % 2 === 0) round.enqueue(stream, FLOW);
      return takes % 2 === 0 ? null : Buffer.of(1);
    });
    round.enqueue(stream, FLOW);
    const first = takes;
    await turn();
    t.ok(takes > first, 'it goes on by itself');
    round.stop();
  },
);

t.test(
  'what is asked for a turn within a turn has the next, and a source that fails only loses its own',
  async (t) => {
    const { round, link, errors, flow } = makeRound();
    const one = (id: number, text: string, within: () => void = () => undefined) => {
      let left = 1;
      return flow(id, () => {
        within();
        return left-- > 0 ? Buffer.from(text) : null;
      });
    };
    const second = one(2, 'second');
    let isFirst = true;
    const bad = flow(3, () => {
      throw new Error('cannot be read');
    });
    round.enqueue(
      one(1, 'first', () => {
        if (isFirst) for (const stream of [bad, second]) round.enqueue(stream, FLOW);
        isFirst = false;
        t.equal(
          link.written.filter((text) => text.includes('second')).length,
          link.written.length === 0 ? 0 : 1,
        );
      }),
      FLOW,
    );
    t.match(link.written, [/first$/, /second$/]);
    t.match(errors, [{ message: 'cannot be read' }]);
  },
);

t.test('control frames that wait for a link are counted, up to a limit', async (t) => {
  const { round, link } = makeRound();
  link.hasSpace = false;
  round.control([Buffer.alloc(100)]);
  t.notOk(round.isBacklogged, 'the one that filled it is not among them');
  round.control([Buffer.alloc(MAX_BACKLOG_BYTES - 1), Buffer.alloc(1)]);
  t.notOk(round.isBacklogged);
  round.control([Buffer.alloc(1)]);
  t.ok(round.isBacklogged);
  round.drained();
  t.notOk(round.isBacklogged);
  link.hasSpace = true;
  round.control([Buffer.alloc(1)]);
  round.control([Buffer.alloc(MAX_BACKLOG_BYTES + 1)]);
  t.notOk(round.isBacklogged, 'a link with free space has no backlog');
});

t.test('flows wait for a full link, and while it is held', async (t) => {
  const { round, link, flow } = makeRound();
  let takes = 0;
  const stream = flow(1, () => {
    takes += 1;
    return Buffer.of(1);
  });
  link.hasSpace = false;
  round.enqueue(stream, FLOW);
  t.equal(takes, 1);
  round.enqueue(stream, FLOW);
  t.equal(takes, 1);
  round.drained();
  t.equal(takes, 2);
  round.hold();
  round.drained();
  t.equal(takes, 2);
  round.control([Buffer.from('a')]);
  round.hold();
  round.control([Buffer.from('b'), Buffer.from('c')]);
  link.written.length = 0;
  round.release();
  t.same([link.written, takes], [['abc'], 2], 'one write, which filled the link');
  round.drained();
  t.equal(takes, 3);
  link.written.length = 0;
  round.hold();
  round.release();
  round.release();
  t.same([link.written, takes], [[], 3], 'nothing was kept back');
});

t.test('a round that was stopped sends nothing', async (t) => {
  const { round, link, flow } = makeRound();
  const stream = flow(1, () => Buffer.of(1));
  link.hasSpace = false;
  round.enqueue(stream, FLOW);
  link.written.length = 0;
  round.stop();
  round.drained();
  round.enqueue(stream, FLOW);
  round.control([Buffer.of(1)]);
  await turn();
  t.same(link.written, []);
});

t.test(
  'a flow that is alone may name more bytes for the link to read, and none of a link that cannot',
  async (t) => {
    const asked: number[][] = [];
    const named = { descriptor: 7, length: 10, took: () => undefined };
    const take = (maxBytes: number, maxSourceBytes: number) => {
      asked.push([maxBytes, maxSourceBytes]);
      return named;
    };
    const able = makeRound({ writeFrom: () => ({ result: 10, hasSpace: false }) });
    able.round.enqueue(able.flow(1, take), FLOW);
    able.round.enqueue(able.flow(2, take), FLOW);
    t.equal(asked.length, 1, 'it filled the link');
    able.round.drained();
    t.same(asked, [
      [MAX_DATA_BYTES, MAX_SOURCE_BYTES],
      [MAX_DATA_BYTES, MAX_DATA_BYTES],
    ]);
    const plain = makeRound();
    plain.round.enqueue(plain.flow(1, take), FLOW);
    t.same(asked[2], [MAX_DATA_BYTES, 0]);
    t.same([plain.link.written, plain.errors], [[], []]);
  },
);
