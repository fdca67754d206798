// A process that dials for a guest, and that the guest has taken over: whatever it says, the daemon goes on.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { getPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { leaseUsers } from '../../../../host-agent/src/engines/jail/uid-leases.ts';
import { scheduleForThroughput } from '../../../../host-agent/src/lib/scheduling.ts';
import type { ConnectionRecord } from '../../../../host-agent/src/network/connection-record.ts';
import { Dialler } from '../../../../host-agent/src/network/dialler.ts';
import { EgressPolicy } from '../../../../host-agent/src/network/policy.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(120_000));
const OK = '1 allowed ended tls ok.test 1.2.3.4 443 1 1 1';
const toTag = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** `said`: what the program does with each connection `c` of the daemon, which says `line`s. */
async function open(t: Test, said: string, parts: { readonly allowlist?: string[] } = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'broken-'));
  const record = join(dir, 'record');
  writeFileSync(
    join(dir, 'fake.cjs'),
    `const { appendFileSync } = require('fs');
     appendFileSync('${dir}/starts', process.pid + '\\n');
     require('net').createServer((c) => { appendFileSync('${dir}/connects', '.'); c.on('error', () => {});
       let text = ''; c.on('data', (d) => { text += d; const lines = text.split('\\n'); text = lines.pop();
         for (const line of lines) if (typeof onLine !== 'undefined') onLine(line); });
       let onLine; ${said} }).listen(process.argv[6], () => console.log('ready'));`,
  );
  const program = join(dir, 'program');
  writeFileSync(program, `#!/bin/sh\nexec ${process.execPath} ${dir}/fake.cjs "$@"\n`, { mode: 0o755 });
  const leases = join(dir, 'leases');
  const records: ConnectionRecord[] = [];
  const rules: string[] = [];
  const policy = new EgressPolicy({ allowlist: parts.allowlist ?? ['ok.test'] });
  const silent = () => undefined;
  const options = {
    slot: { namespace: '/none', gateway: '192.0.2.1' },
    ...{ program, record, policy: () => policy, generation: 1 },
    users: leaseUsers({ base: 700_000, count: 64 }, 'test', leases),
    nft: async (commands: string) => rules.push(commands),
    resolve: async () => ['1.2.3.4'],
    open: async () => undefined,
    onConnection: (each: ConnectionRecord) => records.push(each),
    onMissed: () => undefined,
    gateway: {
      command: { ...{ jail: '/none', root: dir, program: '/none' }, args: [], files: [] },
      authority: async () => undefined,
    },
    log: { warn: silent, debug: silent } as never,
  };
  const dialler = new Dialler(options);
  t.teardown(async () => {
    await dialler.stop();
    await new Dialler(options).stop();
    rmSync(dir, { recursive: true });
  });
  const count = (name: string, by: string) => {
    try {
      return readFileSync(join(dir, name), 'utf8').split(by).length - 1;
    } catch {
      return 0;
    }
  };
  return {
    ...{ dialler, records, rules, record },
    next: () => new Dialler(options),
    starts: () => count('starts', '\n'),
    connects: () => count('connects', '.'),
    leases: () => readdirSync(leases).filter((name) => /^\d+$/.test(name)),
  };
}

t.test('records that are none of its own words', async (t) => {
  const tags = [5, null, 'x', {}, [1, 2, 3], [1.5, null, ''], [-1, null, ''], [{}, null, ''], [1, null]];
  const words = ['constructor', '__proto__', 'toString', 'hasOwnProperty', ''];
  const lines = [
    ...[...tags, [1, '\u001b[2J', 'x'], [1, null, '\u001b]0;x']].map((tag) => `end ${OK} ${toTag(tag)}`),
    ...['%', toTag('x').slice(1), '-', ''].map((tag) => `end ${OK} ${tag}`),
    ...words.map((word) => `end 1 denied ${word} tls ok.test 1.2.3.4 443 1 1 1 -`),
    ...['\u001b[31m1.2.3.4', '1.2.3', 'x'.repeat(2000), '::1', ''].map(
      (address) => `end 1 denied silent - - ${address} 443 1 1 1 -`,
    ),
    'end 1 denied silent - - 1.2.3.4 99999999 1 1 1 -',
    ...['end', 'lost', 'lost x', 'flow', 'flows', 'synced', '', 'constructor', '__proto__ x'],
    `end ${OK} ${toTag([7, 'ok.test', 'x'])}`,
  ];
  const said = `for (const line of ${JSON.stringify(lines)}) c.write(line + '\\n');`;
  const { dialler, records } = await open(t, said);
  await dialler.begin();
  // A `flow` that was not asked for ends the connection; the rest comes before it.
  await until(() => records.length >= 25);
  for (const { reason, rule, generation, address, port = 0 } of records) {
    t.type(reason, 'string');
    t.notMatch(reason, /\p{C}|native code/u);
    t.notMatch(rule ?? '', /\p{C}/u);
    t.ok(generation === undefined || (Number.isSafeInteger(generation) && generation >= 0));
    t.ok(address === undefined || /^\d+\.\d+\.\d+\.\d+$/.test(address), String(address));
    t.ok(port <= 65_535, String(port));
  }
});

