// The client of wide.ts, a process of its own: reads orders, one a line, and answers each with times.
import { createInterface } from 'node:readline';
import { Client } from '@sandboxd/client';

const CONCURRENCY = Number(process.env.CONCURRENCY ?? 64);

export type Timed = { readonly ms: number; readonly times: readonly number[] };

async function runClient(url: string): Promise<void> {
  const client = new Client({ host: url, retries: 0 });
  const { sandboxes } = client;
  let ids: string[] = [];
  let position = '';
  const orders: Readonly<Record<string, (count: number) => Promise<Timed>>> = {
    create: (count) =>
      time(
        count,
        async (at) => void ids.push((await sandboxes.create({ labels: { nth: String(at % 10) } })).id),
      ),
    get: (count) => time(count, async (at) => void (await sandboxes.get(ids[at % ids.length] ?? '').info())),
    list: (count) => time(count, async () => void (await sandboxes.list()), 1),
    filter: (count) =>
      time(count, async () => void (await sandboxes.list({ label: ['nth=3'], limit: 10 })), 1),
    metrics: (count) => time(count, async () => void (await (await fetch(`${url}/metrics`)).text()), 1),
    mark: async () => {
      position = await readPosition(url);
      return { ms: 0, times: [0] };
    },
    events: (count) => readEvents(url, count, position),
    adopt: async () => {
      ids = (await sandboxes.list()).map(({ id }) => id);
      return { ms: 0, times: [ids.length] };
    },
    delete: (count) => time(count, async (at) => sandboxes.get(ids[at] ?? '').delete()),
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const [order = '', count] = line.split(' ');
    process.stdout.write(`${JSON.stringify(await orders[order]?.(Number(count)))}\n`);
  }
}

async function time(count: number, run: (at: number) => Promise<void>, atOnce = CONCURRENCY): Promise<Timed> {
  const times: number[] = [];
  const startedAt = performance.now();
  let next = 0;
  const work = async () => {
    for (let at = next++; at < count; at = next++) {
      const from = performance.now();
      await run(at);
      times.push(performance.now() - from);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return { ms: performance.now() - startedAt, times };
}

/** The position of the newest event, in the first message of a stream. */
async function readPosition(url: string): Promise<string> {
  const response = await fetch(`${url}/events`);
  let text = '';
  for await (const part of response.body ?? []) {
    text += Buffer.from(part).toString();
    const id = /^id: (.*)\n/m.exec(text)?.[1];
    if (id === undefined) continue;
    return id;
  }
  throw new Error('the stream of events has ended');
}

/** From a position on, as a client that was away. */
async function readEvents(url: string, count: number, from: string): Promise<Timed> {
  const startedAt = performance.now();
  const response = await fetch(`${url}/events`, { headers: { 'last-event-id': from } });
  let seen = 0;
  let rest = '';
  for await (const part of response.body ?? []) {
    const lines = (rest + Buffer.from(part).toString()).split('\n');
    rest = lines.pop() ?? '';
    seen += lines.filter((line) => line.startsWith('data: ')).length;
    if (seen >= count) break;
  }
  return { ms: performance.now() - startedAt, times: [seen] };
}

await runClient(process.argv[2] ?? '');
