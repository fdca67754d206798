// Stored secrets of a fleet: each host has its own copy, since no other place may have the values. A change goes to all
// hosts; one that did not take it is named, and a client sends the same again.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import { toPage } from '../../http/input/page.ts';
import { AppError, toError } from '../../lib/errors.ts';
import type { FleetMap, Host } from '../catalogue.ts';
import { type JsonBody, readJsonBody, Sending } from './body.ts';
import type { Callers } from './callers.ts';
import { answer } from './creates.ts';
import { type Asked, type FanOut, isDone, keyRefusalOf, refusalOf } from './fan-out.ts';
import { pickHostHeaders } from './headers.ts';
import type { HostAnswer, HostConnections } from './host-connections.ts';
import { parseJson } from './json.ts';
import { send } from './lists.ts';

/** The command of a source may take long. */
const CHANGE_MS = 20_000;
/** The same change reaches all hosts within this time. */
const SAME_CHANGE_MS = 60_000;
const KEPT_HEADERS = [
  'authorization',
  'prefer',
  'accept',
  'content-type',
  'content-encoding',
  'x-request-id',
];
const DONE = { PUT: [200], DELETE: [204, 404] } as const;

const secret = z.looseObject({
  name: z.string(),
  created_at: z.string(),
  changed_at: z.string(),
  used_by: z.array(z.string()),
  uses: z.number().optional(),
  last_used_at: z.string().optional(),
});
type Secret = z.output<typeof secret>;
const secretList = z.object({ secrets: z.array(secret) });
const refusal = z.object({ error: z.string() });

type Copy = { readonly host: string; readonly secret: Secret };

export type FleetSecretsDeps = {
  readonly map: FleetMap;
  readonly fanOut: FanOut;
  readonly callers: Callers;
  readonly connections: HostConnections;
};

export class FleetSecrets {
  readonly #deps: FleetSecretsDeps;

  constructor(deps: FleetSecretsDeps) {
    this.#deps = deps;
  }

  /** The refusal of a host is the client’s answer. AppError exhausted, upstream, invalid_argument for a cursor. */
  async list(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const query = new URLSearchParams(path.split('?')[1] ?? '');
    const [limit, cursor] = [query.get('limit'), query.get('cursor')];
    // Their cursors would be of other times for the same secret.
    const asked = await this.#deps.fanOut.askAll(request, response, '/secrets');
    const refused = refusalOfAll(asked);
    if (refused !== undefined) return answer(response, refused);
    const found = asked.flatMap(({ host, found }) => {
      const { data } = secretList.safeParse(found && parseJson(found.body.toString()));
      return data === undefined ? [] : [{ host: host.name, secrets: data.secrets }];
    });
    const hosts = found.map(({ host }) => host);
    const copies = found.flatMap(({ host, secrets }) => secrets.map((each) => ({ host, secret: each })));
    const merged = [...Map.groupBy(copies, (copy) => copy.secret.name).values()].map((each) =>
      merge(each, hosts),
    );
    const { entries, next } = toPage(
      merged.toSorted(compare),
      ({ created_at, name }) => ({ atMs: Date.parse(created_at) || 0, name }),
      { ...(limit && { limit: toLimit(limit) }), ...(cursor && { cursor }) },
    );
    const missing = asked.flatMap(({ host }) => (hosts.includes(host.name) ? [] : [host.name])).sort();
    send(response, { secrets: entries, ...next, ...(missing.length > 0 && { unreachable_hosts: missing }) });
  }

  /** AppError upstream when it may be on a host that does not answer. */
  async get(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const asked = await this.#deps.fanOut.askAll(request, response, path);
    const copies = asked.flatMap(({ host, found }) => {
      const isThere = found?.answer.statusCode === 200;
      const { data } = secret.safeParse(isThere ? parseJson(found.body.toString()) : undefined);
      return data === undefined ? [] : [{ host: host.name, secret: data }];
    });
    const hosts = asked.flatMap(({ host, found }) => (found === undefined ? [] : [host.name]));
    if (copies.length > 0) return send(response, merge(copies, hosts));
    const refused = keyRefusalOf(asked);
    if (refused !== undefined) return answer(response, refused);
    const missing = asked.flatMap(({ host, found }) => (found === undefined ? [host.name] : [])).sort();
    if (missing.length > 0)
      throw new AppError('upstream', `it may be on a host that does not answer: ${missing.join(', ')}`);
    const [first] = asked;
    if (first?.found !== undefined) answer(response, first.found);
  }

