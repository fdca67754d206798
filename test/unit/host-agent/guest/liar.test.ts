// A guest agent that performs the handshake correctly and sends wrong answers to everything else. The affected calls
// fail with an error; the daemon's memory stays small, and it continues with the guest's next message.
import { FLOW, FrameCodec, type FrameInput, type Request } from '@sandboxd/proto';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import type { ExecOutcome } from '../../../../host-agent/src/guest/exec.ts';
import { Guest } from '../../../../host-agent/src/guest/guest.ts';
import { readOutputPage, toStatusBody } from '../../../../host-agent/src/http/routes/service.ts';
import { createReaderLimit } from '../../../../host-agent/src/sandboxes/commands.ts';
import { createSandboxService } from '../../../../host-agent/src/sandboxes/service.ts';
import { encodeGap, encodeRingStart } from '../../../../proto/src/service-records.ts';
import { FrameDecoder } from '../../../../proto/src/wire/frame-decoder.ts';
import { encodeFrame } from '../../../../proto/src/wire/frame-encoder.ts';
import { syncMark } from '../../../../proto/src/wire/sync-mark.ts';
import { loopLinks } from '../../../support/memory-host/link.ts';
import { until } from '../../../support/until.ts';

const MIB = 2 ** 20;
const HUGE = 2 ** 64;

type Told = {
  readonly stream: number;
  readonly request?: Request;
  readonly credit: number;
  readonly cancel: boolean;
};
type Say = (...frames: readonly FrameInput[]) => void;

/** Answers each hello, and everything else as `lie` does. */
function openLiar(t: Test, lie: (say: Say, told: Told) => void) {
  /** The lines of the log. */
  const seen = { lines: [] as Record<string, unknown>[] };
  const openChannel = async () => {
    const { host, guest: own } = loopLinks();
    const say: Say = (...frames) => void own.write(frames.flatMap((frame) => encodeFrame(frame)));
    const decoder = new FrameDecoder('skip', (encoded) => {
      const { stream, hello, request, credit, cancel } = FrameCodec.decode(Buffer.from(encoded));
      if (hello) {
        own.write([syncMark(hello.nonce ?? Buffer.alloc(0))]);
        const reply = {
          version: 1,
          nonce: hello.nonce ?? null,
          window: 65_536,
          agentVersion: '1',
          bootId: 'b',
        };
        say({ helloReply: { ...reply, capabilities: ['clock'] } });
      } else
        lie(say, {
          stream,
          credit: credit ?? 0,
          cancel: !!cancel,
          ...(request && { request: request as Request }),
        });
    });
    own.start({ data: (chunk) => decoder.push(Buffer.from(chunk)), drain: () => {}, close: () => {} });
    return { link: host, needsResync: false };
  };
  const log = pino({ level: 'debug' }, { write: (line: string) => void seen.lines.push(JSON.parse(line)) });
  const guest = new Guest({ source: { openChannel }, incarnation: 'one', log });
  t.teardown(() => guest.close(new Error('over')));
  return { guest, seen };
}

