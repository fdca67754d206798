// Durable logs of real sandboxes: what is in them, cursors, and that a crash of the daemon loses nothing of it.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import {
  leftovers,
  makeDirectories,
  removeDirectories,
  spawnDaemon,
  startDaemon,
} from '../support/daemon.ts';
import { type LogRecordJson, ServiceClient } from '../support/service.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const { api } = await startDaemon(t);
const COUNT = 'n=0; while :; do n=$((n+1)); echo line $n; done';

/** The numbers of "line n" records, and whether each step that is not 1 has an event beside it. */
function checkLines(records: readonly LogRecordJson[]): {
  last: number;
  lines: number;
  gaps: number;
  wrong: string[];
} {
  const wrong: string[] = [];
  let last = 0;
  let lines = 0;
  let gaps = 0;
  let rest = '';
  let isGap = true;
  for (const record of records) {
    if (record.stream === 'event') {
      isGap = true;
      gaps++;
      rest = '';
      continue;
    }
    const parts = (rest + record.text).split('\n');
    rest = parts.pop() ?? '';
    for (const part of parts) {
      const number = Number(/^line (\d+)$/.exec(part)?.[1]);
      // Behind a gap a line may be cut.
      if (!isGap && number !== last + 1) wrong.push(`${JSON.stringify(part)} behind ${last}`);
      if (Number.isNaN(number)) continue;
      isGap = false;
      last = number;
      lines++;
    }
  }
  return { last, lines, gaps, wrong };
}

t.test('an exec is logged from its command line to its exit code', async (t) => {
  const { id } = await api.create();
  const client = new ServiceClient(api, id);
  t.same(await client.log(), { next_offset: 0, records: [] });
  await api.exec(id, [
    'sh',
    '-c',
    'echo out; echo err >&2; printf "caf\\303"; sleep 0.3; printf "\\251\\n"; exit 7',
  ]);
  const page = await client.log('?source=exec');
  t.same(
    page.records.filter(({ stream }) => stream === 'event').map(({ text }) => text),
    ['exec: sh -c echo out; echo err >&2; printf "caf\\303"; sleep 0.3; printf "\\251\\n"; exit 7', 'exit 7'],
  );
  const textOf = (stream: string) =>
    page.records
      .filter((r) => r.stream === stream)
      .map(({ text }) => text)
      .join('');
  t.equal(textOf('stdout'), 'out\ncafé\n');
  t.equal(textOf('stderr'), 'err\n');
  t.same((await client.log(`?since=${page.next_offset}`)).records, [], 'nothing behind the end');
  t.same((await client.log(`?since=${page.next_offset + 1_000_000}`)).records, [], 'nor beyond it');
  t.same((await client.log('?source=service')).records, []);
  for (const query of ['since=-2', 'since=x', 'source=other']) {
    await t.rejects(client.log(`?${query}`), { status: 400, message: /query/ }, query);
  }
  await api.delete(id);
  t.same((await client.log('?source=exec')).records, page.records, 'the same when the sandbox is gone');
  await t.rejects(api.call('GET', '/sandboxes/sbx_0000000000000/logs'), { status: 404, message: /exist/ });
});

t.test('ten readers follow a service by cursors, and each gets everything once', async (t) => {
  const { id } = await api.create();
  const client = new ServiceClient(api, id);
  const readers = Array.from({ length: 10 }, async (_, reader) => {
    let offset = 0;
    const records: LogRecordJson[] = [];
    while (!records.some(({ text }) => text.includes('the end'))) {
      const page = await client.log(`?since=${offset}&source=service`);
      records.push(...page.records);
      offset = page.next_offset;
      if (page.records.length === 0) await sleep(50 + reader * 20);
    }
    return records;
  });
  await client.put({
    cmd: ['sh', '-c', 'n=0; while [ $n -lt 20000 ]; do n=$((n+1)); echo line $n; done; echo the end'],
  });
  const results = await Promise.all(readers);
  for (const records of results) t.same(records, results[0]);
  const checked = checkLines(results[0] ?? []);
  t.match(checked, { last: 20_000, wrong: [/the end/] }, JSON.stringify(checked).slice(0, 300));
  if (checked.gaps === 0) t.equal(checked.lines, 20_000);
});

t.test('a service that is configured again goes on in the same log', async (t) => {
  const { id } = await api.create();
  const client = new ServiceClient(api, id);
  for (const name of ['one', 'two', 'three']) {
    await client.put({
      cmd: ['sh', '-c', `echo ${name}; trap 'echo ${name} ends; exit' TERM; while :; do sleep 0.1; done`],
    });
    await client.logged(`${name}\n`);
  }
  await client.post('stop');
  const text = (await client.logged('three ends')).replaceAll('Terminated\n', '');
  t.equal(text, 'one\none ends\ntwo\ntwo ends\nthree\nthree ends\n');
});

