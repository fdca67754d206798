// `GET /host/checks` of a gateway: what each host has found about itself, with its name.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';
import { VERSION } from '../../lib/version.ts';
import { answer } from './creates.ts';
import { type FanOut, keyRefusalOf, refusalOf } from './fan-out.ts';
import { parseJson } from './json.ts';
import { send } from './lists.ts';

/** From good to bad. */
const LEVELS = ['ok', 'warning', 'fault'] as const;

const report = z.object({
  checked_at: z.string(),
  worst: z.enum(LEVELS),
  groups: z.array(z.looseObject({ group: z.string() })),
});

/** The refusal of the key is the client’s answer. AppError exhausted; upstream when no host has answered. */
export async function serveHostChecks(
  fanOut: FanOut,
  request: IncomingMessage,
  response: ServerResponse,
  path: string,
): Promise<void> {
  const asked = await fanOut.askAll(request, response, path);
  const refusal = keyRefusalOf(asked);
  if (refusal !== undefined) return answer(response, refusal);
  const found = asked
    .flatMap(({ host, found }) => {
      const isDone = found?.answer.statusCode === 200;
      const { data } = report.safeParse(isDone ? parseJson(found.body.toString()) : undefined);
      return data === undefined ? [] : [{ host: host.name, report: data }];
    })
    .sort((a, b) => (a.host < b.host ? -1 : 1));
  if (found.length === 0) {
    const other = refusalOf(asked);
    if (other !== undefined) return answer(response, other);
    throw new AppError('upstream', 'no host of the fleet answers');
  }
  const names = new Set(found.map(({ host }) => host));
  const missing = asked.flatMap(({ host }) => (names.has(host.name) ? [] : [host.name])).sort();
  const worst = Math.max(...found.map((each) => LEVELS.indexOf(each.report.worst)));
  send(response, {
    checked_at: found.map((each) => each.report.checked_at).sort()[0],
    version: VERSION,
    worst: LEVELS[worst],
    groups: found.flatMap(({ host, report: { groups } }) =>
      groups.map(({ group, ...rest }) => ({ group, host, ...rest })),
    ),
    ...(missing.length > 0 && { unreachable_hosts: missing }),
  });
}
