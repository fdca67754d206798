// Larger windows are lent while there are some, and every end of a pull or a push gives its own back.
import { FLOW, type Request, type Stream } from '@sandboxd/proto';
import t, { type Test } from 'tap';
import { pullFile, pushFiles } from '../../../host-agent/src/guest/files.ts';
import {
  createPushWindows,
  pullWindows,
  WindowBudget,
} from '../../../host-agent/src/guest/request-windows.ts';
import { settle } from '../../support/memory-link.ts';
import { channelPair } from '../proto/support/channel-pair.ts';

const MIB = 2 ** 20;
const CONTENT = Buffer.from('content');

/** How many are left. */
function left(budget: WindowBudget): number {
  const lent = [];
  for (let next = budget.lend(); next !== undefined; next = budget.lend()) lent.push(next);
  for (const { giveBack } of lent) giveBack();
  return lent.length;
}

t.test('a budget', async (t) => {
  const budget = new WindowBudget(4 * MIB, 10 * MIB);
  t.equal(left(budget), 3);
  const lent = budget.lend();
  t.equal(lent?.bytes, 4 * MIB);
  t.equal(left(budget), 2);
  lent?.giveBack();
  lent?.giveBack();
  t.equal(left(budget), 3);
});

type Guest = (stream: Stream, request: Request) => void;

/** Sends the announced content and then ends as told. */
function sending(finish: (stream: Stream) => void, announced = CONTENT.length): Guest {
  return (stream) => {
    let isSent = false;
    stream.setSource(FLOW.out, () => {
      if (isSent) {
        finish(stream);
        return null;
      }
      isSent = true;
      return CONTENT;
    });
    stream.opened({ isSizeKnown: true, sizeBytes: announced, contentBytes: announced });
    stream.ready(FLOW.out);
  };
}

const whole = sending((stream) => stream.finish({ filePull: {} }));

async function start(t: Test, guest: Guest, signal?: AbortSignal) {
  const windows: number[] = [];
  const pair = channelPair((stream, request) => {
    windows.push(request.window);
    guest(stream, request);
  });
  const pulling = pullFile({ channel: pair.host, ...(signal && { signal }) }, '/file', 1000);
  pulling.catch(() => undefined);
  await settle(pair.links);
  t.strictSame(windows, [2 * MIB], 'the guest is told of it');
  return { pair, pulling };
}

t.test('whatever a pull ends by', async (t) => {
  const all = left(pullWindows);
  t.ok(all > 1);
  await t.test('it was read to its end', async (t) => {
    const { pulling } = await start(t, whole);
    t.equal(left(pullWindows), all - 1, 'not before');
    const { body } = await pulling;
    const piece = await body.next();
    t.ok(piece?.bytes.equals(CONTENT));
    piece?.release();
    t.equal(left(pullWindows), all - 1, 'nor while its end was not seen');
    t.equal(await body.next(), undefined);
    t.equal(left(pullWindows), all);
  });
  await t.test('nobody wants the rest', async (t) => {
    const { pulling } = await start(t, whole);
    (await pulling).body.cancel();
    t.equal(left(pullWindows), all);
  });
  await t.test('the guest refuses', async (t) => {
    const { pulling } = await start(t, (stream) => stream.finish({ error: { code: 'not_found' } }));
    await t.rejects(pulling, { code: 'not_found' });
    t.equal(left(pullWindows), all);
  });
  await t.test('the guest ends what it never began', async (t) => {
    const { pulling } = await start(t, (stream) => stream.finish({ filePull: {} }));
    await t.rejects(pulling, { code: 'guest_unreachable' });
    t.equal(left(pullWindows), all);
  });
  await t.test('the guest sends too little', async (t) => {
    const { pulling } = await start(
      t,
      sending((stream) => stream.finish({ filePull: {} }), 500),
    );
    const { body } = await pulling;
    (await body.next())?.release();
    await t.rejects(body.next(), { code: 'guest_unreachable' });
    t.equal(left(pullWindows), all);
  });
  await t.test('the client leaves before the guest answers', async (t) => {
    const leaving = new AbortController();
    const { pulling } = await start(t, () => undefined, leaving.signal);
    leaving.abort(new Error('left'));
    await t.rejects(pulling, { message: 'left' });
    t.equal(left(pullWindows), all);
  });
  await t.test('the connection breaks', async (t) => {
    const { pair, pulling } = await start(
      t,
      sending(() => undefined),
    );
    const { body } = await pulling;
    (await body.next())?.release();
    pair.host.close(new Error('broken'));
    await t.rejects(body.next(), { code: 'guest_unreachable' });
    t.equal(left(pullWindows), all);
  });
  await t.test('the connection was broken before', async (t) => {
    const pair = channelPair(() => undefined);
    pair.host.close(new Error('broken'));
    await t.rejects(pullFile({ channel: pair.host }, '/file', 1000), { code: 'guest_unreachable' });
    t.equal(left(pullWindows), all);
  });
});

