// Two channels over a link in memory: every byte arrives in order, credit bounds the data in flight, no flow starves.

import {
  DEFAULT_WINDOW_BYTES,
  FLOW,
  type Flow,
  MAX_DATA_BYTES,
  type Result,
  type Stream,
} from '@sandboxd/proto';
import fc from 'fast-check';
import t from 'tap';
import { settle } from '../../../support/memory-link.ts';
import { type ChannelPair, channelPair } from '../support/channel-pair.ts';
import { FlowEnd } from '../support/flow-end.ts';
import { Tally } from '../support/tally.ts';

const call = { stats: {} };

/** One stream with both sides. */
class Model {
  readonly flows: Record<Flow, FlowEnd>;
  host!: Stream;
  guest: Stream | undefined;
  wantsResult = false;
  isCancelled = false;
  result: Result | undefined;
  results = 0;

  constructor(windowBytes: number) {
    this.flows = [
      new FlowEnd(0, windowBytes),
      new FlowEnd(1, windowBytes),
      new FlowEnd(2, windowBytes),
    ] as const;
  }

  /** The guest finishes once all of its data was sent, as an agent does. */
  finishIfDone(): void {
    const { 1: out, 2: err } = this.flows;
    if (!this.wantsResult || this.guest === undefined || out.sent < out.offered || err.sent < err.offered)
      return;
    this.guest.finish({ stats: { agentRssBytes: this.guest.id } });
  }

  offer(flow: Flow, bytes: number): void {
    // A guest that must finish has no more output.
    if (flow === FLOW.in || !this.wantsResult) this.flows[flow].offer(bytes);
  }

  consume(flow: Flow, bytes: number): void {
    const receiver = flow === FLOW.in ? this.guest : this.host;
    const passed = this.flows[flow].consume(bytes);
    if (passed > 0) receiver?.consumed(passed);
  }

  get problem(): string | undefined {
    const { 1: out, 2: err } = this.flows;
    if (this.results > 1) return 'two results';
    return this.flows[0].problem ?? out.problem ?? err.problem;
  }
}

function modelPair(windowBytes: number, capacityBytes: number): { pair: ChannelPair; models: Model[] } {
  const models: Model[] = [];
  const pair = channelPair(
    (stream) => {
      const model = models[stream.id - 1]!;
      model.guest = stream;
      stream.handlers = {
        data: (flow, chunk) => model.flows[flow].take(stream.id, chunk),
        end: (flow) => {
          model.flows[flow].isEnded = true;
        },
        cancel: () => stream.finish({ error: { code: 'cancelled', message: 'cancelled' } }),
      };
      for (const flow of [FLOW.out, FLOW.err]) {
        model.flows[flow].attach(stream);
        stream.ready(flow);
      }
      model.finishIfDone();
    },
    { windowBytes, capacityBytes },
  );
  return { pair, models };
}

function openModel(pair: ChannelPair, models: Model[], windowBytes: number): void {
  const model = new Model(windowBytes);
  models.push(model);
  const stream = pair.host.open(call, {
    data: (flow, chunk) => model.flows[flow].take(stream.id, chunk),
    result: (result) => {
      model.result = result;
      model.results += 1;
    },
  });
  model.host = stream;
  model.flows[0].attach(stream);
}

const step = fc.oneof(
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('open' as const) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constantFrom('offer' as const, 'consume' as const),
      stream: fc.nat(5),
      flow: fc.constantFrom<Flow>(0, 1, 2),
      bytes: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 30_000 })),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constantFrom('end', 'cancel', 'finish'), stream: fc.nat(5) }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constantFrom('toGuest' as const, 'toHost' as const),
      bytes: fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 40_000 })),
    }),
  },
);

