// Sandboxes: the create request, and the sandbox in responses.
import { z } from 'zod';
import { environment } from '../input/environment.ts';
import {
  choice,
  integer,
  integerOrDefault,
  optional,
  optionalText,
  rule,
  text,
  withDefault,
} from '../input/fields.ts';
import {
  DEFAULT_DISK_BYTES,
  DEFAULT_MEMORY_MIB,
  DEFAULT_VCPUS,
  MAX_BOOT_ARGS_CHARS,
  MAX_KEPT_SNAPSHOTS,
  MAX_PROFILE_NAME_CHARS,
  MAX_SANDBOX_ENV_CHARS,
  MAX_SECONDS,
  MIN_DISK_BYTES,
  MIN_MEMORY_MIB,
  type RequestLimits,
} from '../limits.ts';
import { count, dateTime, warnings, word } from './answers.ts';
import { sandboxId, snapshotId } from './id.ts';
import { imageRef, pull } from './image.ts';
import { labels, labelsPatch, objectName } from './label.ts';
import { networkRequest, networkResponse, publish, publishedPort } from './network.ts';
import { secretBindings } from './secret.ts';
import { createdService } from './service.ts';

/**
 * States that clients see. No sandbox of this daemon is `starting`: it is visible from the commit of its create on,
 * when its guest has answered. The word is kept for clients that know it.
 */
export const SANDBOX_STATES = [
  'starting',
  'running',
  'pausing',
  'paused',
  'resuming',
  'failed',
  'deleting',
] as const;
export const IDLE_ACTIONS = ['delete', 'snapshot', 'pause'] as const;
const BOOLEAN = z.boolean({ error: 'must be true or false' });
export const TIMEOUT_ACTIONS = ['delete', 'pause'] as const;

/**
 * The settings of the daemon define the defaults of vCPUs, memory and disk. The schema shows the defaults of a daemon
 * without such settings.
 */
