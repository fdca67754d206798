// Results of pushes, pulls and commands: their bytes, refusals, and a guest that is lost meanwhile.
import { FILE_ENTRIES, FLOW, type ResultInput, type Stream } from '@sandboxd/proto';
import t from 'tap';
import { type ExecOutcome, startExec } from '../../../../host-agent/src/guest/exec.ts';
import { callFiles, pullDirectory, pullFile, pushFiles } from '../../../../host-agent/src/guest/files.ts';
import { settle } from '../../../support/memory-link.ts';
import { type ChannelPair, channelPair } from '../../proto/support/channel-pair.ts';

/** A guest that answers each call at once. */
function answering(result: ResultInput, file?: Parameters<Stream['opened']>[0]): ChannelPair {
  return channelPair((stream) => {
    if (file) stream.opened(file);
    stream.finish(result);
  });
}

/** The result of `call` after all bytes have moved. */
async function settled<T>(pair: ChannelPair, call: Promise<T>): Promise<T> {
  call.catch(() => undefined);
  await settle(pair.links);
  return call;
}

t.test('a push arrives whole, whatever the pieces are that it is read in', async (t) => {
  const got: Buffer[] = [];
  const pair = channelPair(
    (stream) => {
      stream.handlers = {
        data: (_flow, chunk) => {
          got.push(Buffer.from(chunk));
          stream.consumed(chunk.length);
        },
        end: () => stream.finish({ filePush: { files: 2, bytes: Number.NaN } }),
      };
    },
    { windowBytes: 10_000 },
  );
  const pieces = [1, 0, 50_000, 0, 0, 7, 9000].map((size, index) => Buffer.alloc(size, index + 1));
  let reads = 0;
  let isReading = false;
  const read = async () => {
    t.notOk(isReading, 'one read at a time');
    isReading = true;
    await new Promise((resolve) => setImmediate(resolve));
    isReading = false;
    return pieces[reads++];
  };
  const pushing = pushFiles({ channel: pair.host }, '/x', read);
  for (let rounds = 0; rounds < 50; rounds++) await settle(pair.links);
  t.same(await pushing, { files: 2, bytes: 0 }, 'numbers of a guest are counts');
  t.ok(Buffer.concat(got).equals(Buffer.concat(pieces)));
  t.equal(reads, pieces.length + 1);
  t.same(pair.faults, []);
});

t.test('a refusal means to a client what it is for that kind of call', async (t) => {
  const refusing = (code: string) => answering({ error: { code, message: 'because' } });
  const read = () => new Promise<undefined>(() => {});
  for (const [code, pull, push] of [
    ['not_found', 'not_found', 'invalid_argument'],
    ['busy', 'exhausted', 'exhausted'],
    ['invalid', 'invalid_argument', 'invalid_argument'],
    ['internal', 'internal', 'internal'],
    ['unsupported', 'unsupported', 'unsupported'],
  ] as const) {
    const [one, two, three] = [refusing(code), refusing(code), refusing(code)];
    await t.rejects(settled(one, pullFile({ channel: one.host }, '/x', 10)), {
      code: pull,
      message: 'because',
    });
    await t.rejects(settled(two, pullDirectory({ channel: two.host }, '/x')), { code: pull });
    await t.rejects(settled(three, pushFiles({ channel: three.host }, '/x', read)), { code: push });
  }
  const closed = refusing('internal');
  closed.host.close(new Error('it is gone'));
  await t.rejects(pullFile({ channel: closed.host }, '/x', 10), {
    code: 'guest_unreachable',
    message: 'the guest agent cannot be reached: it is gone',
  });
  const long = refusing('internal');
  await t.rejects(pullFile({ channel: long.host }, '/'.repeat(2 ** 22 + 1), 10), {
    code: 'invalid_argument',
    message: /^the path is too long/,
  });
});

