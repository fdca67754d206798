// Sandboxes of the control plane: create, connect, show, list, end, timeouts, pause and resume.
import { ConflictError, ForbiddenError, NotFoundError, type SandboxInfo } from '@sandboxd/client';
import type { Hono } from 'hono';
import type { HttpContext, HttpEnv } from '../../http/context.ts';
import { assertOperation, type Principal } from '../../keys/index.ts';
import { E2bError, unsupported } from '../errors.ts';
import type { Requests } from '../rest.ts';
import { type SandboxRecord, toOwnId } from '../sandbox-records.ts';
import { findTemplate, type Source } from '../templates/find-template.ts';
import type { ControlContext } from './context.ts';
import {
  type CreateBody,
  connectBody,
  createBody,
  parseMetadata,
  pauseBody,
  readBodyAs,
  refreshBody,
  timeoutBody,
} from './requests.ts';
import {
  changeNetwork,
  NO_TARGETS,
  type Rules,
  readRules,
  toPortAccess,
  toSecrets,
  toShown,
  toTargets,
} from './rules.ts';
import { metadataOf, NEXT_TOKEN, stateOf, templateOf, toDetail, toListed, toPage } from './views.ts';

/** Seconds, where a request says nothing. */
const DEFAULT_TIMEOUT_S = { v1: 15, v2: 300 } as const;
type Version = keyof typeof DEFAULT_TIMEOUT_S;
const MAX_METADATA_CHARS = 16 * 1024;

export function serveSandboxes(
  app: Hono<HttpEnv>,
  context: ControlContext,
  isHidden: (id: string) => boolean,
): void {
  const { records, requestsOf, lastingOf } = context;
  const create = (version: Version) => async (c: HttpContext) => {
    const body = await readBodyAs(c, createBody);
    const principal = c.get('principal');
    const timeoutS = body.timeout ?? DEFAULT_TIMEOUT_S[version];
    const idempotencyKey = c.req.header('idempotency-key');
    const source = await findTemplate(context.askerOf(c), context.catalogue, body.templateID);
    const made = await createSandbox(requestsOf(c), body, source, { timeoutS, idempotencyKey });
    const record = records.find(made.id);
    const complete = async () => {
      const isCopy = source.kind === 'snapshot';
      const bound = isCopy ? await adaptNetwork(lastingOf(c), made, body) : boundBy(body, made);
      const info = isCopy ? await adapt(lastingOf(c), made, body, timeoutS) : made;
      await records.put(made.id, record ?? toRecord(body, source, bound, mayConnect(principal)));
      return c.json(await context.show(c, info), 201);
    };
    // With an Idempotency-Key it may be that of an earlier request, and in use.
    return record === undefined ? await context.finish(c, [made.id], complete) : await complete();
  };
  const connect = (version: Version) => async (c: HttpContext) => {
    const { timeout, memory } = await readBodyAs(c, connectBody);
    if (memory === false) throw unsupported('connect with memory false');
    const timeoutS = timeout ?? DEFAULT_TIMEOUT_S[version];
    const requests = lastingOf(c);
    const id = idOf(c);
    const before = await requests.call('getSandbox', { params: { id } });
    const sleeps = before.state !== 'running';
    if (!sleeps) return c.json(await context.show(c, await extend(requests, before, timeoutS)), 200);
    await requests.call('resumeSandbox', { params: { id }, body: {} });
    return c.json(await context.show(c, await setTimeoutOf(requests, id, timeoutS)), 201);
  };
  const list = (isOld: boolean) => async (c: HttpContext) => {
    const query = c.req.query();
    const states = isOld ? ['running'] : (query.state || 'running,paused').split(',');
    const wanted = parseMetadata(query.metadata);
    const { sandboxes } = await requestsOf(c).call('listSandboxes');
    const found = sandboxes
      .filter(({ id }) => !isHidden(id))
      .map((info) => ({ info, record: records.find(info.id) }))
      .filter(({ info, record }) => {
        const metadata = metadataOf(info, record);
        return (
          states.includes(stateOf(info) ?? '') &&
          wanted.every(([key, value]) => Object.hasOwn(metadata, key) && metadata[key] === value) &&
          (!query.template || templateOf(info, record) === query.template) &&
          (!query.startedAfter || Date.parse(info.created_at) >= Date.parse(query.startedAfter))
        );
      });
    const positionOf = ({ info }: (typeof found)[number]) => ({ id: info.id, startedAt: info.created_at });
    const { entries, next } = toPage(found, positionOf, query);
    if (next !== undefined) c.header(NEXT_TOKEN, next);
    return c.json(entries.map(({ info, record }) => toListed(info, record)));
  };

  app.post('/sandboxes', create('v1'));
  app.post('/v2/sandboxes', create('v2'));
  app.post('/sandboxes/:id/connect', connect('v1'));
  app.post('/v2/sandboxes/:id/connect', connect('v2'));
  app.get('/sandboxes', list(true));
  app.get('/v2/sandboxes', list(false));
  app.get('/sandboxes/:id', async (c) => {
    const info = await requestsOf(c).call('getSandbox', { params: { id: idOf(c) } });
    if (stateOf(info) === undefined) throw new E2bError(404, `sandbox "${c.req.param('id')}" doesn't exist`);
    const record = records.find(info.id);
    return c.json(toDetail(info, record, await context.tokensFor(c, info.id), context.domain));
  });
  app.delete('/sandboxes/:id', async (c) => {
    await requestsOf(c).call('deleteSandbox', { params: { id: idOf(c) } });
    return c.body(null, 204);
  });
  app.post('/sandboxes/:id/timeout', async (c) => {
    const { timeout } = await readBodyAs(c, timeoutBody);
    await setTimeoutOf(requestsOf(c), idOf(c), Math.max(1, timeout));
    return c.body(null, 204);
  });
  app.post('/sandboxes/:id/refreshes', async (c) => {
    const { duration } = await readBodyAs(c, refreshBody);
    const requests = requestsOf(c);
    const info = await requests.call('getSandbox', { params: { id: idOf(c) } });
    await extend(requests, info, duration ?? DEFAULT_TIMEOUT_S.v1);
    return c.body(null, 204);
  });
  app.post('/sandboxes/:id/pause', async (c) => {
    const { memory } = await readBodyAs(c, pauseBody);
    await pause(lastingOf(c), idOf(c), memory !== false);
    return c.body(null, 204);
  });
  app.post('/sandboxes/:id/resume', async (c) => {
    const { timeout, memory } = await readBodyAs(c, connectBody);
    if (memory === false) throw unsupported('resume with memory false');
    const requests = lastingOf(c);
    const id = idOf(c);
    const { state } = await requests.call('getSandbox', { params: { id } });
    if (state === 'running') throw new E2bError(409, `sandbox ${c.req.param('id')} is already running`);
    await requests.call('resumeSandbox', { params: { id }, body: {} });
    const info = await setTimeoutOf(requests, id, timeout ?? DEFAULT_TIMEOUT_S.v1);
    return c.json(await context.show(c, info), 201);
  });
}

