// The rest of the control plane: forks, networks, metrics and logs.
import { setTimeout as sleep } from 'node:timers/promises';
import type { LogRecord } from '@sandboxd/client';
import type { Hono } from 'hono';
import type { HttpEnv } from '../../http/context.ts';
import { assertOperation } from '../../keys/index.ts';
import type { Requests } from '../rest.ts';
import type { SandboxRecord } from '../sandbox-records.ts';
import type { ControlContext } from './context.ts';
import { forkBody, type NetworkBody, putNetworkBody, readBodyAs } from './requests.ts';
import { changeNetwork, NO_TARGETS, toPortAccess, toSecrets, toShown, toTargets } from './rules.ts';
import { idOf, mayConnect, setTimeoutOf } from './sandboxes.ts';

const DEFAULT_FORK_TIMEOUT_S = 15;
/** Between the two samples that give the CPU usage. */
const SAMPLE_MS = 500;
const DEFAULT_LOG_LINES = 1000;

export function serveExtras(app: Hono<HttpEnv>, context: ControlContext): void {
  const { records, requestsOf, lastingOf } = context;
  app.post('/sandboxes/:id/fork', async (c) => {
    const { timeout, count } = await readBodyAs(c, forkBody);
    const lasting = lastingOf(c);
    const id = idOf(c);
    const timeoutS = timeout ?? DEFAULT_FORK_TIMEOUT_S;
    const body = { count: count ?? 1 };
    const { sandboxes } = await requestsOf(c).call('forkSandbox', { params: { id }, body });
    const source = records.find(id);
    const isClosed = !mayConnect(c.get('principal'));
    const record = source && { ...source, ...(isClosed && { ports: 'closed' as const }), keyIds: [] };
    const ids = sandboxes.map((copy) => copy.id);
    const complete = async () => {
      const shown: object[] = [];
      for (const copy of ids) {
        if (record !== undefined) await records.put(copy, record);
        const info = await setTimeoutOf(lasting, copy, timeoutS);
        shown.push({ sandbox: await context.show(c, info) });
      }
      return c.json(shown, 201);
    };
    return await context.finish(c, ids, complete);
  });
  app.put('/sandboxes/:id/network', async (c) => {
    const body = await readBodyAs(c, putNetworkBody);
    const id = idOf(c);
    const { allow_internet_access: internet, ...wanted } = body;
    const targets = toTargets(wanted, internet !== false);
    // As for a create: opening ports needs the operation.
    if (body.allowPublicTraffic && records.find(id)?.ports === 'token')
      assertOperation(c.get('principal'), 'connect');
    const secrets = toSecrets(wanted);
    const bound = await changeNetwork(requestsOf(c), id, {
      targets: targets ?? NO_TARGETS,
      secrets: (targets && secrets) ?? {},
    });
    const record = records.find(id);
    if (record !== undefined) await records.put(id, changeRecord(record, toShown(wanted, bound), body));
    return c.body(null, 204);
  });
  app.get('/sandboxes/:id/metrics', async (c) => {
    const { start, end } = c.req.query();
    const sample = await measure(requestsOf(c), idOf(c));
    const isWithin =
      (!start || sample.timestampUnix >= Number(start)) && (!end || sample.timestampUnix <= Number(end));
    return c.json(isWithin ? [sample] : []);
  });
  app.get('/sandboxes/:id/logs', async (c) => {
    const startMs = Number(c.req.query('start') ?? 0);
    const all = await readAllLogs(requestsOf(c), idOf(c));
    const shown = all.filter((each) => each.time_ms >= startMs).slice(0, toLimit(c.req.query('limit')));
    return c.json({ logs: shown.map(toLine), logEntries: shown.map(toEntry) });
  });
  app.get('/v2/sandboxes/:id/logs', async (c) => {
    const { cursor, direction, search, limit } = c.req.query();
    const all = await readAllLogs(requestsOf(c), idOf(c));
    const isBackward = direction === 'backward';
    const at = cursor === undefined ? undefined : Number(cursor);
    const found = (isBackward ? all.toReversed() : all).filter(
      ({ time_ms, text }) =>
        (at === undefined || (isBackward ? time_ms <= at : time_ms >= at)) &&
        (!search || text.includes(search)),
    );
    return c.json({ logs: found.slice(0, toLimit(limit)).map(toEntry) });
  });
}

/** What the request says nothing about stays. */
function changeRecord(
  record: SandboxRecord,
  shown: object,
  wanted: NetworkBody & { readonly allow_internet_access?: boolean | null | undefined },
): SandboxRecord {
  const given = Object.entries(shown).filter(([, value]) => value != null);
  const { rules: _, ...former } = (record.network ?? {}) as { readonly rules?: unknown };
  const { ports, masksHost } = toPortAccess(wanted);
  return {
    ...record,
    allowInternetAccess: wanted.allow_internet_access ?? null,
    network: { ...former, ...Object.fromEntries(given) },
    ...(wanted.allowPublicTraffic != null && record.ports !== 'closed' && { ports }),
    ...(masksHost && { masksHost }),
  };
}

/** One sample, of now. Memory and disk are as the host sees them. */
export async function measure(requests: Requests, id: string) {
  const first = await requests.call('readStats', { params: { id } });
  await sleep(SAMPLE_MS);
  const stats = await requests.call('readStats', { params: { id } });
  const timestamp = new Date(stats.read_at);
  const us = (timestamp.getTime() - Date.parse(first.read_at)) * 1000;
  const used = us > 0 ? ((stats.cpu_us - first.cpu_us) / us / stats.vcpus) * 100 : 0;
  return {
    timestamp: timestamp.toISOString(),
    timestampUnix: Math.floor(timestamp.getTime() / 1000),
    cpuCount: stats.vcpus,
    cpuUsedPct: Math.round(Math.max(0, used) * 100) / 100,
    memUsed: Math.min(stats.resident_bytes, stats.memory_limit_bytes),
    memTotal: stats.memory_limit_bytes,
    memCache: 0,
    diskUsed: stats.layer_bytes,
    diskTotal: stats.disk_limit_bytes,
  };
}

/** The newest page of the log. */
async function readAllLogs(requests: Requests, id: string): Promise<readonly LogRecord[]> {
  return (await requests.call('readLogs', { params: { id } })).records;
}

function toLimit(text: string | undefined): number {
  return text !== undefined && /^\d{1,4}$/.test(text) ? Number(text) : DEFAULT_LOG_LINES;
}

function toLine({ time_ms, text }: LogRecord) {
  return { timestamp: new Date(time_ms).toISOString(), line: text };
}

function toEntry({ time_ms, text, stream, source }: LogRecord) {
  const level = stream === 'stderr' ? 'error' : 'info';
  return { timestamp: new Date(time_ms).toISOString(), message: text, level, fields: { source, stream } };
}
