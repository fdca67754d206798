// Create, list, show and delete sandboxes.
import { MAX_WATCHERS, MAX_WATCHERS_OF_EACH, type Routes } from '@sandboxd/api';
import { ownerOf, sharerOf, tenantOf } from '../../keys/index.ts';
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import type { PublishedPort } from '../../network/index.ts';
import type { SandboxFilter } from '../../sandboxes/filter.ts';
import type { Sandboxes, SandboxHandle, SandboxHost } from '../../sandboxes/interface.ts';
import type { NetworkInfo, SandboxInfo } from '../../sandboxes/types.ts';
import { auditAbout, clientSignal, type HttpContext, headerOf } from '../context.ts';
import { toErrorAnswer } from '../errors.ts';
import { type SortKey, toPage } from '../input/page.ts';
import type { Input } from '../input/request-input.ts';
import { PLACE_HEADER, type PlacedRequest } from '../placement.ts';
import type { Handlers } from '../serve-routes.ts';
import { answerPullStream } from '../server/responses.ts';
import type { HttpServices } from '../services.ts';
import { StatsStream } from '../stats-stream.ts';
import { toCreateOptions } from './create-options.ts';
import { requireImages } from './images.ts';
import type { LookUps } from './look-ups.ts';
import { MAX_AUDITED_ENTRIES, toAuditedNetwork, toAuditedSecrets, toRuleBody } from './network.ts';

/** Formats of a stream of stats, by Accept. */
const STREAMS = ['application/x-ndjson', 'text/event-stream'] as const;

export function sandboxHandlers(
  { sandboxes: host, placement, images, stopping }: HttpServices,
  lookUps: LookUps,
) {
  const limit = new ConcurrencyLimit({
    what: 'streams of stats',
    max: MAX_WATCHERS,
    maxPerClient: MAX_WATCHERS_OF_EACH,
  });
  return {
    listSandboxes: async ({ query }, c) => {
      const filter = toFilter(query);
      const stored = await lookUps.find(c)?.list(filter);
      const all = stored?.found ?? host.as(c.get('principal')).list(filter);
      const { entries, next } = toPage(all, sortKeyOf, query);
      const problem = stored?.problem;
      return {
        sandboxes: entries.map(toSandboxBody),
        ...next,
        ...(problem !== undefined && { store_error: problem }),
      };
    },

    createSandbox: async ({ body, warnings }, c) => {
      if (body.image !== undefined) requireImages(images);
      const commit = c.get('keyed')?.commitHook<readonly SandboxInfo[]>(toOneBody);
      auditAbout(c, body);
      const size = { vcpus: body.vcpus, memoryMib: body.memory_mib };
      using placed = await placement.admit(toPlacedRequest(c, 1, size));
      const { ids, onlyExisting, defaults = size } = placed;
      const options = {
        ...toCreateOptions(body),
        vcpus: size.vcpus ?? defaults.vcpus,
        memoryMib: size.memoryMib ?? defaults.memoryMib,
        ...(ids && { id: ids[0] }),
        onlyExisting,
      };
      const sandbox = await callersOf(host, c).create(options, clientSignal(c), commit);
      c.set('log', c.var.log.child({ sandbox: sandbox.id }));
      if (sandbox.isExisting)
        return c.json({ ...toDetailedBody(sandbox), ...(warnings.length > 0 && { warnings }) }, 200);
      c.get('audit').made = [sandbox.id];
      return toDetailedBody(sandbox);
    },

    deleteSandboxes: async ({ query }, c) => {
      const sandboxes = lookUps.find(c) ?? host.as(c.get('principal'));
      const { deleted, failed } = await sandboxes.deleteAll(toFilter(query));
      const shown = { deleted: deleted.length, failed: failed.length };
      Object.assign(c.get('audit'), {
        made: deleted.slice(0, MAX_AUDITED_ENTRIES),
        effective: { ...query, ...shown },
      });
      for (const { id, error } of failed)
        c.var.log.error({ err: error, sandbox: id }, 'cannot delete a sandbox');
      const refused = failed.map(({ id, error }) => ({
        id,
        ...toErrorAnswer(error, c.get('requestId')).body,
      }));
      return { deleted: [...deleted], failed: refused };
    },

    getSandbox: async ({ params: { id } }, c) => {
      const parked = lookUps.find(c);
      if (parked === undefined) return toDetailedBody(host.as(c.get('principal')).get(id).info);
      using _slot = lookUps.acquire(c);
      return toDetailedBody(await parked.get(id));
    },

    pauseSandbox: async ({ params: { id }, body: { memory } }, c) => {
      const sandboxes = host.as(c.get('principal'));
      await sandboxes.get(id).pause(memory);
      return toSandboxBody(sandboxes.get(id).info);
    },

    resumeSandbox: async ({ params: { id } }, c) => {
      const sandboxes = host.as(c.get('principal'));
      await lookUps.take(c, id);
      await sandboxes.get(id).resume();
      return toSandboxBody(sandboxes.get(id).info);
    },

    readStats: ({ params: { id } }, c) => {
      const sandbox = host.as(c.get('principal')).get(id);
      const read = () => toStatsBody(sandbox);
      const first = read();
      const form = (c.req.header('accept') ?? '').toLowerCase();
      const type = STREAMS.find((each) => form.includes(each));
      if (type === undefined) return first;
      const headers = { 'Content-Type': type, 'Cache-Control': 'no-store' };
      if (c.req.method === 'HEAD') return c.body(null, 200, headers);
      const principal = c.get('principal');
      const slot = limit.acquire(sharerOf(ownerOf(principal)));
      const toText = (stats: object): string =>
        type === 'text/event-stream' ? `data: ${JSON.stringify(stats)}\n\n` : `${JSON.stringify(stats)}\n`;
      const signals = [clientSignal(c), stopping];
      return answerPullStream(
        c,
        new StatsStream(read, toText, signals, () => slot[Symbol.dispose]()),
        headers,
      );
    },

    updateSandbox: async ({ params: { id }, body }, c) => {
      const {
        name,
        labels,
        timeout_s: timeoutS,
        idle_timeout_s: idleTimeoutS,
        idle_action: idleAction,
        timeout_action: timeoutAction,
        auto_resume: autoResume,
      } = body;
      const sandboxes = host.as(c.get('principal'));
      const patch = { name, labels, timeoutS, idleTimeoutS, idleAction, timeoutAction, autoResume };
      auditAbout(c, { name, labels: labels ?? {} });
      const changed = await sandboxes.update(id, patch);
      c.get('audit').effective = toAudited(changed);
      return toDetailedBody(changed);
    },

    deleteSandbox: async ({ params: { id } }, c) => {
      const parked = lookUps.find(c);
      if (parked === undefined) await host.as(c.get('principal')).delete(id);
      else {
        using _slot = lookUps.acquire(c);
        await parked.delete(id);
      }
      return undefined;
    },
  } satisfies Partial<Handlers>;
}