t.test('a response of another kind is an error', async (t) => {
  const other = { stats: {} };
  for (const pair of [answering(other), answering({ filePull: {} }), answering({ dirPull: {} })])
    await t.rejects(settled(pair, pullFile({ channel: pair.host }, '/x', 10)), {
      code: 'guest_unreachable',
      message: /another question$/,
    });
  const pair = answering(other);
  await t.rejects(
    settled(
      pair,
      pushFiles({ channel: pair.host }, '/x', () => new Promise(() => {})),
    ),
    {
      code: 'guest_unreachable',
    },
  );
});

t.test('an answer to another question behind the bytes of a pull is no end of them', async (t) => {
  for (const [result, isEnd] of [
    [{ filePull: {} }, true],
    [{ dirPull: {} }, true],
    [{ stats: {} }, false],
  ] as const) {
    const pair = answering(result, { isSizeKnown: false });
    const { body } = await settled(pair, pullDirectory({ channel: pair.host }, '/x'));
    if (isEnd) t.equal(await body.next(), undefined);
    else await t.rejects(body.next(), { code: 'guest_unreachable', message: /another question$/ });
  }
});

t.test('a pull says of the file what is known, and never more than was asked for', async (t) => {
  for (const [file, maxBytes, wanted] of [
    [{ isSizeKnown: true, sizeBytes: 100, contentBytes: 100 }, 1000, { sizeBytes: 100, contentBytes: 100 }],
    [{ isSizeKnown: true, sizeBytes: 100, contentBytes: 100 }, 30, { sizeBytes: 100, contentBytes: 30 }],
    [{ isSizeKnown: true, sizeBytes: 100, contentBytes: 500 }, 1000, { sizeBytes: 100, contentBytes: 100 }],
    [{ isSizeKnown: false, sizeBytes: 100, contentBytes: 100 }, 1000, {}],
  ] as const) {
    const pair = channelPair((stream) => stream.opened(file));
    const { body, ...info } = await settled(pair, pullFile({ channel: pair.host }, '/x', maxBytes));
    t.same(info, wanted);
    body.cancel();
  }
  const pair = channelPair((stream) => stream.started(5));
  const { body, ...info } = await settled(pair, pullFile({ channel: pair.host }, '/x', 10));
  t.same(info, {}, 'and nothing where there is no word of it');
  body.cancel();
});

t.test('a list has no more entries than were asked for, and none of other bytes', async (t) => {
  const entry = { path: Buffer.from('x'), mode: 0o100644 };
  const list = (entries: Uint8Array) => {
    const pair = answering({ fileCall: { entries, hasMore: true } });
    const call = callFiles({ channel: pair.host }, { list: { maxEntries: 2 } });
    return settled(pair, call);
  };
  const at = (path: string) => ({ ...entry, path: Buffer.from(path) });
  const answer = await list(
    FILE_ENTRIES.encode([
      { ...entry, mtimeUs: -1e18 },
      { ...at('y'), version: 'A"<1.2>' },
    ]),
  );
  t.match(new Date(answer.entries[0]?.modifiedAtMs ?? 0).toISOString(), /^0000-/);
  t.match(answer.entries, [{ type: 'file', mode: 0o644 }, { version: '1.2' }]);
  for (const entries of [
    FILE_ENTRIES.encode([entry, at('y'), at('z')]),
    FILE_ENTRIES.encode([entry, entry]),
    FILE_ENTRIES.encode([at('y'), entry]),
    ...['', '..', '.', '../x', 'x/../..', '/etc/passwd', 'x/', 'x\0', 'x/y', 'z'.repeat(4096)].map((path) =>
      FILE_ENTRIES.encode([at(path)]),
    ),
    FILE_ENTRIES.encode([at('a')]),
    Buffer.alloc(50_000),
    Buffer.from([9, 9]),
  ]) {
    const pair = answering({ fileCall: { entries } });
    const call = callFiles({ channel: pair.host }, { list: { maxEntries: 2, after: Buffer.from('a') } });
    call.catch(() => undefined);
    await t.rejects(settle(pair.links), { name: 'ProtocolViolation' });
    await t.rejects(call, { code: 'guest_unreachable' });
  }
  t.same((await list(Buffer.alloc(0))).entries, []);
});

