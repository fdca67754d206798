// Templates of the control plane: builds, their status and files, names and tags.
import { MAX_MEMORY_MIB, MAX_VCPUS } from '@sandboxd/api';
import type { Hono, MiddlewareHandler } from 'hono';
import { createMiddleware } from 'hono/factory';
import { z } from 'zod';
import { addressOf, clientSignal, type HttpContext, type HttpEnv, headerOf } from '../../http/context.ts';
import { readBody } from '../../http/input/body-source.ts';
import { PLACE_HEADER, WANTED_HEADER, writeWanted } from '../../http/placement.ts';
import { assertOperation, mayDo, ownerOf, sharerOf } from '../../keys/index.ts';
import { E2bError } from '../errors.ts';
import { keyIdOf } from '../sandbox-records.ts';
import { buildBody, toBuildRequest } from '../templates/build-request.ts';
import type { Build, Builder } from '../templates/builder.ts';
import { type Catalogue, findSnapshot, findTemplate, isGivenName } from '../templates/find-template.ts';
import type { Template } from '../templates/template.ts';
import { DEFAULT_TAG, parseName, parseTag } from '../templates/template-name.ts';
import type { ControlContext } from './context.ts';
import { readBodyAs } from './requests.ts';
import { SHARED_HEADER, toFacts } from './template-facts.ts';
import { ENVD_VERSION } from './views.ts';

const MAX_LOG_ENTRIES = 100;
const MAX_TAGS_AT_ONCE = 20;
/** E2B's tests and clients wait long between two parts of an upload. */
const UPLOAD_IDLE_MS = 60_000;

/** That every build needs. */
const BUILD_OPERATIONS = ['create', 'exec', 'snapshot', 'read', 'view'] as const;

const tags = z.array(z.string().max(200)).max(MAX_TAGS_AT_ONCE);
const requestBody = z.object({
  name: z.string().max(400).nullish(),
  alias: z.string().max(400).nullish(),
  tags: tags.nullish(),
  cpuCount: z.int().min(1).max(MAX_VCPUS).nullish(),
  memoryMB: z.int().min(1).max(MAX_MEMORY_MIB).nullish(),
});
const tagsBody = z.object({ target: z.string().max(400), tags: tags.min(1) });
const removeTagsBody = z.object({ name: z.string().max(400), tags: tags.min(1) });

export type TemplateDeps = {
  readonly catalogue: Catalogue;
  readonly builder: Builder;
  /** Of the front, as the client reached it. */
  readonly baseUrl: (c: HttpContext) => string;
  /** Whether a gateway of the fleet asks by itself. */
  readonly isQuestion: (c: HttpContext) => boolean;
};

const NEEDS_PLACE = {
  code: 409,
  message: 'this host is part of a fleet, whose gateway places builds; send the request to it',
} as const;

/** With a token in the path in place of a key. */
export const UPLOAD_PATH = '/templates/:id/files/:hash/:token';