/** Of the path. E2bError 404. */
export function idOf(c: HttpContext): string {
  const text = c.req.param('id') ?? '';
  const id = toOwnId(text);
  if (id === undefined) throw new E2bError(404, `sandbox "${text.slice(0, 100)}" doesn't exist`);
  return id;
}

async function createSandbox(
  requests: Requests,
  body: CreateBody,
  source: Source,
  { timeoutS, idempotencyKey }: { readonly timeoutS: number; readonly idempotencyKey: string | undefined },
): Promise<SandboxInfo> {
  if (body.mcp != null) throw unsupported('mcp');
  if (body.iam != null) throw unsupported('iam');
  if (body.volumeMounts != null && body.volumeMounts.length > 0) throw unsupported('volumeMounts');
  if (body.autoPauseMemory === false) throw unsupported('autoPauseMemory false');
  if (Object.entries(body.metadata).flat().join('').length > MAX_METADATA_CHARS)
    throw new E2bError(400, `metadata must have at most ${MAX_METADATA_CHARS} characters in keys and values`);
  const targets = toTargets(body.network ?? {}, body.allow_internet_access !== false);
  const secrets = toSecrets(body.network ?? {});
  if (source.kind === 'snapshot') return await forkSnapshot(requests, source, body, idempotencyKey);
  try {
    return await requests.call('createSandbox', {
      body: {
        ...sourceOf(source),
        timeout_s: timeoutS,
        timeout_action: body.autoPause ? 'pause' : 'delete',
        auto_resume: body.autoResume?.enabled === true,
        env: body.envVars,
        ...(targets && { network: { enabled: true, ...targets } }),
        ...(targets && secrets && { secrets }),
      },
      idempotencyKey,
    });
  } catch (error) {
    if (error instanceof ForbiddenError && targets?.presets.length)
      throw new E2bError(
        403,
        `${error.message}. E2B's sandboxes reach the internet by default; here the operator allows it ` +
          '(--network-internet on, and net_presets of the key), or create with allow_internet_access false',
      );
    throw error;
  }
}

/** With lifetime and network of the snapshot's source, until it is adapted. */
async function forkSnapshot(
  requests: Requests,
  { id, defaults }: Source & { kind: 'snapshot' },
  { envVars }: CreateBody,
  idempotencyKey: string | undefined,
): Promise<SandboxInfo> {
  const { sandboxes } = await requests.call('forkSnapshot', {
    params: { id },
    body: { count: 1, env: { ...defaults?.env, ...envVars } },
    idempotencyKey,
  });
  const [made] = sandboxes;
  if (made === undefined) throw new E2bError(500, 'the snapshot has no copy');
  return made;
}