export function createSandboxRequest(limits: RequestLimits) {
  const fields = z.object(
    {
      vcpus: vcpus(limits),
      memory_mib: integerOrDefault(MIN_MEMORY_MIB, limits.memoryMib, undefined, {
        description: 'memory, MiB',
        default: Math.min(DEFAULT_MEMORY_MIB, limits.memoryMib),
      }),
      disk_bytes: integerOrDefault(MIN_DISK_BYTES, limits.diskBytes, undefined, {
        description:
          'size of the writable layer, rounded up to 1 MiB; the layer uses disk space only for written data',
        default: Math.min(DEFAULT_DISK_BYTES, limits.diskBytes),
      }),
      timeout_s: withDefault(
        integer(0, MAX_SECONDS, ' seconds, 0 for none'),
        0,

        'lifetime in seconds after which the sandbox is deleted, 0 for none; forks inherit it and count from ' +
          'their creation',
      ),
      idle_timeout_s: withDefault(
        integer(0, MAX_SECONDS, ' seconds, 0 for none'),
        0,
        'idle timeout in seconds, 0 for none; a sandbox is idle without commands, transfers, connections, ' +
          'output, network traffic and CPU work; forks inherit it',
      ),
      idle_action: choice(
        IDLE_ACTIONS,
        'delete',

        'action after the idle timeout: delete, pause, or snapshot (take a snapshot and delete), which needs the ' +
          'operation snapshot',
      ),
      keep_last: optional(
        integer(1, MAX_KEPT_SNAPSHOTS),
        'number of snapshots that idle_action snapshot keeps: with each new one, older ones that the sandbox came ' +
          'from are deleted, unless a client took them; absent: all; forks inherit it',
      ),
      snapshot_expires_s: withDefault(
        integer(0, MAX_SECONDS, ' seconds, 0 for never'),
        0,
        'seconds after which the snapshots that idle_action takes are deleted, 0 for never; forks inherit it',
      ),
      timeout_action: choice(
        TIMEOUT_ACTIONS,
        'delete',
        'action at the end of timeout_s: delete, which also happens while the sandbox is paused; or pause, and then ' +
          'timeout_s counts only while the sandbox runs, again from each resume',
      ),
      auto_resume: withDefault(
        BOOLEAN,
        true,
        'whether a request that needs the guest resumes the sandbox when it is paused',
      ),
      boot_args: withDefault(
        text('must be a string', /^[ -~]*$/, 'must be one line of printable ASCII characters').max(
          MAX_BOOT_ARGS_CHARS,
          { error: `must be at most ${MAX_BOOT_ARGS_CHARS} characters` },
        ),
        '',
        'text to append to the kernel command line; such a sandbox always cold-boots',
      ),
      profile: optionalText(
        text('must be a profile name').max(MAX_PROFILE_NAME_CHARS, {
          error: `must be a profile name of at most ${MAX_PROFILE_NAME_CHARS} characters`,
        }),
        'profile to boot from; the daemon has a default',
      ),
      image: optional(imageRef, 'container image to boot from, instead of a profile'),
      pull,
      network: optional(networkRequest, 'hosts that the guest may reach; no network by default'),
      publish,
      service: optional(createdService, 'a service to start and supervise'),
      name: optionalText(objectName, 'name of the sandbox, unique among those of the tenant'),
      labels: withDefault(labels, {}, 'labels by key, in the syntax of Kubernetes'),
      env: sandboxEnv(
        'environment variables of every command and of the service, added to those of the profile or image; ' +
          'those of a request override them; forks inherit them',
      ),
      secrets: optional(
        secretBindings,
        'secrets by name that the guest can use and does not have: variables with placeholders, whose values the ' +
          'gateway puts into requests to the hosts of each; forks inherit them',
      ),
      if_exists: choice(
        ['error', 'return'],
        'error',
        'if the name is taken: error, or return the sandbox of that name (status 200) if its parameters are the same',
      ),
    },
    { error: 'must be a JSON object' },
  );
  const withOneSource = rule(
    fields,
    'profile and image exclude each other',
    ({ profile, image }) => profile === undefined || image === undefined,
    { error: 'and image exclude each other; send one of them', path: ['profile'] },
  );
  const withSnapshots = rule(
    withOneSource,
    'keep_last and snapshot_expires_s need an idle_timeout_s and the idle_action snapshot',
    ({ keep_last, snapshot_expires_s, idle_action, idle_timeout_s }) =>
      (keep_last === undefined && snapshot_expires_s === 0) ||
      (idle_action === 'snapshot' && idle_timeout_s > 0),
    {
      error: 'must be snapshot, with an idle_timeout_s, for keep_last or snapshot_expires_s',
      path: ['idle_action'],
    },
  );
  const withName = rule(
    withSnapshots,
    'if_exists return needs a name',
    ({ if_exists, name }) => if_exists === 'error' || name !== undefined,
    { error: 'return needs a name, by which an existing sandbox is found', path: ['if_exists'] },
  );
  return rule(
    withName,
    'a service needs a cmd unless an image has one',
    ({ service, image }) => service === undefined || image !== undefined || service.cmd !== undefined,
    { error: 'must be a non-empty array of strings, the program first', path: ['service', 'cmd'] },
  ).describe('a sandbox to create; every field is optional');
}

export const updateSandboxRequest = z
  .object(
    {
      name: objectName
        .nullable()
        .optional()
        .meta({ description: 'new name, unique among those of the tenant; null removes the name' }),
      labels: labelsPatch.nullable().optional().meta({
        description: 'changes of labels; null as a value removes the label, null itself removes all',
      }),
      timeout_s: seconds('lifetime in seconds from now; 0 or null removes it'),
      idle_timeout_s: seconds('idle timeout in seconds, which starts again; 0 or null removes it'),
      idle_action: z
        .enum(IDLE_ACTIONS, { error: `must be one of ${IDLE_ACTIONS.join(', ')}` })
        .nullable()
        .optional()
        .transform((value) => (value === null ? 'delete' : value))
        .meta({ description: 'action after the idle timeout; snapshot needs the operation snapshot' }),
      timeout_action: z
        .enum(TIMEOUT_ACTIONS, { error: `must be one of ${TIMEOUT_ACTIONS.join(', ')}` })
        .nullable()
        .optional()
        .transform((value) => (value === null ? 'delete' : value))
        .meta({ description: 'action at the end of timeout_s; null: delete' }),
      auto_resume: BOOLEAN.nullable()
        .optional()
        .transform((value) => (value === null ? true : value))
        .meta({
          description:
            'whether a request that needs the guest resumes the sandbox when it is paused; null: true',
        }),
    },
    { error: 'must be a JSON object' },
  )
  .describe('changes of a sandbox; fields that are absent stay as they are');