export function serveTemplates(app: Hono<HttpEnv>, context: ControlContext, deps: TemplateDeps): void {
  const { catalogue, builder, baseUrl, isQuestion } = deps;
  const { records, shared } = catalogue;
  const { requestsOf } = context;
  for (const path of ['/templates/*', '/v2/templates/*', '/v3/templates', '/sandboxd/templates/*'])
    app.use(path, async (_, next) => {
      await shared?.refresh();
      await next();
    });

  const request = async (c: HttpContext) => {
    const body = await readBodyAs(c, requestBody);
    const principal = c.get('principal');
    for (const operation of BUILD_OPERATIONS) assertOperation(principal, operation);
    const { name, tag } = parseName(body.name ?? body.alias ?? '');
    const asked = [...(tag === undefined ? [] : [tag]), ...(body.tags ?? []).map(parseTag)];
    const asker = { requests: requestsOf(c), principal };
    if (await isGivenName(asker, catalogue, name))
      throw new E2bError(409, `the name ${name} is that of a profile, a snapshot or a template of this host`);
    const size = {
      ...(body.cpuCount != null && { vcpus: body.cpuCount }),
      ...(body.memoryMB != null && { memory_mib: body.memoryMB }),
    };
    const all = asked.length === 0 ? [DEFAULT_TAG] : [...new Set(asked)];
    const build = builder.request(name, { principal, address: addressOf(c) }, { tags: all, size });
    const ids = { templateID: build.template.id, buildID: build.id };
    return c.json({ ...ids, public: false, names: [name], aliases: [name], tags: all }, 202);
  };
  app.post('/v3/templates', request);
  app.post('/v2/templates', request);

  app.get('/templates/:id/files/:hash', (c) => {
    const template = own(c);
    const hash = c.req.param('hash');
    const principal = c.get('principal');
    const token = context.records.uploadToken(`${template.id} ${hash}`, principal);
    const url = `${baseUrl(c)}/templates/${template.id}/files/${hash}/${token}`;
    const present = builder.uploads.has(builder.scopeOf(template.id, principal), hash);
    return c.json({ present, url }, 201);
  });

  app.post('/v2/templates/:id/builds/:build', async (c) => {
    const build = findBuild(c);
    const request = toBuildRequest(await readBodyAs(c, buildBody));
    const place = headerOf(c, PLACE_HEADER);
    builder.assertNew(build);
    const size = place === undefined ? await builder.sizeOfPlace(build, request, clientSignal(c)) : undefined;
    if (size === undefined) builder.begin(build, request, place);
    else return c.json(NEEDS_PLACE, NEEDS_PLACE.code, { [WANTED_HEADER]: writeWanted(size) });
    return empty(202);
  });

  app.get('/templates/:id/builds/:build/status', (c) => {
    const template = records.get(c.get('principal'), c.req.param('id'));
    const { logsOffset, limit } = c.req.query();
    const ids = { templateID: template.id, buildID: c.req.param('build') };
    const build = builder.find(template.id, ids.buildID);
    if (build === undefined) {
      if (!template.builds.some(({ id }) => id === ids.buildID)) throw noBuild(ids.buildID);
      return c.json({ ...ids, status: 'ready', logs: [], logEntries: [] });
    }
    // Its log has output of guests.
    if (keyIdOf(build.caller.principal) !== keyIdOf(c.get('principal')))
      assertOperation(c.get('principal'), 'read');
    const most = Math.min(toNumber(limit, MAX_LOG_ENTRIES), MAX_LOG_ENTRIES);
    const logEntries = build.log.page(toNumber(logsOffset, 0), most);
    const reason = build.reason && { ...build.reason, logEntries: [] };
    const logs = logEntries.map(({ message }) => message);
    return c.json({ ...ids, status: build.status, logs, logEntries, ...(reason && { reason }) });
  });

  app.get('/templates/aliases/:alias', async (c) => {
    const alias = c.req.param('alias');
    const principal = c.get('principal');
    const template = records.find(principal, alias.split(':', 1)[0] ?? '');
    if (template !== undefined) {
      if (alias.includes(':')) records.findBuild(principal, alias);
      return c.json({ templateID: template.id, public: false });
    }
    const source = await findTemplate({ requests: requestsOf(c), principal }, catalogue, alias);
    // Whether an image exists only a pull can tell.
    if (source.kind === 'image') throw new E2bError(404, `template '${alias}' not found`);
    return c.json({ templateID: alias, public: source.kind === 'profile' });
  });

  // A question of gateways, for a create that begins with it.
  app.get('/sandboxd/templates/:id', (c) => {
    if (!isQuestion(c)) throw new E2bError(404, 'there is no such path');
    const id = c.req.param('id');
    const template = records.find(c.get('principal'), id);
    const isAware = headerOf(c, SHARED_HEADER) !== undefined;
    if (template === undefined && !isAware) shared?.assertRead(id);
    const facts = template && toFacts(template, { shared, runs: builder.buildsOf(template.id) });
    const shown = isAware || facts?.isHere === true ? facts : undefined;
    return c.json({ template: shown, ...(isAware && shared && { hasRead: shared.hasRead }) });
  });

  const list = (c: HttpContext) => {
    assertOperation(c.get('principal'), 'view');
    return c.json(records.list(c.get('principal')).map(toListed));
  };
  app.get('/templates', list);
  app.get('/v2/templates', list);
  app.get('/templates/:id', (c) => {
    const template = visible(c);
    const builds = template.builds.map((build) => ({
      buildID: build.id,
      status: 'ready',
      createdAt: toTime(build.createdAtMs),
      updatedAt: toTime(build.createdAtMs),
      finishedAt: toTime(build.createdAtMs),
      cpuCount: build.vcpus,
      memoryMB: build.memoryMib,
      diskSizeMB: toMb(build.diskBytes),
      envdVersion: ENVD_VERSION,
    }));
    return c.json({ ...toListed(template), builds });
  });
  app.get('/templates/:id/tags', (c) => {
    const { builds } = visible(c);
    const all = builds.flatMap(({ id, tags: own, createdAtMs }) =>
      own.map((tag) => ({ tag, buildID: id, createdAt: toTime(createdAtMs) })),
    );
    return c.json(all);
  });
  app.post('/templates/tags', async (c) => {
    const body = await readBodyAs(c, tagsBody);
    assertOperation(c.get('principal'), 'snapshot');
    const { name } = parseName(body.target);
    const wanted = body.tags.map((tag) =>
      parseTag(tag.startsWith(`${name}:`) ? tag.slice(name.length + 1) : tag),
    );
    const principal = c.get('principal');
    records.get(principal, name);
    const build = records.findBuild(principal, body.target);
    // Of several with that name, the one that has the build.
    const template = build && records.templateOf(build.snapshotId);
    if (!build || !template) throw new E2bError(404, `template '${name}' has no such build`);
    const mayDelete = mayDo(principal, 'delete');
    await records.addTags(template.id, build.id, wanted, mayDelete);
    const others = template.name === name ? records.namesakesOf(template) : [];
    for (const { id } of others) await records.removeTags(id, wanted, mayDelete);
    for (const { id } of [template, ...others]) await builder.removeSuperseded(id);
    return c.json({ tags: wanted, buildID: build.id }, 201);
  });
  app.delete('/templates/tags', async (c) => {
    const body = await readBodyAs(c, removeTagsBody);
    assertOperation(c.get('principal'), 'delete');
    const template = records.get(c.get('principal'), parseName(body.name).name);
    await records.removeTags(template.id, body.tags, true);
    await builder.removeSuperseded(template.id);
    return empty(204);
  });
  app.patch('/v2/templates/:id', async (c) => {
    own(c);
    const { public: isPublic } = await readBodyAs(c, z.object({ public: z.boolean().nullish() }));
    if (isPublic)
      throw new E2bError(501, 'templates belong to a tenant; `sandboxd templates set` names them for all');
    return c.json({ names: [] });
  });

  app.delete('/templates/:id', async (c) => {
    const principal = c.get('principal');
    const template = records.find(principal, c.req.param('id'));
    const requests = context.lastingOf(c);
    if (template === undefined) {
      const id = await findSnapshot({ requests, principal }, catalogue, c.req.param('id'));
      if (id === undefined) throw new E2bError(404, 'template not found');
      await requests.call('deleteSnapshot', { params: { id } });
      await records.forgetSnapshot(id);
      return empty(204);
    }
    assertOperation(principal, 'delete');
    builder.cancelAll(template.id);
    // First, so that no build is added any more.
    await records.delete(template.id);
    // As the client, so that its rights hold and the audit trail has them. One that fails keeps no other.
    const deleted = await Promise.allSettled(
      template.builds.map(({ snapshotId: id }) =>
        requests
          .call('deleteSnapshot', { params: { id } })
          .finally(async () => await records.forgetSuperseded(id)),
      ),
    );
    for (const each of deleted)
      if (each.status === 'rejected' && each.reason?.status !== 404) throw each.reason;
    return empty(204);
  });

  function visible(c: HttpContext): Template {
    assertOperation(c.get('principal'), 'view');
    return records.get(c.get('principal'), c.req.param('id') ?? '');
  }

  /** For what changes it. */
  function own(c: HttpContext): Template {
    assertOperation(c.get('principal'), 'snapshot');
    return records.get(c.get('principal'), c.req.param('id') ?? '');
  }

  function findBuild(c: HttpContext): Build {
    const buildId = c.req.param('build') ?? '';
    const build = builder.find(own(c).id, buildId);
    if (build === undefined) throw noBuild(buildId);
    // It has the rights of the key that requested it.
    if (keyIdOf(build.caller.principal) === keyIdOf(c.get('principal'))) return build;
    throw new E2bError(403, 'the build was requested with another key');
  }
}

