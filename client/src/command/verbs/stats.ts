// `sandbox stats`: resource usage of sandboxes, in the form of `docker stats`.
import { pause } from '../../connection/requests.ts';
import type { SandboxStats } from '../../contract.ts';
import { NotFoundError } from '../../errors.ts';
import { canRedraw, formatBytes } from '../terminal.ts';
import type { Session, Verb } from '../verb.ts';

const INTERVAL_MS = 1000;
/** Parallel requests. */
const MAX_CONCURRENT = 16;
const HOME = '\x1b[H\x1b[2J';

export const stats: Verb = {
  name: 'stats',
  operands: '[sandbox…]',
  completes: ['sandbox'],
  summary: 'Show the resource usage of sandboxes',
  details: 'Refreshes every second. Shows all sandboxes unless some are named. CPU is in percent of one CPU.',
  flags: { 'no-stream': { type: 'boolean', help: 'print once and exit' } },
  example: 'sandbox stats --no-stream',
  async run({ operands, isSet }, session) {
    const { terminal, signal, isJson } = session;
    const isOnce = isSet('no-stream');
    let before = new Map((await readAll(session, operands)).map((each) => [each.id, each]));
    for (;;) {
      await pause(INTERVAL_MS, signal);
      const now = (await readAll(session, operands)).map((each) => withPercent(each, before.get(each.id)));
      before = new Map(now.map((each) => [each.id, each]));
      if (isJson && isOnce) terminal.printJson(now);
      else if (isJson) for (const each of now) await terminal.writeJson(each);
      else {
        if (!isOnce && canRedraw(terminal.stdout)) await terminal.write(HOME);
        terminal.table(HEAD, now.map(toRow));
      }
      if (isOnce) return 0;
    }
  },
};

const HEAD = [
  'SANDBOX',
  'CPU %',
  'MEMORY / LIMIT',
  'ITS OWN',
  'DISK / LIMIT',
  'READ / WRITTEN',
  'NET IN / OUT',
];

/** A named sandbox must exist; otherwise, sandboxes that disappear in the meantime are omitted. */
async function readAll({ client, signal }: Session, ids: readonly string[]): Promise<SandboxStats[]> {
  const requested = ids.length > 0 ? ids : (await client.sandboxes.list({ signal })).map(({ id }) => id);
  const found: SandboxStats[] = [];
  for (let at = 0; at < requested.length; at += MAX_CONCURRENT) {
    const some = requested.slice(at, at + MAX_CONCURRENT).map((id) =>
      client.sandboxes
        .get(id)
        .stats({ signal })
        .catch((error: unknown) => {
          const isOmitted = ids.length === 0 && (error instanceof NotFoundError || isDead(error));
          if (isOmitted) return undefined;
          throw error;
        }),
    );
    found.push(...(await Promise.all(some)).filter((each) => each !== undefined));
  }
  return found;
}

/** A dead sandbox stays in the list until it is deleted. */
function isDead(error: unknown): boolean {
  return (error as { readonly status?: number }).status === 500;
}

function withPercent(now: SandboxStats, before: SandboxStats | undefined): SandboxStats {
  if (before === undefined) return now;
  const us = (Date.parse(now.read_at) - Date.parse(before.read_at)) * 1000;
  return us <= 0 ? now : { ...now, cpu_percent: Math.round((1000 * (now.cpu_us - before.cpu_us)) / us) / 10 };
}

function toRow(each: SandboxStats): string[] {
  const pair = (one: number, other: number) => `${formatBytes(one)} / ${formatBytes(other)}`;
  const { network } = each;
  return [
    each.id,
    each.cpu_percent?.toFixed(1) ?? '-',
    pair(each.resident_bytes, each.memory_limit_bytes),
    formatBytes(each.private_bytes),
    pair(each.layer_bytes, each.disk_limit_bytes),
    pair(each.read_bytes, each.written_bytes),
    network === undefined ? '-' : pair(network.received_bytes, network.sent_bytes),
  ];
}