t.test('in a fork the service goes on, and is logged in a log of its own', async (t) => {
  const { id } = await api.create({
    service: { cmd: ['sh', '-c', 'n=0; while :; do n=$((n+1)); echo line $n; sleep 0.05; done'] },
  });
  const source = new ServiceClient(api, id);
  await source.logged('line 20\n');
  const snapshot = await api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`);
  const { sandboxes } = await api.call<{ sandboxes: { id: string }[] }>(
    'POST',
    `/snapshots/${snapshot.id}/fork`,
  );
  const fork = new ServiceClient(api, sandboxes[0]?.id ?? '');
  const before = await source.status();
  t.match(
    await fork.status(),
    { state: 'running', pid: before.pid, restarts: 0 },
    'the same process, not another',
  );
  await fork.logged('line 100\n');
  await source.logged('line 100\n');
  for (const client of [source, fork]) {
    const { records } = await client.wholeLog('&source=service');
    t.match(checkLines(records), { wrong: [], gaps: 0 }, 'nothing is missing or comes twice');
  }
  await fork.put({ cmd: ['echo', 'something else'] });
  await fork.logged('something else');
  t.equal((await source.status()).state, 'running');
});

t.test('what ran when its daemon was killed has an end in the log of the next one', async (t) => {
  const directories = await makeDirectories();
  t.teardown(() => removeDirectories(directories));
  const daemon = await spawnDaemon(directories);
  const { id } = await daemon.api.create();
  const running = daemon.api.exec(id, ['sh', '-c', 'echo begun; sleep 60']).catch(() => undefined);
  const before = new ServiceClient(daemon.api, id);
  await before.logged('begun\n', 'exec');
  await daemon.end('SIGKILL');
  await running;
  const next = await spawnDaemon(directories);
  const { records } = await new ServiceClient(next.api, id).wholeLog();
  t.same(records.map(({ text }) => text).slice(-2), ['begun\n', 'exit -1']);
  t.equal(await next.end(), 0);
  t.same(await leftovers(directories), []);
});

t.test('a daemon killed in the middle of a flood has lost nothing that could be read before', async (t) => {
  const directories = await makeDirectories();
  t.teardown(() => removeDirectories(directories));
  const daemon = await spawnDaemon(directories, { flags: ['--sandbox-log-max-bytes', '256M'] });
  const { id } = await daemon.api.create({ service: { cmd: ['sh', '-c', COUNT] } });
  const before = new ServiceClient(daemon.api, id);
  await before.logged('line 3000\n');
  const seen = await before.wholeLog();
  await sleep(300);
  await daemon.end('SIGKILL');

  const next = await spawnDaemon(directories);
  const after = new ServiceClient(next.api, id);
  t.equal((await after.status()).state, 'running', 'the flood goes on');
  await after.post('stop');
  await after.reaches('stopped');
  // What is still in the guest's ring comes in its own time.
  let all = await after.wholeLog();
  for (let size = -1; size !== all.next_offset; all = await after.wholeLog()) {
    size = all.next_offset;
    await sleep(1000);
  }
  t.same(
    all.records.slice(0, seen.records.length),
    seen.records,
    'what was read is still there, cursors included',
  );
  t.ok(all.records.length > seen.records.length, 'and it goes on behind that');
  t.same(checkLines(all.records).wrong, [], 'nothing is missing without an event, nothing comes twice');
  // More may have come since.
  const behind = (await after.wholeLog('', seen.next_offset)).records;
  const known = all.records.slice(seen.records.length);
  t.same(behind.slice(0, known.length), known);
  t.equal(await next.end(), 0);
  t.same(await leftovers(directories), []);
});

t.test('rotation drops the oldest and says so; old logs go when their time is over', async (t) => {
  const { api } = await startDaemon(t, {
    flags: ['--sandbox-log-max-bytes', '1M', '--sandbox-log-retention-s', '0'],
  });
  const { id } = await api.create();
  const client = new ServiceClient(api, id);
  await api.exec(id, ['seq', '1', '500000']);
  const { records, next_offset } = await client.wholeLog();
  t.match(records[0], { stream: 'event', text: /the oldest \d+ bytes/ });
  t.equal(records.filter(({ stream }) => stream === 'event').length, 2, 'that, and the exit');
  t.ok(next_offset > 3_000_000, 'cursors count what is gone');
  const keptBytes = records.reduce((sum, { text }) => sum + text.length, 0);
  t.ok(keptBytes > 500_000 && keptBytes < 1_100_000, `${keptBytes} bytes kept`);
  t.match(records.at(-2)?.text, /500000\n$/);
});

t.test('a daemon without logs says so', async (t) => {
  const { api } = await startDaemon(t, { flags: ['--sandbox-logs', 'off'] });
  await t.rejects(api.call('GET', '/sandboxes/sbx_0000000000000/logs'), { status: 501, message: /no logs/ });
});
