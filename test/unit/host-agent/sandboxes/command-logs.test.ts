// The log of detached commands: each record of their output is in it once, over lost connections and killed daemons.
import { cpSync, mkdtempSync, readdirSync, rmSync, statSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ServiceRecord } from '@sandboxd/proto';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import type { AttachRequest, CommandInfo } from '../../../../host-agent/src/guest/command-info.ts';
import type { CommandEvents } from '../../../../host-agent/src/guest/command-stream.ts';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import { type LogRecord, LogStore } from '../../../../host-agent/src/logs/index.ts';
import { CommandLogs } from '../../../../host-agent/src/sandboxes/command-logs.ts';
import { CommandCounts } from '../../../../host-agent/src/sandboxes/exec.ts';

const ID = 'sbx_0123456789abc';
const CMD = 'cmd_0123456789abc';
const logger = pino({ level: 'silent' });

/** A guest with one command, whose output is `records`. It has ended once it has an outcome. */
class FakeGuest {
  records: ServiceRecord[] = [];
  exitCode: number | undefined;
  isListed = true;
  readonly requests: AttachRequest[] = [];
  readonly #readers = new Set<{ next: number; events: CommandEvents }>();
  readonly #connected = new Set<() => void>();

  get info(): CommandInfo {
    return {
      ...{ id: CMD, cmd: ['x'], isCmdCut: false, isDetached: true, hasStdin: false, startedUnixMs: 1 },
      output: { firstSeq: 0, nextSeq: this.records.length, droppedBytes: 0 },
      ...(this.exitCode !== undefined && { outcome: { exitCode: this.exitCode, durationMs: 1 } }),
    };
  }