type UploadPath = { readonly id?: string; readonly hash?: string; readonly token?: string };

/** Served without a key: the token in the path is that of a client. */
export function serveUploads(
  app: Hono<HttpEnv>,
  { records }: Pick<ControlContext, 'records'>,
  {
    builder,
    recordAudit,
  }: Pick<TemplateDeps, 'builder'> & { readonly recordAudit: MiddlewareHandler<HttpEnv> },
): void {
  const authenticate = createMiddleware<HttpEnv>(async (c, next) => {
    const { id = '', hash = '', token = '' } = c.req.param() as UploadPath;
    const principal = records.uploaderOf(`${id} ${hash}`, token);
    if (principal === undefined) throw new E2bError(401, 'the token of the upload is not valid any more');
    c.set('principal', principal);
    await next();
  });
  app.put(UPLOAD_PATH, authenticate, recordAudit, async (c) => {
    const { id, hash } = c.req.param();
    const principal = c.get('principal');
    if (!builder.awaitsFiles(id, principal))
      throw new E2bError(409, 'no build of this template waits for files');
    const body = readBody(c, UPLOAD_IDLE_MS);
    try {
      await builder.uploads.write(
        builder.scopeOf(id, principal),
        hash,
        sharerOf(ownerOf(principal)),
        body.read,
      );
    } finally {
      body.discard();
    }
    return empty(200);
  });
}