t.test('any interleaving of calls, bytes, credits, cancels and results keeps every promise', async (t) => {
  const capacityBytes = 8192;
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 120, size: 'max' }),
      fc.constantFrom(4096, 10_000, 70_000),
      fc.infiniteStream(fc.integer({ min: 1, max: 50_000 })),
      async (steps, windowBytes, pieces) => {
        const { pair, models } = modelPair(windowBytes, capacityBytes);
        const { links } = pair;
        for (const item of steps) {
          if (item.kind === 'open') openModel(pair, models, windowBytes);
          else if (item.kind === 'toGuest') links.host.deliver((item as { bytes: number }).bytes);
          else if (item.kind === 'toHost') links.guest.deliver((item as { bytes: number }).bytes);
          else {
            const { stream, flow, bytes } = item as { stream: number; flow: Flow; bytes: number };
            const model = models[stream];
            if (model === undefined) continue;
            if (item.kind === 'offer') model.offer(flow, bytes);
            else if (item.kind === 'consume') model.consume(flow, bytes);
            else if (item.kind === 'end') model.host.end(FLOW.in);
            else if (item.kind === 'cancel') {
              model.isCancelled = true;
              model.host.cancel();
            } else model.wantsResult = true;
          }
          for (const model of models) model.finishIfDone();
        }
        // From here on, everything is consumed and every call ends.
        for (let round = 0; round < 5000; round += 1) {
          links.host.deliver(pieces.next().value ?? 1);
          links.guest.deliver(pieces.next().value ?? 1);
          for (const model of models) {
            for (const flow of [0, 1, 2] as const) model.consume(flow, 1 << 20);
            model.wantsResult = true;
            model.finishIfDone();
          }
          if (pair.host.streamCount === 0 && pair.guest.streamCount === 0 && links.host.queuedBytes === 0)
            break;
          if (round % 8 === 7) await new Promise((resolve) => setImmediate(resolve));
        }
        for (const [index, model] of models.entries()) {
          const name = `stream ${index + 1}`;
          if (model.problem !== undefined) throw new Error(`${name}: ${model.problem}`);
          if (model.results !== 1) throw new Error(`${name} had ${model.results} results`);
          if (model.isCancelled) continue;
          const { 1: out, 2: err } = model.flows;
          if (out.received !== out.offered || err.received !== err.offered)
            throw new Error(`${name} lost output`);
        }
        // One full data frame and small control frames may exceed the link's limit.
        const bound = capacityBytes + MAX_DATA_BYTES + 4096;
        if (links.guest.maxQueuedBytes > bound || links.host.maxQueuedBytes > bound)
          throw new Error('a queue grew');
        if (pair.faults.length > 0) throw pair.faults[0];
      },
    ),
    { numRuns: 150 },
  );
  t.pass();
});

t.test('in flight never exceeds the window, and one byte at a time costs its frames', async (t) => {
  let sentFrames = 0;
  const pair = channelPair((stream) => {
    stream.setSource(FLOW.out, () => {
      sentFrames += 1;
      return Buffer.of(1);
    });
    stream.ready(FLOW.out);
  });
  const got = new Tally();
  const stream = pair.host.open(call, got);
  await settle(pair.links);
  const heldFrames = Math.floor((DEFAULT_WINDOW_BYTES - 1) / 65);
  t.equal(sentFrames, heldFrames, 'a stalled reader holds a frame for each 65 bytes of the window');
  t.equal(got.bytes, sentFrames);
  stream.consumed(got.bytes * 10);
  await settle(pair.links);
  t.equal(sentFrames, got.bytes, 'everything that was held is given back at once');
  t.ok(got.bytes >= 2 * heldFrames && got.bytes < 2 * heldFrames + 10, 'and no more, whatever is claimed');
});

t.test('two flows with bytes take turns, and a small one waits for one turn only', async (t) => {
  const order: string[] = [];
  const pair = channelPair(
    (stream) => {
      const isBulk = stream.id < 3;
      let left = isBulk ? 300_000 : 10;
      stream.setSource(FLOW.out, (maxBytes) => {
        const bytes = Math.min(left, maxBytes);
        left -= bytes;
        return bytes === 0 ? null : Buffer.alloc(bytes, 1);
      });
      stream.ready(FLOW.out);
    },
    { capacityBytes: 1 },
  );
  for (let id = 1; id <= 3; id += 1) pair.host.open(call, { data: () => void order.push(`${id}`) });
  pair.links.host.deliver(1 << 20);
  await settle(pair.links);
  t.equal(order.slice(0, 6).join(''), '112312', 'the first frame was sent before the others came');
});

t.test('a stream whose reader stalls does not hold up another', async (t) => {
  const pair = channelPair((stream) => {
    stream.setSource(FLOW.out, (maxBytes) => Buffer.alloc(maxBytes, stream.id));
    stream.ready(FLOW.out);
  });
  const stalled = new Tally();
  pair.host.open(call, stalled);
  let got = 0;
  const eager: Stream = pair.host.open(call, {
    data: (_flow, chunk) => {
      got += chunk.length;
      eager.consumed(chunk.length);
    },
  });
  for (let round = 0; got < 8 * 1024 * 1024 && round < 5000; round += 1) {
    pair.links.host.deliver(65_536);
    pair.links.guest.deliver(65_536);
    if (round % 8 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  t.ok(got >= 8 * 1024 * 1024);
  t.ok(stalled.bytes <= DEFAULT_WINDOW_BYTES);
  pair.host.close(new Error('done'));
});

t.test('a busy sender leaves the event loop its turns', async (t) => {
  const pair = channelPair(
    (stream) => {
      stream.setSource(FLOW.out, () => Buffer.of(1));
      stream.ready(FLOW.out);
    },
    { windowBytes: 1024 * 1024, capacityBytes: 1 << 30 },
  );
  for (let id = 0; id < 20; id += 1) pair.host.open(call, {});
  pair.links.host.deliver(1 << 20);
  const first = pair.links.guest.writtenBytes;
  t.ok(first < 512 * 1024 * 2, `${first} bytes were sent before the loop had its turn`);
  pair.guest.close(new Error('done'));
});