  /** On all hosts. AppError upstream names those that have not done it. */
  async change(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    method: keyof typeof DONE,
  ): Promise<void> {
    // Before anything of a body is kept.
    const caller = await this.#deps.callers.findFor(request, response);
    using body = await readJsonBody(request, response, caller);
    const asked = await this.#sendAll(request, path, method, body);
    const isChanged = ({ found }: Asked): boolean =>
      (DONE[method] as readonly (number | undefined)[]).includes(found?.answer.statusCode);
    const done = asked.filter(isChanged);
    const failed = asked.filter((each) => !isChanged(each));
    if (failed.length === 0) {
      const best = done.find(({ found }) => found?.answer.statusCode !== 404) ?? done[0];
      if (best?.found !== undefined) answer(response, best.found);
      return;
    }
    const refused = done.length === 0 ? refusalOfAll(failed) : undefined;
    if (refused !== undefined) return answer(response, refused);
    const verb = method === 'PUT' ? 'stored' : 'deleted';
    const reasons = failed.map((each) => `${each.host.name} (${reasonOf(each)})`).sort();
    const names = done.map(({ host }) => host.name).sort();
    throw new AppError(
      'upstream',
      `the secret is ${verb} on ${names.join(', ') || 'no host'}, and not on ${reasons.join(', ')}; send the same ` +
        'request again when they answer',
    );
  }

  async #sendAll(
    request: IncomingMessage,
    path: string,
    method: string,
    body: JsonBody,
  ): Promise<readonly Asked[]> {
    const hosts = this.#deps.map.hosts();
    if (hosts.length === 0) throw new AppError('exhausted', 'the fleet has no host', { retryAfterS: 5 });
    const kept = pickHostHeaders(request, KEPT_HEADERS);
    const headers = [...kept, 'Content-Length', String(body.bytes.length)];
    const limit = AbortSignal.timeout(CHANGE_MS);
    const sending = new Sending(body, hosts.length);
    const ask = async (host: Host): Promise<Asked> => {
      using sent = sending.begin();
      try {
        const found = await this.#deps.connections.send(host, { method, path, headers }, body, limit, sent);
        return { host, found };
      } catch (error) {
        return { host, found: undefined, failure: toError(error).message };
      }
    };
    return await Promise.all(hosts.map(ask));
  }
}

/** If no host has carried it out, a refusal. AppError upstream when none answered. */
function refusalOfAll(asked: readonly Asked[]): HostAnswer | undefined {
  if (asked.some(isDone)) return undefined;
  const refused = refusalOf(asked);
  if (refused === undefined) throw new AppError('upstream', 'no host of the fleet answers');
  return refused;
}

function reasonOf({ found, failure }: Asked): string {
  if (found === undefined) return failure ?? 'it does not answer';
  const { data } = refusal.safeParse(parseJson(found.body.toString()));
  return data?.error ?? `status ${found.answer.statusCode}`;
}

/** `hosts`: all that answered. What was changed last is what holds. */
function merge(copies: readonly Copy[], hosts: readonly string[]) {
  const sorted = copies.toSorted((a, b) => (a.host < b.host ? -1 : 1));
  const changedMs = ({ secret: { changed_at } }: Copy): number => Date.parse(changed_at) || 0;
  const newestMs = Math.max(...sorted.map(changedMs));
  const isOlder = (copy: Copy): boolean => changedMs(copy) < newestMs - SAME_CHANGE_MS;
  const current = sorted.find((copy) => !isOlder(copy)) ?? sorted[0];
  const usedAt = sorted.flatMap(({ secret: { last_used_at } }) => last_used_at ?? []).sort();
  const missing = hosts.filter((host) => sorted.every((copy) => copy.host !== host)).sort();
  const older = sorted.filter(isOlder).map(({ host }) => host);
  const [createdAt = ''] = sorted.map(({ secret: { created_at } }) => created_at).sort();
  return {
    ...(current?.secret ?? {}),
    name: current?.secret.name ?? '',
    created_at: createdAt,
    used_by: sorted.flatMap(({ secret: { used_by } }) => used_by),
    uses: sorted.reduce((sum, { secret: { uses = 0 } }) => sum + uses, 0),
    ...(usedAt.length > 0 && { last_used_at: usedAt.at(-1) }),
    ...(missing.length > 0 && { missing_on: missing }),
    ...(older.length > 0 && { older_on: older }),
  };
}

function toLimit(text: string): number {
  const limit = Number(text);
  if (Number.isInteger(limit) && limit >= 1) return limit;
  throw new AppError(
    'invalid_argument',
    `query limit must be a whole number from 1, got ${JSON.stringify(text.slice(0, 80))}`,
  );
}

function compare(a: { readonly name: string }, b: { readonly name: string }): number {
  return a.name < b.name ? -1 : 1;
}
