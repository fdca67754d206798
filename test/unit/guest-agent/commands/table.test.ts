// The table of commands: which it lists, for how long, and how much memory their output has.
import '../support/addon-dir.ts';
import {
  COMMAND_RESULT_MS,
  COMMAND_STATUSES,
  type Exec,
  FrameCodec,
  MAX_COMMAND_LINE_BYTES,
  MAX_DETACHED_COMMANDS,
  MAX_ENDED_COMMANDS,
  MAX_LISTED_COMMANDS,
  MAX_MESSAGE_BYTES,
  MAX_RUNNING_COMMANDS,
} from '@sandboxd/proto';
import t, { type Test } from 'tap';
import { type Command, CommandTable } from '../../../../guest-agent/src/commands/table.ts';
import { FakeClock } from '../../../support/fake-clock.ts';

const MIB = 2 ** 20;

function makeTable(t: Test, guestMemoryBytes = 512 * MIB) {
  const clock = new FakeClock(t);
  const table = new CommandTable(guestMemoryBytes);
  const admit = (id: string, exec: Partial<Exec> = {}): Command | undefined =>
    table.admit({ cmd: ['x'], id, detach: true, outputBufferBytes: MIB, ...exec } as Exec);
  const ids = (): string[] => table.all.map(({ id }) => id);
  return { clock, table, admit, ids };
}

const END = { exitCode: 0 };
const write = (command: Command | undefined, bytes: number): void => {
  for (let left = bytes; left > 0; left -= 4096)
    command?.recorder?.ring.append(1, Buffer.alloc(Math.min(left, 4096), 7), 1);
};
const kept = (command: Command | undefined): number => {
  const ring = command?.recorder?.ring;
  return ring === undefined ? 0 : ring.end.at - ring.first.at;
};

t.test('a command is listed while it runs and for an hour after its end, oldest first', (t) => {
  const { clock, table, admit, ids } = makeTable(t);
  const [a, b] = [admit('a'), admit('b')];
  const endedUnixMs = clock.nowMs;
  b?.ended(END);
  clock.tick(COMMAND_RESULT_MS - 1);
  t.same(ids(), ['a', 'b']);
  t.match(table.get('b').status, { detached: true, result: END, endedUnixMs });
  a?.ended({ exitCode: 3 });
  clock.tick(1);
  t.same(ids(), ['a']);
  t.throws(() => table.get('b'), { code: 'not_found' });
  clock.tick(COMMAND_RESULT_MS);
  t.equal(table.outputBytes, 0);
  t.same(ids(), []);
  t.end();
});

t.test('the results of the last commands are kept', (t) => {
  const { admit, ids } = makeTable(t);
  for (let n = 0; n < MAX_ENDED_COMMANDS + 5; n++) admit(`c${n}`)?.ended(END);
  t.equal(ids().length, MAX_ENDED_COMMANDS);
  t.equal(ids()[0], 'c5');
  t.end();
});

t.test('an id is used once, and is checked', (t) => {
  const { admit } = makeTable(t);
  admit('a');
  t.throws(() => admit('a'), { code: 'conflict' });
  for (const id of ['', 'a b', 'x'.repeat(65), '../a']) t.throws(() => admit(id), { code: 'invalid' }, id);
  t.equal(admit('', { detach: false }), undefined, 'an older host gives none');
  t.end();
});

t.test('detached commands at once have a limit; attached ones beyond theirs run unlisted', (t) => {
  const { admit, ids } = makeTable(t);
  for (let n = 0; n < MAX_DETACHED_COMMANDS; n++) admit(`d${n}`);
  t.throws(() => admit('more'), { code: 'busy' });
  for (let n = 0; n < MAX_RUNNING_COMMANDS; n++) admit(`a${n}`, { detach: false });
  t.equal(ids().length, MAX_RUNNING_COMMANDS);
  t.equal(admit('unlisted', { detach: false }), undefined);
  t.end();
});

