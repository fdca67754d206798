// Lists of E2B's interface over all hosts. Their answers are arrays, so a header names the hosts that did not answer.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import { E2bError, NEXT_TOKEN, tokenOf, toOwnId, toPage } from '../../e2b/index.ts';
import { AppError } from '../../lib/errors.ts';
import { answer } from './creates.ts';
import type { Asked, E2bHosts } from './e2b-hosts.ts';
import { refusalOf } from './fan-out.ts';
import { readAnswer } from './json.ts';
import type { Parked } from './parked.ts';

const UNREACHABLE = 'sandboxd-unreachable-hosts';
const MAX_PAGE = 100;

const entries = z.array(z.looseObject({}));
const time = z.string().refine((text) => !Number.isNaN(Date.parse(text)));
const templates = z.array(z.looseObject({ templateID: z.string(), createdAt: time, updatedAt: time }));
const sandboxes = z.array(z.looseObject({ sandboxID: z.string(), startedAt: time }));

type List = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Path without its query. */
  readonly plain: string;
  readonly query: URLSearchParams;
};

/** Sandboxes of all hosts in the order of their start. */
export async function listSandboxes(
  hosts: E2bHosts,
  parked: Pick<Parked, 'list'>,
  { request, response, plain, query }: List,
): Promise<void> {
  const path = `${plain}?${query}`;
  const [asked, stored] = await Promise.all([
    hosts.ask(request, path),
    parked.list(request, path).catch(() => undefined),
  ]);
  const done = readLists(sandboxes, asked);
  if (done.length === 0) return refuseAll(response, asked);
  const own = done.flatMap(({ listed }) => listed);
  const known = new Set(own.map(({ sandboxID }) => sandboxID));
  const isStored = stored?.answer.statusCode === 200;
  const more = (isStored && readAnswer(sandboxes, stored)) || [];
  // What a host has is as that host says.
  const all = [...own, ...more.filter(({ sandboxID }) => !known.has(sandboxID))];
  const positionOf = ({ sandboxID, startedAt }: (typeof all)[number]) => {
    return { id: toOwnId(sandboxID) ?? sandboxID, startedAt };
  };
  const given = Object.fromEntries(query);
  const page = toPage(all, positionOf, given);
  const last = page.entries.at(-1);
  // Each host gave at most a page.
  const answers = [...done.map(({ found }) => found), ...(isStored ? [stored] : [])];
  const isCut = answers.some((each) => each?.answer.headers[NEXT_TOKEN] !== undefined);
  const next = page.next ?? (isCut && last !== undefined ? tokenOf(positionOf(last)) : undefined);
  send(response, page.entries, next, missing(asked, done));
}

/** One host after another: entries have no time. A token names the host, and has its own token. */
export async function listByHost(hosts: E2bHosts, { request, response, plain, query }: List): Promise<void> {
  const all = hosts.hosts().toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const [from, token] = readToken(query.get('nextToken'));
  const limit = Math.min(Number(query.get('limit') ?? MAX_PAGE) || 0, MAX_PAGE);
  const listed: object[] = [];
  const asked: Asked[] = [];
  const done: Pick<Asked, 'host'>[] = [];
  let next: string | undefined;
  let inner = token;
  for (const host of all.filter(({ name }) => name >= from)) {
    if (listed.length >= limit && listed.length > 0) {
      next = toToken(host.name, '');
      break;
    }
    const own = new URLSearchParams(query);
    own.delete('nextToken');
    if (host.name === from && inner !== '') own.set('nextToken', inner);
    if (listed.length > 0) own.set('limit', String(limit - listed.length));
    const [one] = await hosts.ask(request, `${plain}?${own}`, [host]);
    if (one === undefined) continue;
    asked.push(one);
    const [read] = readLists(entries, [one]);
    if (read === undefined) continue;
    done.push(read);
    listed.push(...read.listed);
    inner = String(one.found?.answer.headers[NEXT_TOKEN] ?? '');
    if (inner === '') continue;
    next = toToken(host.name, inner);
    break;
  }
  if (asked.length > 0 && done.length === 0) return refuseAll(response, asked);
  send(response, listed, next, missing(asked, done));
}

/** All of all hosts, the oldest first. */
export async function listTemplates(
  hosts: E2bHosts,
  { request, response, plain }: Omit<List, 'query'>,
): Promise<void> {
  const serving = hosts.hosts().filter(({ doors }) => doors.e2b !== undefined);
  const asked = await hosts.ask(request, plain, serving);
  const done = readLists(templates, asked);
  if (done.length === 0) return refuseAll(response, asked);
  const all = new Map<string, z.output<typeof templates>[number]>();
  // Of one that several hosts have, the newest state.
  for (const each of done.flatMap(({ listed }) => listed)) {
    const known = all.get(each.templateID);
    if (known === undefined || known.updatedAt < each.updatedAt) all.set(each.templateID, each);
  }
  const sorted = [...all.values()].sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
  send(response, sorted, undefined, missing(asked, done));
}

function toToken(host: string, token: string): string {
  return Buffer.from(JSON.stringify([host, token])).toString('base64url');
}

/** E2bError 400. */
function readToken(text: string | null): readonly [string, string] {
  if (!text) return ['', ''];
  try {
    return z.tuple([z.string(), z.string()]).parse(JSON.parse(Buffer.from(text, 'base64url').toString()));
  } catch {
    throw new E2bError(400, 'nextToken is of no list of this gateway');
  }
}

/** A host whose answer is not such a list does not answer. */
function readLists<T>(schema: z.ZodType<readonly T[]>, asked: readonly Asked[]) {
  return asked.flatMap(({ host, found }) => {
    const listed = found?.answer.statusCode === 200 ? readAnswer(schema, found) : undefined;
    return listed === undefined ? [] : [{ host, found, listed }];
  });
}

/** The refusal of one host. AppError upstream when none answered. */
function refuseAll(response: ServerResponse, asked: readonly Asked[]): void {
  const refusal = refusalOf(asked);
  if (refusal === undefined) throw new AppError('upstream', 'no host of the fleet answers clients of E2B');
  answer(response, refusal);
}

function missing(asked: readonly Asked[], done: readonly Pick<Asked, 'host'>[]): string[] {
  const answered = new Set(done.map(({ host }) => host.name));
  return asked.flatMap(({ host: { name } }) => (answered.has(name) ? [] : [name])).sort();
}

function send(
  response: ServerResponse,
  listed: readonly object[],
  next: string | undefined,
  unreachable: readonly string[],
): void {
  if (response.headersSent || response.destroyed) return;
  const text = JSON.stringify(listed);
  response.writeHead(200, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
    ...(next !== undefined && { [NEXT_TOKEN]: next }),
    ...(unreachable.length > 0 && { [UNREACHABLE]: unreachable.join(',') }),
  });
  response.end(response.req.method === 'HEAD' ? undefined : text);
}
