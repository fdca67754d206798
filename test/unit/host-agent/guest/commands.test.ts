// The command calls: what a guest may say of its commands and their output, and what costs it its connection or call.
import {
  COMMAND_STATUSES,
  COMMANDS,
  encodeGap,
  encodeRingStart,
  FLOW,
  MAX_LISTED_COMMANDS,
  ProtocolViolation,
  type RequestInput,
  type Result,
  SERVICE_HEADER_BYTES,
  SERVICE_RECORD,
  type Stream,
  type StreamHandlers,
  writeServiceHeader,
} from '@sandboxd/proto';
import t from 'tap';
import type { CommandEvents } from '../../../../host-agent/src/guest/command-stream.ts';
import { GuestCommands } from '../../../../host-agent/src/guest/commands.ts';

const ID = 'cmd_0123456789abc';
const STATUS = {
  ...{ id: ID, cmd: ['x'], cmdTruncated: false, pid: 5, detached: true, stdin: false },
  ...{ startedUnixMs: 1000, endedUnixMs: 0 },
};

/** Commands whose guest answers each call with `result`, and whose streams the test drives. */
function openCommands(result: object = {}, capabilities: readonly string[] = [COMMANDS]) {
  const asked: RequestInput[] = [];
  let handlers: StreamHandlers = {};
  const seen = { cancels: 0, consumed: 0 };
  const commands = new GuestCommands(
    {
      call: async (request) => {
        asked.push(request);
        return result as Result;
      },
      open: (request, given) => {
        asked.push(request);
        handlers = given;
        const stream = {
          consumed: (bytes: number) => {
            seen.consumed += bytes;
          },
          cancel: () => void seen.cancels++,
        };
        return {
          ...stream,
          setSource: () => undefined,
          ready: () => undefined,
          end: () => undefined,
        } as never as Stream;
      },
      can: (capability) => capabilities.includes(capability),
    },
    async () => undefined,
  );
  return { commands, asked, seen, handlers: () => handlers };
}

function output(seq: number, text = 'x'): Buffer {
  const header = Buffer.alloc(SERVICE_HEADER_BYTES);
  const sizeBytes = text.length;
  writeServiceHeader(header, 0, { type: SERVICE_RECORD.stdout, sizeBytes, seq, unixMs: 1 });
  return Buffer.concat([header, Buffer.from(text)]);
}
const start = (seq: number): Buffer => encodeRingStart(seq, '0'.repeat(16));

/** Gives the parts to a client that asked from record 5 on; returns the sequence numbers that it saw. */
function receive(...parts: readonly Buffer[]): number[] {
  const { commands, handlers } = openCommands();
  const seqs: number[] = [];
  const events: CommandEvents = {
    records: (records) => seqs.push(...records.flatMap((each) => (each.kind === 'output' ? [each.seq] : []))),
    end: () => undefined,
    failed: () => undefined,
  };
  commands.attach(ID, { fromSeq: 5, isFollowing: true, input: 'none' }, events);
  for (const part of parts) handlers().data?.(FLOW.out, part);
  return seqs;
}

t.test('sequence numbers grow without a hole, but for a gap that says how long it is', (t) => {
  t.same(receive(start(5), output(5), output(6)), [5, 6]);
  t.same(receive(start(9), encodeGap(9, 4, 100), output(9)), [9], 'what was dropped before the first');
  t.same(receive(start(5), output(5), encodeGap(9, 3, 10), output(9)), [5, 9]);
  t.same(receive(start(2), output(2)), [2], 'the end of the output was before');
  const lies: Readonly<Record<string, readonly Buffer[]>> = {
    'goes back': [start(5), output(5), output(6), output(5)],
    repeats: [start(5), output(5), output(5)],
    skips: [start(5), output(5), output(7)],
    'no beginning': [output(5)],
    'begins twice': [start(5), start(5)],
    'a gap that goes back': [start(5), output(5), output(6), encodeGap(5, 1, 1)],
    'a gap that counts wrong': [start(5), output(5), encodeGap(9, 100, 1)],
    'beyond all numbers': [start(5), output(2 ** 60)],
    'not a number': [start(5), output(Number.NaN)],
  };
  for (const [what, parts] of Object.entries(lies))
    t.throws(() => receive(...parts), ProtocolViolation, what);
  t.end();
});