/** `null` means 0. */
function seconds(description: string) {
  return integer(0, MAX_SECONDS, ' seconds, 0 for none')
    .nullable()
    .optional()
    .transform((value) => (value === null ? 0 : value))
    .meta({ description });
}

/** Environment variables that are stored with a sandbox, so their size is limited. */
export function sandboxEnv(description: string) {
  const chars = MAX_SANDBOX_ENV_CHARS;
  return rule(
    withDefault(environment, {}, description),
    `names and values have at most ${chars} characters together`,
    (env) => Object.entries(env).flat().join('').length <= chars,
    { error: `{name} must have at most ${chars} characters in names and values` },
  );
}

/** At most the CPUs of the host: more vCPUs would only compete with each other. */
function vcpus({ vcpus: max, hostCpus = max }: RequestLimits) {
  const isHostSmaller = hostCpus < max;
  const about = { description: 'virtual CPUs', default: Math.min(DEFAULT_VCPUS, max) };
  const note = ` (this host has ${hostCpus} ${hostCpus === 1 ? 'CPU' : 'CPUs'})`;
  return integerOrDefault(1, Math.min(max, hostCpus), undefined, {
    ...about,
    ...(isHostSmaller && { note }),
  });
}

export const sandbox = z
  .object({
    id: sandboxId,
    name: objectName.optional().describe('name of the sandbox, unique among those of its tenant'),
    labels: labels.describe('labels by key'),
    state: z
      .enum(SANDBOX_STATES)
      .describe(
        'state of the sandbox; later daemons may produce more of them. A sandbox is visible once its create has ' +
          'succeeded, so starting does not occur',
      ),
    reason: z
      .object({
        code: word('machine-readable reason, such as vm_exited; later daemons may add codes'),
        message: word('the reason as a sentence'),
      })
      .optional()
      .describe('why the sandbox failed; present in the state failed'),
    created_at: dateTime('creation time'),
    expires_at: dateTime('end of its lifetime; absent if it has none').optional(),
    last_used_at: dateTime(
      'last use by a client: command, transfer, service request or snapshot; now while one of them runs',
    ),
    timeout_s: count('lifetime in seconds, as it was last set; 0 for none'),
    idle_timeout_s: count('idle timeout in seconds; 0 for none'),
    idle_action: z.enum(IDLE_ACTIONS).describe('action after the idle timeout'),
    keep_last: count('number of snapshots that idle_action keeps; absent: all').optional(),
    snapshot_expires_s: count('lifetime of the snapshots that idle_action takes; absent: no end').optional(),
    timeout_action: z.enum(TIMEOUT_ACTIONS).describe('action at the end of the lifetime'),
    auto_resume: z.boolean().describe('whether a request that needs the guest resumes it'),
    paused_at: dateTime('when it was paused; present while it is paused').optional(),
    disk_bytes: count('size of the writable layer'),
    memory_mib: z.int().min(1).describe('memory, MiB'),
    vcpus: z.int().min(1).describe('virtual CPUs'),
    profile: word('profile of the sandbox; absent if it uses an image').optional(),
    image: z
      .object({
        reference: word('image reference or host path, as it was requested'),
        digest: word('digest of the image; absent for a host path').optional(),
      })
      .optional()
      .describe('container image of the sandbox; absent if it uses a profile'),
    env_names: z
      .array(z.string())
      .optional()
      .describe('names of the variables in its environment; absent in lists. Values are never shown'),
    workdir: word('directory of the sandbox on the host'),
    source_snapshot_id: snapshotId.optional().describe('source snapshot of a fork'),
    parent_snapshot_id: snapshotId
      .optional()
      .describe(
        'the last snapshot that was taken of it, else the source snapshot of a fork. It may be deleted',
      ),
    source_sandbox_id: sandboxId.optional().describe('source sandbox of a fork that has no snapshot'),
    network: networkResponse.optional(),
    published: z.array(publishedPort).optional().describe('published ports'),
    warnings,
  })
  .describe('a sandbox');

export const pauseRequest = z
  .object(
    {
      memory: withDefault(
        BOOLEAN,
        true,
        'keep the memory, so that everything goes on; false: keep only the disk, and boot again at the resume',
      ),
    },
    { error: 'must be a JSON object' },
  )
  .describe('how to pause; every field is optional');

export const resumeRequest = z.object({}, { error: 'must be a JSON object' }).describe('no fields');
