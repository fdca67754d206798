// Calls about single files over REST, beside calls that the agent answers without them, in the same rounds.
import { connect } from 'node:net';
import type { Daemon } from '../support/daemon.ts';
import { makeTar } from '../support/files.ts';
import { PlainClient } from './plain-client.ts';
import { median, quantile, type Section } from './stats.ts';

const MIB = 2 ** 20;
const DIR = '/bench-single';
const LARGE_MIB = 100;
const WARM_UP = 50;

/** Milliseconds from a change in the guest until its event is here, both by the clock of the host. */
async function openWatch(daemon: Daemon, id: string) {
  const { hostname, port, host } = new URL(daemon.url);
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  let text = '';
  let wake: () => void = () => undefined;
  socket.on('data', (bytes) => {
    text += bytes;
    wake();
  });
  socket.on('error', () => undefined);
  const target = `/sandboxes/${id}/files/watch?path=${DIR}`;
  socket.write(`GET ${target} HTTP/1.1\r\nHost: ${host}\r\nAccept: application/x-ndjson\r\n\r\n`);
  const seen = async (mark: string): Promise<void> => {
    while (!text.includes(mark))
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    text = '';
  };
  await seen('"armed"');
  return { seen, close: () => socket.destroy() };
}

export async function benchSingleFiles(daemon: Daemon, id: string, rounds: number): Promise<Section> {
  const { api } = daemon;
  using client = new PlainClient(daemon.url);
  const at = `/sandboxes/${id}`;
  const exec = Buffer.from(JSON.stringify({ cmd: ['true'] }));
  const nothing = Buffer.alloc(0);
  const small = Buffer.alloc(1024, 'x');
  const smallTar = await makeTar([{ name: 'tar1k', content: small }]);
  const must = async (method: string, path: string, body: Buffer = nothing): Promise<number> => {
    const { status, ms, tail } = await client.request(method, at + path, body);
    if (status !== 200) throw new Error(`${method} ${path}: ${status} ${tail}`);
    return ms;
  };
  await api.sh(
    id,
    `mkdir -p ${DIR}/many; cd ${DIR}; head -c 4096 /dev/urandom > 4k; cd many; seq 1 1000 | xargs touch`,
  );
  const watch = await openWatch(daemon, id);
  let count = 0;
  const kinds: Record<string, () => Promise<number>> = {
    agent: () => must('GET', '/service'),
    exec: () => must('POST', '/exec', exec),
    stat: () => must('GET', `/files/stat?path=${DIR}/4k`),
    read: () => must('GET', `/files/content?path=${DIR}/4k`),
    list: () => must('GET', `/files/list?path=${DIR}/many`),
    put: () => must('PUT', `/files/content?path=${DIR}/put1k`, small),
    tar: () => must('POST', `/files?path=${DIR}`, smallTar),
    watched: async () => {
      const began = performance.now();
      const name = `w${count++}`;
      const seen = watch.seen(`/${name}"`);
      await must('PUT', `/files/content?path=${DIR}/${name}`, small);
      await seen;
      return performance.now() - began;
    },
  };
  const times: Record<string, number[]> = Object.fromEntries(Object.keys(kinds).map((kind) => [kind, []]));
  for (let round = 0; round < rounds + WARM_UP; round++)
    for (const [kind, work] of Object.entries(kinds)) {
      const ms = await work();
      if (round >= WARM_UP) times[kind]?.push(ms);
    }
  watch.close();
  const large = Buffer.alloc(LARGE_MIB * MIB, 'large ');
  const largeTar = await makeTar([{ name: 'large', content: large }]);
  const seconds: Record<'put' | 'tar', number[]> = { put: [], tar: [] };
  for (let round = 0; round < 4; round++) {
    const put = (await must('PUT', `/files/content?path=${DIR}/large-put`, large)) / 1000;
    const tar = (await must('POST', `/files?path=${DIR}`, largeTar)) / 1000;
    // The first of each warms up.
    if (round === 0) continue;
    seconds.put.push(put);
    seconds.tar.push(tar);
  }
  await api.sh(id, `rm -rf ${DIR}`);
  const of = (kind: string): readonly number[] => times[kind] ?? [];
  const row = (name: string, kind: string, beside: string): string[] => {
    const pairs = of(kind).map((ms, round) => ms / (of(beside)[round] ?? Number.NaN));
    return [
      name,
      `${median(of(kind)).toFixed(2)} ms`,
      `${quantile(of(kind), 0.9).toFixed(2)} ms`,
      kind === beside ? '1' : median(pairs).toFixed(2),
    ];
  };
  const largeRow = (name: string, values: readonly number[], ratio: string): string[] => [
    name,
    `${(LARGE_MIB / median(values)).toFixed(0)} MiB/s`,
    '',
    ratio,
  ];
  const largeRatio = median(seconds.put.map((put, round) => put / (seconds.tar[round] ?? Number.NaN)));
  return {
    title: 'Single files',
    note: `${rounds} rounds in turn, on one kept connection, after ${WARM_UP} to warm up; files of ${LARGE_MIB} MiB three times. A round trip to the agent: the state of the service, a short answer without a process. Each ratio is the median of the rounds' against the row that is named. Seen by a watch: from the start of a PUT to the event of its name at the client. To reach: stat and read at most 1.5 round trips. A PUT waits for the disk (fsync), a push does not.`,
    head: ['', 'p50', 'p90', 'ratio'],
    rows: [
      row('round trip to the agent', 'agent', 'agent'),
      row('exec of `true` ÷ round trip', 'exec', 'agent'),
      row('**stat ÷ round trip**', 'stat', 'agent'),
      row('**read of 4 KiB ÷ round trip**', 'read', 'agent'),
      row('list of 1,000 entries ÷ round trip', 'list', 'agent'),
      row('PUT of 1 KiB ÷ push of it as tar', 'put', 'tar'),
      row('push of 1 KiB as tar ÷ round trip', 'tar', 'agent'),
      row('PUT of 1 KiB, seen by a watch ÷ PUT', 'watched', 'put'),
      largeRow(`push of ${LARGE_MIB} MiB as tar`, seconds.tar, '1'),
      largeRow(`PUT of ${LARGE_MIB} MiB ÷ push (time)`, seconds.put, largeRatio.toFixed(2)),
    ],
  };
}