t.test('a status that cannot be is refused; numbers and texts of it are bounded', async (t) => {
  const get = (status: object | undefined) =>
    openCommands(status && { command: { ...STATUS, ...status } }).commands.get(ID);
  const usage = { cpuUserUs: Number.POSITIVE_INFINITY };
  const result = {
    exitCode: 9999,
    durationUs: -1,
    signal: 'S'.repeat(99),
    error: 'e\u001b'.repeat(9999),
    usage,
  };
  const huge = { startedUnixMs: 2 ** 63, endedUnixMs: Number.NaN, tty: { cols: 2 ** 31, rows: 0 }, result };
  const info = await get(huge);
  t.ok(new Date(info.startedUnixMs).toISOString());
  t.match(info, { endedUnixMs: 0, tty: { cols: 65_535 }, outcome: { exitCode: 255, durationMs: 0 } });
  t.equal(info.outcome?.signal?.length, 32);
  t.notMatch(info.outcome?.error, /\p{Cc}/u);
  const bad = { code: 'guest_unreachable' };
  await t.rejects(get(undefined), bad);
  await t.rejects(get({ id: 'cmd_cba9876543210' }), bad, 'another command');
  await t.rejects(get({ id: '../../etc' }), bad);
  await t.rejects(get({ cmd: ['x'.repeat(5000)] }), bad);
  await t.rejects(get({ cmd: Array.from({ length: 100_000 }, () => '') }), bad);
});

t.test('a list has a bound, and each command once', async (t) => {
  const id = (n: number): string => `cmd_${String(n).padStart(13, '0')}`;
  const list = (ids: readonly string[]) =>
    openCommands({
      commandList: { commands: COMMAND_STATUSES.encode(ids.map((each) => ({ ...STATUS, id: each }))) },
    }).commands.list();
  const many = Array.from({ length: MAX_LISTED_COMMANDS + 1 }, (_, n) => id(n));
  t.equal((await list(many.slice(1))).length, MAX_LISTED_COMMANDS);
  await t.rejects(list(many), { code: 'guest_unreachable' });
  await t.rejects(list([id(1), id(1)]), { code: 'guest_unreachable' });
  await t.rejects(openCommands({}).commands.list(), { code: 'guest_unreachable' });
});

t.test('an older agent is asked nothing', async (t) => {
  const { commands, asked } = openCommands({}, []);
  const request = { cmd: ['x'], env: {}, timeout_s: 0, detach: true };
  await t.rejects(commands.start(request, ID, {}), { code: 'unsupported' });
  await t.rejects(commands.list(), { code: 'unsupported' });
  await t.rejects(commands.wait(ID), { code: 'unsupported' });
  const events = { records: () => undefined, end: () => undefined, failed: () => undefined };
  t.throws(() => commands.attach(ID, { fromSeq: 0, isFollowing: true, input: 'none' }, events), {
    code: 'unsupported',
  });
  t.same(asked, []);
});

t.test('a wait ends with its signal, and only with a result', async (t) => {
  const left = openCommands();
  const over = new AbortController();
  const waiting = left.commands.wait(ID, over.signal);
  over.abort(new Error('left'));
  await t.rejects(waiting, { message: 'left' });
  t.equal(left.seen.cancels, 1);
  const lying = openCommands();
  const lied = lying.commands.wait(ID);
  lying.handlers().result?.({ command: STATUS } as unknown as Result);
  await t.rejects(lied, { code: 'guest_unreachable' }, 'it runs');
  const refused = openCommands();
  const asked = refused.commands.kill(ID, 1000);
  refused.handlers().result?.({ error: { code: 'not_found', message: 'no' } } as unknown as Result);
  await t.rejects(asked, { code: 'not_found' });
  const lost = openCommands();
  const gone = lost.commands.wait(ID);
  lost.handlers().lost?.({ kind: 'lost', cause: new Error('cut') });
  await t.rejects(gone, { code: 'guest_unreachable' });
});
