// Create, list, show and delete sandboxes.
import type { Routes } from '@sandboxd/api';
import type { PullMode } from '../../images/index.ts';
import type { PublishedPort } from '../../network/index.ts';
import type { Sandboxes, SandboxHost } from '../../sandboxes/face.ts';
import type { CreateSandboxOptions, NetworkInfo, SandboxInfo } from '../../sandboxes/types.ts';
import { clientSignal } from '../client-signal.ts';
import type { HttpContext } from '../context.ts';
import type { Input } from '../input/request-input.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';
import { requireImages } from './images.ts';

/** Of an allowlist, in the audit trail. */
const MAX_AUDITED_HOSTS = 50;

export function sandboxHandlers({ sandboxes: host, images }: HttpServices) {
  return {
    listSandboxes: (_, c) => ({ sandboxes: host.as(c.get('caller')).list().map(toSandboxBody) }),

    createSandbox: async ({ body }, c) => {
      if (body.image !== undefined) requireImages(images);
      const sandbox = await callersOf(host, c).create(toCreateOptions(body), clientSignal(c));
      c.set('log', c.var.log.child({ sandbox: sandbox.id }));
      c.get('audit').made = [sandbox.id];
      return toSandboxBody(sandbox);
    },

    getSandbox: ({ params: { id } }, c) => toSandboxBody(host.as(c.get('caller')).get(id).info),

    deleteSandbox: async ({ params: { id } }, c) => {
      await host.as(c.get('caller')).delete(id);
      return undefined;
    },
  } satisfies Partial<Handlers>;
}

/** The caller's sandboxes, for what makes more of them: the audit trail has what that comes to. */
export function callersOf(host: SandboxHost, c: HttpContext): Sandboxes {
  return host.as(c.get('caller'), ({ rootfs, allowlist, ...wanted }) => {
    c.get('audit').effective = {
      ...wanted,
      [rootfs.kind]: rootfs.name,
      ...(allowlist !== undefined && {
        hosts: allowlist.length,
        allowlist: allowlist.slice(0, MAX_AUDITED_HOSTS),
      }),
    };
  });
}

/** AppError unsupported for what this daemon cannot do; nothing asked for is silently left out. */
function toCreateOptions(body: Input<Routes['createSandbox']>['body']): CreateSandboxOptions {
  const { profile, image, pull, network, publish, service } = body;
  return {
    ...(profile !== undefined && { rootfs: { kind: 'profile', name: profile } }),
    ...(image !== undefined && toImageSource(image, pull)),
    vcpus: body.vcpus,
    memoryMib: body.memory_mib,
    diskBytes: body.disk_bytes,
    timeoutS: body.timeout_s,
    bootArgs: body.boot_args,
    ...(network?.enabled === true && { network: { allowlist: network.allowlist } }),
    ...(publish.length > 0 && { publish: toPorts(publish) }),
    service,
  };
}

export function toPorts(publish: Input<Routes['createSandbox']>['body']['publish']): PublishedPort[] {
  return publish.map(({ host_ip, host_port, guest_port }) => ({
    ...(host_ip !== undefined && { hostIp: host_ip }),
    hostPort: host_port,
    guestPort: guest_port,
  }));
}

function toImageSource(
  { oci, path = '' }: NonNullable<Input<Routes['createSandbox']>['body']['image']>,
  pull: PullMode,
): Pick<CreateSandboxOptions, 'rootfs' | 'pull'> {
  if (oci === undefined) return { rootfs: { kind: 'image', name: path, isPath: true } };
  return { rootfs: { kind: 'image', name: oci }, pull };
}

export function toSandboxBody(sandbox: SandboxInfo) {
  return {
    id: sandbox.id,
    created_at: sandbox.createdAt.toISOString(),
    memory_mib: sandbox.memoryMib,
    vcpus: sandbox.vcpus,
    ...(sandbox.rootfs.kind === 'profile' && { profile: sandbox.rootfs.name }),
    workdir: sandbox.workdir,
    ...(sandbox.sourceSnapshotId !== undefined && { source_snapshot_id: sandbox.sourceSnapshotId }),
    ...(sandbox.network !== undefined && { network: toNetworkBody(sandbox.network) }),
    ...(sandbox.published !== undefined && { published: sandbox.published.map(toPortBody) }),
  };
}

function toNetworkBody({ allowlist, gateway, guestIp }: NetworkInfo) {
  return { enabled: true, allowlist: [...allowlist], gateway, guest_ip: guestIp };
}

function toPortBody({ hostIp, hostPort, guestPort }: PublishedPort) {
  return {
    ...(hostIp !== undefined && { host_ip: hostIp }),
    host_port: hostPort,
    guest_port: guestPort,
    protocol: 'tcp' as const,
  };
}
