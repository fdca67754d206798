// Which requests have a line of their own, and which are only counted.
import t from 'tap';
import type { AuditEntry, RequestEntry } from '../../../../host-agent/src/audit/index.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { entry, open } from './support.ts';

t.test('unauthenticated requests do not displace the lines of others', async (t) => {
  const { start, lines, verify } = await open(t);
  const writer = start();
  const stranger = { key_id: undefined, decision: 'unauthenticated', status: 401 } as Partial<AuditEntry>;
  for (let n = 0; n < 5000; n++) writer.write(entry(n, stranger));
  writer.write(entry(1));
  await writer.close();
  t.equal(lines().length, 1 + 60 + 1 + 1 + 1);
  t.match(lines().join('\n'), /"event":"unlisted","lines":4940,"class":"unauthenticated"/);
  t.same((await verify()).problems, []);
});

/** Requests that cost a client nothing: the class, and how many have lines of their own. */
const CHEAP: Readonly<Record<string, [Partial<RequestEntry>, number]>> = {
  denied: [{ decision: 'denied', status: 403 }, 120],
  failed: [{ route: 'deleteSandbox', operation: 'delete', status: 404 }, 120],
  broken: [{ route: 'createSandbox', operation: 'create', status: 503 }, 120],
  listed: [{ route: 'whoami', status: 200 }, 600],
};

for (const [kind, [flood, most]] of Object.entries(CHEAP)) {
  t.test(`of what is ${kind} a key has ${most} lines a minute, and it hides nothing else`, async (t) => {
    const { start, lines, verify } = await open(t);
    const writer = start();
    for (let n = 0; n < 1000; n++) writer.write(entry(n, { operation: undefined, ...flood } as object));
    const others = Object.keys(CHEAP).filter((other) => other !== kind);
    for (const other of others) writer.write(entry(1, { ...CHEAP[other]?.[0], request: 'mine' } as object));
    for (const route of [
      'readFile',
      'readLogs',
      'readServiceLogs',
      'getService',
      'execWebSocket',
      'pushFiles',
    ])
      writer.write(entry(1, { route, operation: 'read', request: 'mine' } as object));
    writer.write(entry(1, { route: 'pushFiles', status: 400, reached: true, request: 'mine' } as object));
    writer.write(entry(1, { ...flood, key_id: 'other', request: 'mine' } as object));
    await writer.close();
    t.equal(lines().filter((line) => line.includes('"mine"')).length, others.length + 8);
    t.equal(lines().length, 1 + most + others.length + 8 + 1 + 1);
    t.match(
      lines().join('\n'),
      new RegExp(`"event":"unlisted","lines":${1000 - most},"class":"${kind}","key_id":"c1"`),
    );
    t.same((await verify()).problems, []);
  });
}

t.test(
  'what reached a guest has its line; thousands that say the same share one, with their count',
  async (t) => {
    const { start, lines, verify } = await open(t);
    const writer = start();
    const read = { route: 'readFile', operation: 'read' };
    for (let n = 0; n < 5000; n++)
      for (const event of ['begun', 'request'])
        writer.write(entry(n, { ...read, event, ids: ['sbx_1'] } as object));
    writer.write(entry(1, { ...read, ids: ['sbx_2'] } as object));
    writer.write(entry(1, { ids: ['sbx_1'] } as object));
    for (let n = 0; n < 2000; n++) {
      writer.write(entry(n, { route: 'createSandbox', operation: 'create', made: [`sbx_${n}`] } as object));
      writer.write(
        entry(n, { route: 'deleteSandbox', operation: 'delete', status: 204, ids: [`sbx_${n}`] } as object),
      );
    }
    await writer.close();
    const parsed = lines().map((line) => JSON.parse(line));
    const count = (fields: object) =>
      parsed.filter((line) => Object.entries(fields).every(([name, value]) => line[name] === value)).length;
    t.match([count({ route: 'createSandbox' }), count({ route: 'deleteSandbox' })], [2000, 2000]);
    t.equal(count({ route: 'exec' }), 1);
    t.equal(count({ route: 'readFile', event: 'begun' }), 601);
    t.equal(count({ route: 'readFile', event: 'request' }), 602, 'with that of the other sandbox');
    t.match(
      parsed.filter(({ event }) => event === 'repeated'),
      [{ times: 5000 - 601, key_id: 'c1', key: 'ci', ...read, ids: ['sbx_1'] }],
    );
    t.same((await verify()).problems, []);
  },
);

t.test('counts are reported after their minute, and then there are lines again', async (t) => {
  const { start, lines } = await open(t);
  const timers = new FakeClock(t);
  const writer = start();
  const flood = (count: number) => {
    for (let n = 0; n < count; n++)
      writer.write(entry(n, { route: 'whoami', operation: undefined } as object));
  };
  flood(700);
  t.equal(lines().length, 1 + 600);
  await timers.pass(60_000);
  t.match(JSON.parse(lines().at(-1) ?? ''), { event: 'unlisted', lines: 100, class: 'listed' });
  flood(10);
  t.equal(lines().length, 1 + 600 + 1 + 10);
  await timers.pass(60_000);
  t.equal(lines().length, 1 + 600 + 1 + 10, 'nothing to tell');
  await writer.close();
});

t.test('a key that a client put anywhere is in no line', async (t) => {
  const { start, lines, verify } = await open(t);
  const writer = start();
  const key = `sbk_${'aB3-_x9Z'.repeat(4)}`;
  const reason = `host "${key}" is no name of this daemon, nor "${key.toLowerCase()}", %73bk%5f${key.slice(4)}, ${key.slice(0, 20)}`;
  writer.write(
    entry(1, { decision: 'denied', status: 403, reason, request: key, effective: { image: key } } as object),
  );
  await writer.close();
  // With its dash, as three hexadecimal digits come up in the chain of hashes by chance.
  t.notMatch(lines().join(), /aB3-/i);
  t.match(lines().join(), /host \\"sbk_…\\" is no name/);
  t.same((await verify()).problems, []);
});