/** JavaScript reads an answer without a length as JSON. */
function empty(status: 200 | 202 | 204): Response {
  return new Response(null, { status, headers: status === 204 ? {} : { 'content-length': '0' } });
}

function noBuild(id: string): E2bError {
  return new E2bError(404, `build ${id.slice(0, 64)} does not exist; builds end with the daemon`);
}

function toListed({ id, name, owner, createdAtMs, builds }: Template) {
  const newest = builds.at(-1);
  return {
    templateID: id,
    buildID: newest?.id ?? '',
    names: [name],
    aliases: [name],
    public: false,
    cpuCount: newest?.vcpus ?? 0,
    memoryMB: newest?.memoryMib ?? 0,
    diskSizeMB: toMb(newest?.diskBytes ?? 0),
    createdAt: toTime(createdAtMs),
    updatedAt: toTime(newest?.createdAtMs ?? createdAtMs),
    createdBy: owner === undefined ? null : { id: NO_USER, email: owner.key },
    lastSpawnedAt: null,
    spawnCount: 0,
    buildCount: builds.length,
    buildStatus: newest === undefined ? 'waiting' : 'ready',
    envdVersion: ENVD_VERSION,
  };
}

/** E2B's users are UUIDs. */
const NO_USER = '00000000-0000-0000-0000-000000000000';

function toMb(bytes: number): number {
  return Math.round(bytes / 2 ** 20);
}

function toTime(ms: number): string {
  return new Date(ms).toISOString();
}

function toNumber(text: string | undefined, otherwise: number): number {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : otherwise;
}