t.test('a list of all that it can have fits into one message', (t) => {
  const { table, admit } = makeTable(t);
  const cmd = Array.from({ length: 1000 }, () => '\u00e4'.repeat(50));
  const usage = Object.fromEntries(
    [
      'cpuUserUs',
      'cpuSysUs',
      'peakMemoryBytes',
      'pageFaultsMajor',
      'contextSwitchesInvoluntary',
      'ioReadBytes',
      'ioWriteBytes',
    ].map((key) => [key, Number.MAX_SAFE_INTEGER]),
  );
  const result = { exitCode: -1, signal: 'SIGRTMIN+30', error: 'e'.repeat(500), usage };
  const id = (n: number): string => String(n).padStart(17, 'x');
  for (let n = 0; n < MAX_ENDED_COMMANDS; n++) admit(id(n), { cmd })?.ended(result);
  for (let n = 0; n < MAX_DETACHED_COMMANDS; n++) admit(id(1e6 + n), { cmd });
  for (let n = 0; n < MAX_RUNNING_COMMANDS; n++) admit(id(2e6 + n), { cmd, detach: false });
  t.equal(table.all.length, MAX_LISTED_COMMANDS);
  const commands = COMMAND_STATUSES.encode(table.all.map(({ status }) => status));
  const bytes = FrameCodec.encode({ stream: 1, result: { commandList: { commands } } }).finish();
  t.ok(bytes.length < MAX_MESSAGE_BYTES, `${bytes.length} bytes`);
  t.end();
});

t.test('a status has the beginning of a long command line, in whole characters', (t) => {
  const { admit } = makeTable(t);
  const status = admit('a', { cmd: ['sh', '-c', '\u20ac'.repeat(3000)] })?.status;
  t.match(status, { cmdTruncated: true, cmd: ['sh', '-c', /^\u20ac+$/] });
  t.ok(Buffer.byteLength(status?.cmd?.join('') ?? '') <= MAX_COMMAND_LINE_BYTES);
  t.match(admit('b', { cmd: ['ls', ''] })?.status, { cmd: ['ls', ''], cmdTruncated: false });
  t.end();
});

t.test('the output of a command is kept up to its own limit', (t) => {
  const { table, admit } = makeTable(t);
  const command = admit('a', { outputBufferBytes: 100_000 });
  t.equal(table.outputBytes, 0, 'none without output');
  write(command, 10_000);
  t.ok(table.outputBytes <= 16_384, 'a little for a little');
  write(command, 1_000_000);
  t.ok(kept(command) > 90_000 && kept(command) < 101_000, `${kept(command)}`);
  t.ok(table.outputBytes < 200_000);
  t.end();
});

t.test('all output together has a limit, to which ended commands give way first', (t) => {
  const { table, admit } = makeTable(t, 128 * MIB);
  const limitBytes = 4 * MIB;
  const ended = [0, 1, 2].map((n) => admit(`e${n}`));
  for (const command of ended) write(command, 2 * MIB);
  for (const command of ended) command?.ended(END);
  t.ok(table.outputBytes <= limitBytes, `${table.outputBytes}`);
  const running = [0, 1].map((n) => admit(`r${n}`));
  for (const command of running) write(command, 2 * MIB);
  t.equal(kept(ended[0]), 0, 'the one that ended first');
  t.ok(kept(running[0]) > MIB * 0.9 && kept(running[1]) > MIB * 0.9);
  const many = Array.from({ length: 200 }, (_, n) => admit(`m${n}`));
  for (const command of many) write(command, 2 * MIB);
  t.ok(table.outputBytes <= limitBytes + 200 * 16_384, `${table.outputBytes}`);
  for (const command of many) t.ok(kept(command) > 8000, 'each has its minimum');
  for (const command of [...many, ...running]) command?.ended(END);
  t.ok(table.outputBytes <= limitBytes + 200 * 16_384);
  t.end();
});
