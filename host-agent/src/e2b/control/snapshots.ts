// Snapshots of the control plane. A name that the REST interface does not allow is that of a template.
import { randomUUID } from 'node:crypto';
import { ConflictError, type SnapshotInfo } from '@sandboxd/client';
import type { Hono } from 'hono';
import type { HttpContext, HttpEnv } from '../../http/context.ts';
import { E2bError, unsupported } from '../errors.ts';
import type { Requests } from '../rest.ts';
import { toOwnId } from '../sandbox-records.ts';
import { findSnapshot, isGivenName } from '../templates/find-template.ts';
import type { Defaults } from '../templates/template.ts';
import { DEFAULT_TAG, parseName } from '../templates/template-name.ts';
import type { ControlContext } from './context.ts';
import { readBodyAs, snapshotBody } from './requests.ts';
import { idOf } from './sandboxes.ts';
import { NEXT_TOKEN, toPage } from './views.ts';

/** Names of the REST interface. */
const OBJECT_NAME = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;

export function serveSnapshots(app: Hono<HttpEnv>, context: ControlContext): void {
  const { requestsOf, lastingOf, catalogue } = context;
  const { records } = catalogue;

  const take = async (c: HttpContext, name: string | undefined): Promise<SnapshotInfo> => {
    const requests = requestsOf(c);
    const takeNow = (within: Requests) =>
      within.call('takeSnapshot', { params: { id: idOf(c) }, body: name === undefined ? {} : { name } });
    return await takeNow(requests).catch(async (error: unknown) => {
      const older =
        name !== undefined &&
        error instanceof ConflictError &&
        (await findSnapshot(context.askerOf(c), catalogue, name));
      if (!older) throw error;
      const lasting = lastingOf(c);
      await lasting.call('changeSnapshot', { params: { id: older }, body: { name: null } });
      return await takeNow(lasting);
    });
  };

  const takeAsTemplate = async (c: HttpContext, text: string): Promise<SnapshotInfo> => {
    const { name, tag = DEFAULT_TAG } = parseName(text);
    if (await isGivenName(context.askerOf(c), catalogue, name))
      throw new E2bError(409, `the name ${name} is that of a profile or a template of this host`);
    const info = await requestsOf(c).call('getSandbox', { params: { id: idOf(c) } });
    const snapshot = await take(c, undefined);
    const build = {
      id: randomUUID(),
      snapshotId: snapshot.id,
      createdAtMs: Date.now(),
      tags: [tag],
      vcpus: info.vcpus,
      memoryMib: info.memory_mib,
      diskBytes: info.disk_bytes,
      defaults: defaultsFor(info.id),
    };
    // A template is made only for what there is to be in it.
    return await context.finish(c, [snapshot.id], async () => {
      const template = records.plan(c.get('principal'), name);
      // An older build stays as a snapshot, without the name, as in the REST interface.
      await records.addBuild(template.id, build, false).catch((error: unknown) => {
        records.drop(template.id);
        throw error;
      });
      return snapshot;
    });
  };

  /** Takes one with a name of the REST interface, or none. */
  const takePlain = async (c: HttpContext, name: string | undefined): Promise<SnapshotInfo> => {
    const snapshot = await take(c, name);
    const defaults = defaultsFor(snapshot.source_id);
    if (defaults.user !== undefined || defaults.workdir !== undefined)
      await context.finish(c, [snapshot.id], () => records.keepDefaults(snapshot.id, defaults));
    return snapshot;
  };

  /** Variables are those of the sandbox. */
  function defaultsFor(id: string): Defaults {
    const { user, workdir } = context.records.find(id)?.defaults ?? {};
    return { env: {}, ...(user && { user }), ...(workdir && { workdir }) };
  }

  app.post('/sandboxes/:id/snapshots', async (c) => {
    const { name, memory } = await readBodyAs(c, snapshotBody);
    if (memory === false) throw unsupported('a snapshot with memory false');
    const isOwnName = name == null || OBJECT_NAME.test(name);
    const snapshot = isOwnName ? await takePlain(c, name ?? undefined) : await takeAsTemplate(c, name);
    return c.json(show(c, snapshot), 201);
  });

  app.get('/snapshots', async (c) => {
    const query = c.req.query();
    const source = query.sandboxID ? (toOwnId(query.sandboxID) ?? '') : undefined;
    const { snapshots } = await requestsOf(c).call('listSnapshots');
    const found = snapshots.filter(
      (each) =>
        (source === undefined || each.source_id === source) &&
        (!query.name || show(c, each).names.includes(query.name)),
    );
    const { entries, next } = toPage(found, ({ id, created_at }) => ({ id, startedAt: created_at }), query);
    if (next !== undefined) c.header(NEXT_TOKEN, next);
    return c.json(entries.map((each) => show(c, each)));
  });

  function show(c: HttpContext, { id, name }: Pick<SnapshotInfo, 'id' | 'name'>) {
    const names = name === undefined ? records.namesOf(c.get('principal'), id) : [name];
    return { snapshotID: id, names };
  }
}