t.test('a list of a million entries costs a page of them, and pages that go round are refused', async (t) => {
  const page = (entries: Uint8Array, after: string) => {
    const pair = answering({ fileCall: { entries, hasMore: true } });
    const call = callFiles(
      { channel: pair.host },
      { list: { maxEntries: 1000, after: Buffer.from(after), depth: 2 } },
    );
    call.catch(() => undefined);
    return { call, moved: settle(pair.links) };
  };
  const named = Array.from({ length: 60_000 }, (_, at) => ({ path: Buffer.from(String(1e5 + at)) }));
  for (const entries of [Buffer.alloc(1_000_000), FILE_ENTRIES.encode(named)]) {
    const before = process.memoryUsage().heapUsed;
    const { call, moved } = page(entries, '');
    await t.rejects(moved, { name: 'ProtocolViolation' });
    await t.rejects(call, { code: 'guest_unreachable' });
    const mib = (process.memoryUsage().heapUsed - before) / 2 ** 20;
    t.ok(mib < 32, `${mib.toFixed(1)} MiB`);
  }
  // The guest answers every question with the same page: its last entry is no way on.
  const again = FILE_ENTRIES.encode([{ path: Buffer.from('a') }, { path: Buffer.from('a/b') }]);
  const first = page(again, '');
  await first.moved;
  t.match(await first.call, { hasMore: true, entries: { length: 2 } });
  for (const after of ['a/b', 'a', 'b']) {
    const { call, moved } = page(again, after);
    await t.rejects(moved, { name: 'ProtocolViolation', message: /goes back/ });
    await t.rejects(call, { code: 'guest_unreachable' });
  }
});

t.test('a guest that is lost takes its calls with it, each with the reason', async (t) => {
  const pair = channelPair((stream, { filePull }) => filePull && stream.opened({ isSizeKnown: false }));
  const explainLoss = async () => 'the VMM was killed';
  const explained = pushFiles({ channel: pair.host, explainLoss }, '/x', () => new Promise(() => {}));
  const plain = pullDirectory({ channel: pair.host }, '/x');
  const begun = await settled(pair, pullFile({ channel: pair.host, explainLoss }, '/x', 10));
  const reading = begun.body.next();
  for (const call of [explained, plain, reading]) call.catch(() => undefined);
  pair.host.close(new Error('broken pipe'));
  await t.rejects(explained, {
    code: 'internal',
    message: 'the sandbox died while files were pushed: the VMM was killed; delete it and create another',
  });
  await t.rejects(plain, {
    code: 'guest_unreachable',
    message: 'the guest agent was lost while a directory was pulled: broken pipe',
  });
  await t.rejects(reading, { code: 'internal', message: /while a file was pulled: the VMM was killed/ });
});

t.test('a command that was refused, answered wrongly or lost has an end that says so, once', async (t) => {
  const run = async (pair: ChannelPair, after: () => void = () => undefined) => {
    const ends: ExecOutcome[] = [];
    const exec = startExec(
      pair.host,
      { cmd: ['x'], env: {}, timeout_s: 0 },
      { output: () => undefined, exit: (end) => void ends.push(end) },
      { hasStdin: true, explainLoss: async () => 'the VMM was killed' },
    );
    await settle(pair.links);
    after();
    await settle(pair.links);
    const written = pair.links.host.writtenBytes;
    t.ok(exec.write(Buffer.alloc(2 ** 20)), 'nothing is kept for one that is over');
    exec.closeStdin();
    exec.signal('SIGINT');
    exec.resize({ cols: 1, rows: 1 });
    exec.consumed(5);
    exec.cancel();
    t.equal(pair.links.host.writtenBytes, written);
    return ends;
  };
  t.match(await run(answering({ error: { code: 'busy', message: 'too many' } })), [
    { exitCode: -1, error: 'too many', isLost: undefined },
  ]);
  t.match(await run(answering({ stats: {} })), [{ error: 'the guest agent gave no exec result' }]);
  const pair = channelPair(() => undefined);
  t.match(await run(pair, () => pair.host.close(new Error('broken pipe'))), [
    { exitCode: -1, isLost: true, error: 'the sandbox was lost while the command ran: the VMM was killed' },
  ]);
});

