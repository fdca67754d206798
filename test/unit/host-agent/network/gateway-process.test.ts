// The daemon's side of a gateway that its guest may have taken over: a program in its place writes what it likes.
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Records } from '../../../../host-agent/src/gateway/records.ts';
import type { ConnectionRecord } from '../../../../host-agent/src/network/connection-record.ts';
import { readGatewayLine } from '../../../../host-agent/src/network/gateway-lines.ts';
import { GatewayProcess } from '../../../../host-agent/src/network/gateway-process.ts';
import { costOfLine, MAX_GATEWAY_LINE, toLine } from '../../../../host-agent/src/network/gateway-wire.ts';
import { until } from '../../../support/until.ts';

const RECORD = { verdict: 'denied', protocol: 'tls', reason: 'x' } as const;

/** `script` has `say`, and `command` when the daemon says something. */
function openProcess(t: Test, script: string, prepare = async (): Promise<void> => undefined) {
  const dir = t.testdir();
  const program = join(dir, 'program.cjs');
  writeFileSync(
    program,
    `#!${process.execPath}
const channel = new (require('net').Socket)({ fd: 3 });
const say = (message) => channel.write(JSON.stringify(message) + '\\n');
channel.on('close', () => process.exit());
channel.on('data', (data) => { for (const line of String(data).trim().split('\\n')) say({ settled: JSON.parse(line).settle, closed: 0 }); ${script} });
console.log('ready');\n`,
  );
  chmodSync(program, 0o755);
  const records: ConnectionRecord[] = [];
  const missed: number[] = [];
  const lines: string[] = [];
  let starts = 0;
  const gateway = new GatewayProcess({
    command: { jail: program, root: '/', program, args: [], files: [] },
    ...{ record: join(dir, 'record'), gate: join(dir, 'gate') },
    users: {
      take: async () => 50_000 + starts++,
      group: async () => undefined,
      handOver: async () => undefined,
      giveBack: async () => undefined,
    },
    settings: async () => ({ policy: { allowlist: [] } }),
    prepare,
    onRecord: (record) => records.push(record),
    onMissed: (count) => missed.push(count),
    log: pino({}, { write: (line: string) => void lines.push(line) }),
  });
  t.teardown(() => gateway.end());
  return { gateway, records, missed, lines, starts: () => starts };
}

t.test('a start waits for what is read slowly, and no change does', async (t) => {
  const { promise, resolve } = Promise.withResolvers<void>();
  let isPrepared = false;
  const { gateway, starts } = openProcess(t, '', async () => {
    if (!isPrepared) await promise;
  });
  const started = gateway.ensure();
  t.equal(await gateway.change(), 0, 'there is none yet');
  t.equal(starts(), 0);
  isPrepared = true;
  resolve();
  await started;
  t.equal(starts(), 1);
  isPrepared = false;
  t.equal(await gateway.change(), 0, 'one that runs');
  await gateway.ensure();
  t.equal(starts(), 1);
});

t.test('records, and how many are missing', async (t) => {
  const { gateway, records, missed } = openProcess(
    t,
    `say({ record: ${JSON.stringify(RECORD)} }); say({ missed: 7 });`,
  );
  await gateway.ensure();
  await until(() => missed.length === 1 && records.length === 1);
  t.same([missed, records], [[7], [RECORD]]);
});

t.test(
  'its second failure within a minute is its end, and another one is started for what waits',
  async (t) => {
    const { gateway, lines, starts } = openProcess(
      t,
      `for (let at = 0; at < 2000; at++) say({ failed: 'x'.repeat(2000) });`,
    );
    await gateway.ensure().catch(() => undefined);
    await until(() => starts() >= 3);
    await gateway.end();
    const failed = lines.filter((line) => line.includes('the gateway of a sandbox failed'));
    t.ok(failed.length <= starts(), 'one in the log for each');
    const before = starts();
    await gateway.end();
    t.equal(starts(), before, 'none after its end');
  },
);

t.test('one that always ends soon is not started each time', async (t) => {
  const { gateway, starts } = openProcess(t, 'process.exit();');
  const errors: string[] = [];
  const isRefused = () => errors.some((message) => /ended too often/.test(message));
  for (let tries = 0; tries < 1000 && !isRefused(); tries++) {
    await gateway.ensure().catch((error) => errors.push(error.message));
    await sleep(5);
  }
  t.ok(isRefused(), `after ${starts()} starts`);
});

t.test('lines', (t) => {
  t.same(readGatewayLine('{"missed":3}'), { missed: 3 });
  t.equal(readGatewayLine('{"missed":-3}'), undefined);
  t.equal(readGatewayLine(JSON.stringify({ failed: 'x'.repeat(MAX_GATEWAY_LINE) })), undefined);
  t.same([costOfLine('x'), costOfLine('x'.repeat(1024)), costOfLine('x'.repeat(1025))], [1, 1, 2]);
  t.end();
});

t.test('the gateway writes records together, and counts those that are too many', async (t) => {
  const writes: string[] = [];
  const said = () => writes.flatMap((lines) => lines.trim().split('\n').map(readGatewayLine));
  const records = new Records(
    (lines) => writes.push(lines),
    () => 0,
  );
  const all = 30_000;
  for (let count = 0; count < all; count++) records.add(RECORD);
  t.ok(writes.join('').length > 100 * writes.length, 'many in one write');
  t.ok(said().length < all);
  await until(() => said().some((message) => message !== undefined && 'missed' in message));
  const missed = said().reduce(
    (sum, message) => sum + (message !== undefined && 'missed' in message ? message.missed : 1),
    0,
  );
  t.equal(missed, all, 'each is written or counted');
  const behind = new Records(
    (lines) => writes.push(lines),
    () => 2 ** 21,
  );
  writes.length = 0;
  behind.add(RECORD);
  await until(() => writes.length === 1);
  t.same(said(), [{ missed: 1 }], 'of a daemon that does not read');
});

t.test('a record alone is written at once, and before what comes after it', async (t) => {
  const writes: string[] = [];
  const records = new Records(
    (lines) => writes.push(lines),
    () => 0,
  );
  const line = toLine({ record: RECORD });
  records.add(RECORD);
  t.same(writes, [line]);
  records.add(RECORD);
  records.add(RECORD);
  t.equal(writes.length, 1);
  await until(() => writes.length === 2, 'those that came soon after');
  t.equal(writes[1], line + line);
  records.add(RECORD);
  records.flush();
  t.same(writes.slice(2), [line], 'without waiting');
  records.flush();
  t.equal(writes.length, 3, 'nothing twice');
});