t.test('bytes of a file that arrive before its size do not reach a client', async (t) => {
  const { guest } = openLiar(t, (say, { stream, request }) => {
    if (!request?.filePull) return;
    say({ stream, flow: FLOW.out, data: Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n') });
    say({ stream, started: { file: { isSizeKnown: true, sizeBytes: 4, contentBytes: 4 } } });
    say({ stream, flow: FLOW.out, data: Buffer.from('file') }, { stream, result: { filePull: {} } });
  });
  await guest.connect();
  await t.rejects(guest.files.pullFile('/x', 1000), {
    code: 'guest_unreachable',
    message: /bytes of a file before its description/,
  });
});

t.test('a page of output that never ends is given up', async (t) => {
  const gaps = Buffer.concat(Array.from({ length: 1000 }, (_, seq) => encodeGap(seq, 1, 1)));
  let sent = 0;
  let cancels = 0;
  const { guest } = openLiar(t, (say, { stream, request, cancel }) => {
    if (cancel) cancels += 1;
    if (request?.serviceOutput) say({ stream, flow: FLOW.out, data: encodeRingStart(0, 'ab'.repeat(8)) });
    if (cancel || sent > 400 * MIB) return;
    // As much as there is credit for, repeatedly.
    for (let round = 0; round < 12; round++) {
      sent += gaps.length;
      say({ stream, flow: FLOW.out, data: gaps });
    }
  });
  await guest.connect();
  const service = createSandboxService(guest, {}, createReaderLimit());
  await t.rejects(readOutputPage(service, { fromSeq: 0, maxBytes: 1000 }, new AbortController().signal), {
    code: 'guest_unreachable',
    message: 'the guest agent gave more output than it was asked for',
  });
  await until(() => cancels === 1, 'the guest is told');
  t.ok(sent < 4 * MIB, `${sent} bytes`);
});

t.test('a reason of megabytes, and one that would move a terminal, is cut', async (t) => {
  const message = `\u001b]0;owned\u0007${'x'.repeat(4 * MIB - 1000)}`;
  const { guest } = openLiar(t, (say, { stream, request }) => {
    if (request) say({ stream, result: { error: { code: 'internal', message } } });
  });
  await guest.connect();
  const ends: ExecOutcome[] = [];
  guest.exec({ cmd: ['x'], env: {}, timeout_s: 0 }, { output: () => {}, exit: (end) => void ends.push(end) });
  await until(() => ends.length === 1, 'the end');
  t.ok((ends[0]?.error ?? '').length <= 4096, `${ends[0]?.error?.length} characters`);
  for (const call of [
    () => guest.stats(),
    () => guest.growDisk(),
    () => guest.service.control('status'),
    () => guest.files.pullFile('/x', 10),
  ])
    t.ok(
      (
        await call().then(
          () => '',
          ({ message }: Error) => message,
        )
      ).length < 5000,
    );
});

t.test('numbers that no machine has become counts that JSON can hold', async (t) => {
  const usage = {
    ...{ cpuUserUs: HUGE, cpuSysUs: -1, peakMemoryBytes: HUGE, pageFaultsMajor: HUGE },
    ...{ contextSwitchesInvoluntary: HUGE, ioReadBytes: HUGE, ioWriteBytes: HUGE },
  };
  const exec = {
    exitCode: -(2 ** 31),
    durationUs: HUGE,
    signal: 'SIG\u009b'.repeat(100),
    usage,
    agentUs: HUGE,
  };
  const ring = {
    id: '\u0000'.repeat(5000),
    firstSeq: HUGE,
    nextSeq: HUGE,
    droppedRecords: HUGE,
    droppedBytes: HUGE,
  };
  const status = {
    ...{
      state: 'running',
      pid: 2 ** 32 - 1,
      restarts: 2 ** 32 - 1,
      startedUnixMs: HUGE,
      uptimeMs: HUGE,
      ring,
    },
    ...{ lastExit: exec, lastExitUnixMs: HUGE, liveRssBytes: HUGE, livePeakRssBytes: HUGE },
    spec: {
      cmd: ['x'],
      env: ['__proto__=1', '=', 'NOTHING', 'constructor=2'],
      stopGraceMs: HUGE,
      stopSignal: 'no',
    },
  };
  const { guest } = openLiar(t, (say, { stream, request }) => {
    if (request?.exec) say({ stream, result: { exec } });
    if (request?.serviceControl) say({ stream, result: { serviceStatus: status } });
    if (request?.filePull)
      say({ stream, started: { file: { isSizeKnown: true, sizeBytes: HUGE, contentBytes: HUGE } } });
    if (request?.filePush) say({ stream, result: { filePush: { files: HUGE, bytes: HUGE } } });
  });
  await guest.connect();
  const ends: ExecOutcome[] = [];
  guest.exec({ cmd: ['x'], env: {}, timeout_s: 0 }, { output: () => {}, exit: (end) => void ends.push(end) });
  await until(() => ends.length === 1, 'the end');
  const body = toStatusBody(await guest.service.control('status'));
  const file = await guest.files.pullFile('/x', Number.MAX_SAFE_INTEGER);
  file.body.cancel();
  const pushed = await guest.files.pushFiles('/x', () => new Promise(() => {}));
  const check = (value: unknown): void => {
    if (typeof value === 'number') t.ok(Number.isSafeInteger(value), `${value}`);
    if (typeof value === 'string')
      t.ok(/^\P{Cc}{0,4096}$/u.test(value) || value === '', JSON.stringify(value));
    if (typeof value === 'object' && value !== null) for (const each of Object.values(value)) check(each);
  };
  check([ends, JSON.parse(JSON.stringify(body)), file.sizeBytes, file.contentBytes, pushed]);
  t.equal(({} as { polluted?: unknown }).polluted, undefined);
  t.match(ends, [{ exitCode: -1 }]);
});

t.test('a lying clock delays no caller, and is not asked more often', async (t) => {
  let asked = 0;
  const lies = [0, 1, HUGE, 2 ** 53, 1e15, -5];
  const { guest } = openLiar(t, (say, { stream, request }) => {
    const unixTimeUs = lies[asked++ % lies.length] ?? 0;
    if (request?.identity) say({ stream, result: { identity: { unixTimeUs } } });
    else if (request?.setClock) say({ stream, result: { setClock: { unixTimeUs } } });
  });
  await guest.connect();
  await guest.setIdentity({ unixTimeUs: Date.now() * 1000 });
  for (let times = 0; times < 20; times++) guest.stepClock();
  await new Promise((resolve) => setTimeout(resolve, 500));
  t.ok(asked < 40, `${asked} questions`);
});

t.test('what comes to a call that was given up is dropped, and one answer is one', async (t) => {
  const { guest, seen } = openLiar(t, (say, { stream, request, cancel }) => {
    if (request?.stats) setTimeout(() => say({ stream, result: { stats: {} } }), 300);
    if (request?.growDisk) say({ stream, result: { growDisk: {} } }, { stream, result: { growDisk: {} } });
    if (request?.filePull) say({ stream, started: { file: { isSizeKnown: false } } });
    if (cancel) say({ stream, flow: FLOW.out, data: Buffer.alloc(1000, 1) });
  });
  await guest.connect();
  await t.rejects(guest.stats(AbortSignal.timeout(20)), { name: 'TimeoutError' });
  const { body } = await guest.files.pullFile('/x', 5000);
  body.cancel();
  t.equal(await body.next(), undefined);
  await new Promise((resolve) => setTimeout(resolve, 400));
  t.ok(guest.isConnected, 'a late answer is no fault');
  await guest.growDisk();
  await until(
    () => seen.lines.some(({ msg }) => /connection to the guest agent broke/.test(`${msg}`)),
    'the fault',
  );
  t.match(seen.lines, [
    { err: { type: 'ProtocolViolation', message: /^a frame of stream \d+, which is not open$/ } },
  ]);
});