/** The rules of a new sandbox. */
function boundBy({ network }: CreateBody, { network: made }: SandboxInfo): Rules {
  return made === undefined ? [] : Object.values(toSecrets(network ?? {}) ?? {});
}

/**
 * Gives a copy the network that its create asks for, and resolves with its rules. Without a word about the network it
 * keeps that of its source, and without one about targets those.
 */
async function adaptNetwork(
  requests: Requests,
  { id, network }: SandboxInfo,
  body: CreateBody,
): Promise<Rules> {
  const { allowOut = [], denyOut = [], rules } = body.network ?? {};
  const secrets = toSecrets(body.network ?? {});
  if (body.allow_internet_access === false || allowOut.length > 0 || denyOut.length > 0 || secrets) {
    const targets = toTargets(body.network ?? {}, body.allow_internet_access !== false);
    if (network === undefined && targets === undefined) return [];
    const wanted = { targets: targets ?? NO_TARGETS, secrets: (targets && secrets) ?? {} };
    return await changeNetwork(requests, id, wanted);
  }
  if (network === undefined) return [];
  return rules == null ? await readRules(requests, id) : await changeNetwork(requests, id, { secrets: {} });
}

/** Gives a copy the lifetime that its create asks for. */
async function adapt(
  requests: Requests,
  made: SandboxInfo,
  body: CreateBody,
  timeoutS: number,
): Promise<SandboxInfo> {
  return await requests.call('updateSandbox', {
    params: { id: made.id },
    body: {
      timeout_s: timeoutS,
      timeout_action: body.autoPause ? 'pause' : 'delete',
      auto_resume: body.autoResume?.enabled === true,
    },
  });
}

function sourceOf(template: Exclude<Source, { kind: 'snapshot' }>) {
  if (template.kind === 'image') return { image: { oci: template.image } };
  return template.profile === undefined ? {} : { profile: template.profile };
}

/** Ports are for everyone, so a key without the operation opens none. */
export function mayConnect(principal: Principal): boolean {
  try {
    assertOperation(principal, 'connect');
    return true;
  } catch {
    return false;
  }
}

function toRecord(body: CreateBody, source: Source, bound: Rules, hasPorts: boolean): SandboxRecord {
  const { user, workdir } = (source.kind === 'snapshot' && source.defaults) || {};
  const defaults = { ...(user !== undefined && { user }), ...(workdir !== undefined && { workdir }) };
  return {
    templateId: body.templateID,
    metadata: body.metadata,
    ...toPortAccess(body.network ?? {}),
    ...(!hasPorts && { ports: 'closed' as const }),
    allowInternetAccess: body.allow_internet_access ?? null,
    ...((body.network || bound.length > 0) && { network: toShown(body.network ?? {}, bound) }),
    ...(Object.keys(defaults).length > 0 && { defaults }),
    keyIds: [],
  };
}

export async function setTimeoutOf(requests: Requests, id: string, timeoutS: number): Promise<SandboxInfo> {
  return await requests.call('updateSandbox', { params: { id }, body: { timeout_s: timeoutS } });
}

/** Its end moves later, never earlier. */
async function extend(requests: Requests, info: SandboxInfo, timeoutS: number): Promise<SandboxInfo> {
  const endMs = info.expires_at === undefined ? Number.POSITIVE_INFINITY : Date.parse(info.expires_at);
  return Date.now() + timeoutS * 1000 > endMs ? await setTimeoutOf(requests, info.id, timeoutS) : info;
}

/** A sandbox of E2B that was paused by request is never deleted by its timeout. */
async function pause(requests: Requests, id: string, memory: boolean): Promise<void> {
  const info = await requests.call('getSandbox', { params: { id } });
  if (info.state === 'paused' || info.state === 'resuming')
    throw new E2bError(409, `sandbox ${id} is already paused`);
  const isKept = info.timeout_action === 'pause' || info.expires_at === undefined;
  // A key that may not have sandboxes without an end pauses it with its end.
  if (!isKept) await setTimeoutOf(requests, id, 0).catch(passOver(ForbiddenError));
  try {
    await requests.call('pauseSandbox', { params: { id }, body: { memory } });
  } catch (error) {
    const leftS = isKept ? 0 : Math.ceil((Date.parse(info.expires_at ?? '') - Date.now()) / 1000);
    if (!isKept)
      await setTimeoutOf(requests, id, Math.max(1, leftS)).catch(passOver(NotFoundError, ConflictError));
    throw error;
  }
}

function passOver(...kinds: readonly (abstract new (...args: never[]) => Error)[]): (error: unknown) => void {
  return (error) => {
    if (!kinds.some((kind) => error instanceof kind)) throw error;
  };
}
