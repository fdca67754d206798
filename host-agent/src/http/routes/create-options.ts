// What the body of a create asks for.
import type { Routes } from '@sandboxd/api';
import type { PullMode } from '../../images/index.ts';
import type { PublishedPort } from '../../network/index.ts';
import type { CreateSandboxOptions, IdleRule } from '../../sandboxes/types.ts';
import type { Input } from '../input/request-input.ts';

/** Converts the body of a create request to options. */
export function toCreateOptions(body: Input<Routes['createSandbox']>['body']): CreateSandboxOptions {
  const { profile, image, pull, network, publish, service, name, labels, env } = body;
  return {
    ...(profile !== undefined && { rootfs: { kind: 'profile', name: profile } }),
    ...(image !== undefined && toImageSource(image, pull)),
    diskBytes: body.disk_bytes,
    timeoutS: body.timeout_s,
    ...(body.timeout_action === 'pause' && { timeoutAction: body.timeout_action }),
    ...(body.auto_resume ? {} : { autoResume: false }),
    ...(body.idle_timeout_s > 0 && { idle: toIdleRule(body) }),
    bootArgs: body.boot_args,
    ...(network?.enabled === true && {
      network: {
        ...{ allowlist: network.allowlist, rules: network.rules, presets: network.presets },
        log: network.log,
      },
    }),
    ...(publish.length > 0 && { publish: toPorts(publish) }),
    service,
    name,
    labels,
    env,
    secrets: body.secrets,
    ifExists: body.if_exists,
  };
}

function toIdleRule(body: Input<Routes['createSandbox']>['body']): IdleRule {
  const { keep_last: keepLast, snapshot_expires_s: snapshotExpiresS } = body;
  return {
    timeoutS: body.idle_timeout_s,
    action: body.idle_action,
    ...(keepLast !== undefined && { keepLast }),
    ...(snapshotExpiresS > 0 && { snapshotExpiresS }),
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