t.test('with none left a pull has the window of any stream', async (t) => {
  const lent = [];
  for (let next = pullWindows.lend(); next !== undefined; next = pullWindows.lend()) lent.push(next);
  let window: number | undefined;
  const pair = channelPair((stream, request) => {
    window = request.window;
    whole(stream, request);
  });
  const pulling = pullFile({ channel: pair.host }, '/file', 1000);
  await settle(pair.links);
  t.ok((await (await pulling).body.next())?.bytes.equals(CONTENT));
  t.equal(window, 0);
  for (const { giveBack } of lent) giveBack();
});

t.test('whatever a push ends by', async (t) => {
  const pushWindows = createPushWindows();
  const all = left(pushWindows);
  t.equal(all, 4);
  const begin = async (t: Test, guest: Guest, signal?: AbortSignal) => {
    const windows: number[] = [];
    const pair = channelPair((stream, request) => {
      windows.push(request.pushWindow);
      guest(stream, request);
    });
    const options = { channel: pair.host, pushWindows, ...(signal && { signal }) };
    const pushing = pushFiles(options, '/', () => new Promise(() => undefined));
    pushing.catch(() => undefined);
    t.equal(left(pushWindows), all - 1, 'it has one');
    await settle(pair.links);
    t.strictSame(windows, [2 * MIB], 'the guest is told of it');
    return { pair, pushing };
  };
  await t.test('it was unpacked', async (t) => {
    const { pushing } = await begin(t, (stream) => stream.finish({ filePush: { files: 1, bytes: 2 } }));
    t.strictSame(await pushing, { files: 1, bytes: 2 });
    t.equal(left(pushWindows), all);
  });
  await t.test('the guest refuses', async (t) => {
    const { pushing } = await begin(t, (stream) => stream.finish({ error: { code: 'no_space' } }));
    await t.rejects(pushing, { code: 'invalid_argument' });
    t.equal(left(pushWindows), all);
  });
  await t.test('the client leaves', async (t) => {
    const leaving = new AbortController();
    const { pushing } = await begin(t, () => undefined, leaving.signal);
    leaving.abort(new Error('left'));
    await t.rejects(pushing, { message: 'left' });
    t.equal(left(pushWindows), all);
  });
  await t.test('the connection breaks', async (t) => {
    const { pair, pushing } = await begin(t, () => undefined);
    pair.host.close(new Error('broken'));
    await t.rejects(pushing, { code: 'guest_unreachable' });
    t.equal(left(pushWindows), all);
    const again = pushFiles({ channel: pair.host, pushWindows }, '/', () => new Promise(() => undefined));
    await t.rejects(again, { code: 'guest_unreachable' });
    t.equal(left(pushWindows), all, 'nor was one lent for a broken one');
  });
});

t.test('a guest that does not know of them is not told', async (t) => {
  const windows: (number | null | undefined)[] = [];
  const pair = channelPair(
    (stream, request) => {
      windows.push(request.window, request.pushWindow);
      if (request.filePull) whole(stream, request);
      else stream.finish({ filePush: {} });
    },
    { capabilities: [] },
  );
  const pulling = pullFile({ channel: pair.host }, '/file', 1000);
  const pushing = pushFiles(
    { channel: pair.host, pushWindows: createPushWindows() },
    '/',
    async () => CONTENT,
  );
  await settle(pair.links);
  t.ok((await (await pulling).body.next())?.bytes.equals(CONTENT));
  await pushing;
  t.strictSame(windows, [0, 0, 0, 0]);
});