export function toPlacedRequest(c: HttpContext, count: number, size: PlacedRequest['size']): PlacedRequest {
  return { header: headerOf(c, PLACE_HEADER), tenant: tenantOf(c.get('principal')), count, size };
}

/** The sort key of a list entry. */
export function sortKeyOf({ createdAt, id }: { readonly createdAt: Date; readonly id: string }): SortKey {
  return { atMs: createdAt.getTime(), name: id };
}

/** The sandboxes of the caller. Adds the properties of a new sandbox, after defaults, to the audit record. */
export function callersOf(host: SandboxHost, c: HttpContext): Sandboxes {
  return host.as(
    c.get('principal'),
    ({ rootfs, allowlist, rules, presets, publish, secrets, ...requested }) => {
      const { effective } = c.get('audit');
      c.get('audit').effective = {
        ...effective,
        ...requested,
        [rootfs.kind]: rootfs.name,
        ...(allowlist !== undefined && {
          hosts: allowlist.length,
          allowlist: allowlist.slice(0, MAX_AUDITED_ENTRIES),
        }),
        ...toAuditedNetwork({ rules, presets }),
        ...toAuditedSecrets(secrets),
        ...(publish !== undefined && {
          ports: publish.length,
          publish: publish
            .slice(0, MAX_AUDITED_ENTRIES)
            .map(({ hostIp, hostPort }) => ({ hostIp, hostPort })),
        }),
      };
    },
  );
}

function toFilter({
  label: labels,
  state,
  name,
  profile,
  image,
}: Input<Routes['deleteSandboxes']>['query']): SandboxFilter {
  return { labels, state, name, profile, image };
}