  readonly commands = {
    list: async () => (this.isListed ? [this.info] : []),
    attach: (_id: string, request: AttachRequest, events: CommandEvents) => {
      this.requests.push(request);
      const reader = { next: request.fromSeq, events };
      this.#readers.add(reader);
      setImmediate(() => this.#send());
      return { consumed: () => undefined, cancel: () => this.#readers.delete(reader) };
    },
  };

  write(stream: 'stdout' | 'stderr', data: string | Buffer): void {
    const seq = this.records.length;
    this.records.push({ kind: 'output', stream, seq, unixMs: seq, data: Buffer.from(data) });
    this.#send();
  }

  exit(exitCode: number): void {
    this.exitCode = exitCode;
    this.#send();
  }

  watchConnections(listener: () => void): () => void {
    this.#connected.add(listener);
    return () => this.#connected.delete(listener);
  }

  can(): boolean {
    return true;
  }

  reconnect(): void {
    for (const { events } of this.#readers) events.failed(new AppError('guest_unreachable', 'lost'));
    this.#readers.clear();
    for (const listener of this.#connected) listener();
  }

  #send(): void {
    for (const reader of this.#readers) {
      const records = this.records.slice(reader.next);
      reader.next = this.records.length;
      if (records.length > 0) reader.events.records(records, 10);
      if (this.exitCode === undefined) continue;
      this.#readers.delete(reader);
      reader.events.end({ nextSeq: reader.next, info: this.info });
    }
  }
}

function makeDir(t: Test): string {
  const dir = mkdtempSync(join(tmpdir(), 'sandboxd-command-logs-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

async function open(dir: string, guest: FakeGuest) {
  const store = new LogStore({ dir, maxBytes: 2 ** 26, retentionMs: 1e9, retentionBytes: 1e9, log: logger });
  await store.start(new Set([ID]));
  const log = await store.open(ID);
  if (log === undefined) throw new Error('no log');
  const commandLogs = new CommandLogs({ guest: guest as never, log, logger, counts: new CommandCounts() });
  const read = async () => {
    const records: LogRecord[] = [];
    for (let since = 0; ; ) {
      const page = await store.read(ID, { since });
      records.push(...(page?.records ?? []));
      if (page === undefined || page.nextOffset === since) break;
      since = page.nextOffset;
    }
    const of = (stream: string) =>
      records
        .flatMap((each) => (each.stream === stream ? [each.text] : []))
        .join(stream === 'event' ? '|' : '');
    return { stdout: of('stdout'), stderr: of('stderr'), events: of('event') };
  };
  return { log, commandLogs, read };
}

const turn = () => new Promise((resolve) => setTimeout(resolve, 20));
const line = (n: number): string => `€ line ${n}\n`;
const lines = (from: number, to: number): string =>
  Array.from({ length: to - from }, (_, n) => line(from + n)).join('');

t.test('the next daemon logs what was written without one, and each record once', async (t) => {
  const dir = makeDir(t);
  const guest = new FakeGuest();
  const write = (from: number, to: number): void => {
    const bytes = Buffer.from(lines(from, to));
    // In the middle of a character.
    for (let at = 0; at < bytes.length; at += 7) guest.write('stdout', bytes.subarray(at, at + 7));
    guest.write('stderr', `${from}-${to}\n`);
  };
  const first = await open(dir, guest);
  await first.commandLogs.started(guest.info, ['x']);
  for (let n = 0; n < 10; n++) {
    write(n * 10, n * 10 + 10);
    await turn();
  }
  guest.reconnect();
  write(100, 110);
  await turn();
  await first.log.flush();
  // The files of a daemon that is killed at some point of its last writes.
  const [segment = ''] = readdirSync(join(dir, ID)).filter((name) => name.endsWith('.log'));
  const size = statSync(join(dir, ID, segment)).size;
  const copies = Array.from({ length: 12 }, (_, n) => {
    const copy = makeDir(t);
    cpSync(dir, copy, { recursive: true });
    // What was written last is all of one batch.
    if (n > 0) truncateSync(join(copy, ID, segment), size - n * 37);
    return copy;
  });
  first.commandLogs.stop();
  write(110, 200);
  guest.exit(5);
  for (const [n, copy] of copies.entries()) {
    const second = await open(copy, guest);
    await second.commandLogs.adopt();
    await turn();
    const { stdout, stderr, events } = await second.read();
    t.equal(stdout, lines(0, 200), `cut ${n}`);
    t.match(stderr, /0-10\n.*90-100\n100-110\n110-200\n$/s);
    t.equal(stderr.split('\n').length, 13, 'each once');
    t.match(events, new RegExp(`exec ${CMD}: x\\|exit 5 of ${CMD}$`));
    second.commandLogs.stop();
    await second.log.close();
    const third = await open(copy, guest);
    await third.commandLogs.adopt();
    await turn();
    t.same(await third.read(), { stdout, stderr, events }, 'the end is logged once');
    await third.log.close();
  }
});

t.test('of a long output the end is logged, by whichever daemon sees it', async (t) => {
  const dir = makeDir(t);
  const guest = new FakeGuest();
  const first = await open(dir, guest);
  await first.commandLogs.started(guest.info, ['x']);
  await turn();
  const part = Buffer.alloc(64 * 1024, 'x');
  for (let n = 0; n < 100; n++) guest.write('stdout', part);
  guest.write('stderr', 'once\n');
  await turn();
  await first.log.flush();
  first.commandLogs.stop();
  await first.log.close();
  const second = await open(dir, guest);
  await second.commandLogs.adopt();
  guest.write('stdout', 'the end\n');
  guest.exit(0);
  await turn();
  const { stdout, stderr, events } = await second.read();
  t.match(stdout, /^x+the end\n$/);
  t.equal(stdout.length, 4 * 1024 * 1024 + 64 * 1024);
  t.equal(stderr, 'once\n');
  t.match(events, /bytes of stdout were not logged/);
  await second.log.close();
});

t.test('commands of another log begin with the present, and what is forgotten is said', async (t) => {
  const guest = new FakeGuest();
  guest.write('stdout', 'before\n');
  const dir = makeDir(t);
  const { log, commandLogs, read } = await open(dir, guest);
  await commandLogs.adopt();
  guest.write('stdout', 'after\n');
  await turn();
  t.match(await read(), { stdout: 'after\n', events: /runs already; its output before record 1/ });
  commandLogs.stop();
  await log.close();
  guest.isListed = false;
  const late = await open(dir, guest);
  await late.commandLogs.adopt();
  t.match((await late.read()).events, /ended while no daemon listened/);
  await late.log.close();
  const again = await open(dir, guest);
  await again.commandLogs.adopt();
  t.equal((await again.read()).events, (await late.read()).events, 'once');
  await again.log.close();
});

t.test('a command that has ended before the next daemon is in its log as well', async (t) => {
  const dir = makeDir(t);
  const guest = new FakeGuest();
  const first = await open(dir, guest);
  await first.commandLogs.started(guest.info, ['x']);
  // As it is when the daemon is killed at the moment of its answer.
  const copy = makeDir(t);
  cpSync(dir, copy, { recursive: true });
  guest.write('stdout', 'late\n');
  guest.exit(7);
  const second = await open(copy, guest);
  await second.commandLogs.adopt();
  await turn();
  t.match(await second.read(), { stdout: 'late\n', events: `exec ${CMD}: x|exit 7 of ${CMD}` });
  for (const { log } of [first, second]) await log.close();
});
