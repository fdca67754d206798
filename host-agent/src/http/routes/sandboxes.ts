// Create, list, show and delete sandboxes.
import type { Routes } from '@sandboxd/api';
import { AppError } from '../../lib/errors.ts';
import type { CreateSandboxOptions, SandboxInfo } from '../../sandboxes/types.ts';
import { clientSignal } from '../client-signal.ts';
import type { Input } from '../input/request-input.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';
import { imagesAreOff } from './images.ts';

export function sandboxHandlers({ sandboxes }: HttpServices) {
  return {
    listSandboxes: () => ({ sandboxes: sandboxes.list().map(toSandboxBody) }),

    createSandbox: async ({ body }, c) => {
      const sandbox = await sandboxes.create(toCreateOptions(body), clientSignal(c));
      c.set('log', c.var.log.child({ sandbox: sandbox.id }));
      return toSandboxBody(sandbox);
    },

    getSandbox: ({ params: { id } }) => toSandboxBody(sandboxes.get(id).info),

    deleteSandbox: async ({ params: { id } }) => {
      await sandboxes.delete(id);
      return undefined;
    },
  } satisfies Partial<Handlers>;
}

/** AppError unsupported for what this daemon cannot do; nothing asked for is silently left out. */
function toCreateOptions(body: Input<Routes['createSandbox']>['body']): CreateSandboxOptions {
  const { profile, image, network, publish, service } = body;
  if (image !== undefined) throw imagesAreOff();
  if (network?.enabled === true)
    throw new AppError('unsupported', 'networks are not enabled on this daemon; leave network out');
  if (publish.length > 0)
    throw new AppError('unsupported', 'published ports are not enabled on this daemon; leave publish out');
  return {
    ...(profile !== undefined && { rootfs: { kind: 'profile', name: profile } }),
    vcpus: body.vcpus,
    memoryMib: body.memory_mib,
    diskBytes: body.disk_bytes,
    timeoutS: body.timeout_s,
    bootArgs: body.boot_args,
    // Only an image could bring a command of its own.
    service: service?.cmd && { ...service, cmd: service.cmd },
  };
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
  };
}