t.test('long lines, long names and floods of lines end it, and hold nothing up', async (t) => {
  const floods = {
    name: `c.write('ask 1 tls ' + Array(15000).fill('a').join('.') + ' 443\\n');`,
    name4k: `for (let n = 0; n < 500; n++) c.write('ask ' + n + ' tls ' + Array(2000).fill('a').join('.') + ' 443\\n');`,
    end: `const all = 'end ${OK} -\\n'.repeat(1400); const more = () => { if (!c.destroyed) c.write(all, more); }; more();`,
    lost: `const all = 'lost 1\\n'.repeat(9000); const more = () => { if (!c.destroyed) c.write(all, more); }; more();`,
    flow: `const all = 'x\\n'.repeat(9000); const more = () => { if (!c.destroyed) c.write(all, more); }; more();`,
    unread: `c.pause(); let n = 0; setInterval(() => { for (let k = 0; k < 2; k++) c.write('ask ' + n++ + ' tls ok.test 443\\n'); }, 20);`,
  };
  for (const [name, said] of Object.entries(floods)) {
    const { dialler, records, starts } = await open(t, said);
    const before = process.cpuUsage();
    await dialler.begin();
    await sleep(1500);
    const { user, system } = process.cpuUsage(before);
    t.ok(user + system < 1_200_000, `${name}: ${user + system} µs`);
    t.ok(records.length < 60_000, `${name}: ${records.length} records`);
    if (name !== 'unread') t.ok(starts() >= 2, `${name}: another one has its place`);
    await dialler.stop();
  }
});

t.test('one that ends at once is started ever less often, and keeps no user id', async (t) => {
  const { dialler, starts, leases, rules } = await open(t, 'process.exit(0);');
  await dialler.begin();
  await sleep(3000);
  t.ok(starts() >= 3 && starts() <= 12, `${starts()} starts`);
  t.ok(leases().length <= 1, `${leases().length} leases`);
  t.ok(rules.includes('flush chain ip sandbox dialler'));
  await dialler.stop();
  t.same(leases(), []);
});

t.test('one of an earlier version is not adopted', async (t) => {
  const { dialler, record, starts, connects, next: again } = await open(t, '');
  await dialler.begin();
  t.equal(starts(), 1);
  dialler.detach();
  const [first = '', second = ''] = readFileSync(record, 'utf8').split('\n');
  const same = again();
  await same.begin();
  await until(() => connects() === 2);
  t.equal(starts(), 1, 'the same version is adopted');
  same.detach();
  writeFileSync(record, `${JSON.stringify({ ...JSON.parse(first), about: undefined })}\n${second}\n`);
  const next = again();
  await next.begin();
  t.equal(starts(), 2);
  await next.stop();
});

t.test('where CPU time or memory is scarce it gives way to the daemon', async (t) => {
  const niceness = getPriority();
  const isRaised = scheduleForThroughput() === undefined;
  const { dialler, record } = await open(t, '');
  await dialler.begin();
  const pid = Number(/"pid":(\d+)/.exec(readFileSync(record, 'utf8'))?.[1]);
  t.equal(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8').trim(), '300');
  if (isRaised) t.equal(getPriority(pid), niceness);
  else t.pass('the daemon has no higher priority');
});

t.test('a daemon that stops within a change waits for no answer, and leaves the process', async (t) => {
  const { dialler, connects, starts, next } = await open(t, '');
  await dialler.begin();
  const change = dialler.change(2);
  await until(() => connects() === 1);
  const from = performance.now();
  dialler.detach();
  await t.rejects(change, { code: 'internal' });
  t.ok(performance.now() - from < scaled(3000));
  await next().begin();
  t.equal(starts(), 1);
});