/** What clients can change, for the audit record. */
function toAudited({ name, labels, timeoutS, idle }: SandboxInfo) {
  return {
    ...(name !== undefined && { name }),
    labels,
    timeoutS,
    idleTimeoutS: idle?.timeoutS ?? 0,
    savesItself: idle?.action === 'snapshot',
  };
}

/** Also with what lists do not show. */
export function toDetailedBody(sandbox: SandboxInfo) {
  const { envNames } = sandbox;
  return { ...toSandboxBody(sandbox), ...(envNames.length > 0 && { env_names: [...envNames] }) };
}

export function toSandboxBody(sandbox: SandboxInfo) {
  const { name, reason, expiresAt, idle } = sandbox;
  const { kind, name: reference, imageDigest: digest } = sandbox.rootfs;
  return {
    id: sandbox.id,
    timeout_action: sandbox.timeoutAction,
    auto_resume: sandbox.autoResume,
    ...(sandbox.pausedAt && { paused_at: sandbox.pausedAt.toISOString() }),
    ...(name !== undefined && { name }),
    labels: sandbox.labels,
    state: sandbox.state,
    ...(reason !== undefined && { reason }),
    created_at: sandbox.createdAt.toISOString(),
    ...(expiresAt !== undefined && { expires_at: expiresAt.toISOString() }),
    last_used_at: sandbox.lastUsedAt.toISOString(),
    timeout_s: sandbox.timeoutS,
    idle_timeout_s: idle?.timeoutS ?? 0,
    idle_action: idle?.action ?? 'delete',
    ...(idle?.keepLast !== undefined && { keep_last: idle.keepLast }),
    ...(idle?.snapshotExpiresS !== undefined && { snapshot_expires_s: idle.snapshotExpiresS }),
    disk_bytes: sandbox.diskBytes,
    ...(kind === 'image' && { image: { reference, ...(digest !== undefined && { digest }) } }),
    memory_mib: sandbox.memoryMib,
    vcpus: sandbox.vcpus,
    ...(sandbox.rootfs.kind === 'profile' && { profile: sandbox.rootfs.name }),
    workdir: sandbox.workdir,
    ...(sandbox.sourceSnapshotId !== undefined && { source_snapshot_id: sandbox.sourceSnapshotId }),
    ...(sandbox.parentSnapshotId !== undefined && { parent_snapshot_id: sandbox.parentSnapshotId }),
    ...(sandbox.sourceSandboxId !== undefined && { source_sandbox_id: sandbox.sourceSandboxId }),
    ...(sandbox.network !== undefined && { network: toNetworkBody(sandbox.network) }),
    ...(sandbox.published !== undefined && { published: sandbox.published.map(toPortBody) }),
  };
}

function toOneBody([sandbox]: readonly SandboxInfo[]): object {
  return sandbox === undefined ? {} : toDetailedBody(sandbox);
}

function toNetworkBody({ allowlist, rules, presets, log, gateway, guestIp }: NetworkInfo) {
  return {
    enabled: true,
    allowlist: [...allowlist],
    ...(rules && { rules: rules.map(toRuleBody) }),
    ...(presets && { presets: presets.map(({ name }) => name) }),
    ...(log && { log }),
    gateway,
    guest_ip: guestIp,
  };
}

export function toPortBody({ hostIp, hostPort, guestPort }: PublishedPort) {
  return {
    ...(hostIp !== undefined && { host_ip: hostIp }),
    host_port: hostPort,
    guest_port: guestPort,
    protocol: 'tcp' as const,
  };
}

function toStatsBody(sandbox: SandboxHandle) {
  const { info } = sandbox;
  const { network, ...usage } = sandbox.stats();
  return {
    id: info.id,
    read_at: new Date().toISOString(),
    vcpus: info.vcpus,
    cpu_us: usage.cpuMs * 1000,
    memory_limit_bytes: info.memoryMib * 2 ** 20,
    resident_bytes: usage.residentBytes,
    private_bytes: usage.privateBytes,
    disk_limit_bytes: info.diskBytes,
    layer_bytes: usage.layerBytes,
    read_bytes: usage.readBytes,
    written_bytes: usage.writtenBytes,
    ...(network && {
      network: {
        received_bytes: network.receivedBytes,
        received_packets: network.receivedPackets,
        sent_bytes: network.sentBytes,
        sent_packets: network.sentPackets,
      },
    }),
  };
}