t.test('input, signals and sizes reach a command in order', async (t) => {
  const told: string[] = [];
  const pair = channelPair((stream) => {
    stream.handlers = {
      data: (_flow, chunk) => {
        told.push(`${chunk}`);
        stream.consumed(chunk.length);
      },
      end: (flow) => void told.push(`end ${flow}`),
      signal: (name) => void told.push(name),
      resize: ({ cols, rows }) => void told.push(`${cols}x${rows}`),
    };
  });
  const events = { output: () => undefined, exit: () => undefined };
  const request = { cmd: ['x'], env: {}, timeout_s: 0 };
  const exec = startExec(pair.host, request, events, { hasStdin: true });
  t.ok(exec.write(Buffer.from('one')));
  await settle(pair.links);
  exec.signal('SIGINT');
  exec.resize({ cols: 3, rows: 4 });
  exec.write(Buffer.alloc(0));
  exec.write(Buffer.from('two'));
  exec.closeStdin();
  exec.write(Buffer.from('late'));
  exec.closeStdin();
  await settle(pair.links);
  t.same(told, ['one', 'SIGINT', '3x4', 'two', `end ${FLOW.in}`]);
  const silent = startExec(pair.host, request, events);
  silent.closeStdin();
  await settle(pair.links);
  t.equal(told.length, 5, 'one without input is told no end of it');
});

t.test('a blocked writer is woken once, when there is space', async (t) => {
  const pair = channelPair((stream) => {
    stream.started(77);
    stream.handlers = { data: (_flow, chunk) => stream.consumed(chunk.length) };
  });
  const told: unknown[] = [];
  const exec = startExec(
    pair.host,
    { cmd: ['x'], env: {}, timeout_s: 0 },
    {
      started: (pid) => told.push(pid),
      output: () => undefined,
      exit: () => undefined,
      drain: () => told.push('drain'),
    },
    { hasStdin: true },
  );
  await settle(pair.links);
  t.ok(exec.write(Buffer.alloc(100)));
  await settle(pair.links);
  t.same(told, [77], 'nobody waited');
  t.notOk(exec.write(Buffer.alloc(2 ** 21)));
  await settle(pair.links);
  t.same(told, [77, 'drain']);
});

t.test('a cancelled transfer reads nothing more, and ends in the guest', async (t) => {
  let cancels = 0;
  const pair = channelPair((stream) => {
    stream.handlers = { cancel: () => void cancels++ };
  });
  const signal = AbortSignal.abort(new Error('the client left'));
  const read = () => t.fail('nothing is to be read') as never;
  await t.rejects(settled(pair, pushFiles({ channel: pair.host, signal }, '/x', read)), {
    message: 'the client left',
  });
  await t.rejects(settled(pair, pullFile({ channel: pair.host, signal }, '/x', 10)), {
    message: 'the client left',
  });
  t.equal(cancels, 2);
});

t.test('a push whose guest has answered reads no further', async (t) => {
  const pair = answering({ filePush: { files: 1, bytes: 2 } });
  let reads = 0;
  let give: (bytes: Uint8Array | undefined) => void = () => undefined;
  const read = () => {
    reads += 1;
    return new Promise<Uint8Array | undefined>((resolve) => {
      give = resolve;
    });
  };
  t.same(await settled(pair, pushFiles({ channel: pair.host }, '/x', read)), { files: 1, bytes: 2 });
  for (const bytes of [Buffer.alloc(0), Buffer.of(1), undefined]) {
    give(bytes);
    await settle(pair.links);
  }
  t.equal(reads, 1);
  t.same(pair.faults, []);
});
