// Sandboxes: what a create may say, and what is shown.
import { z } from 'zod';
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
  MAX_PROFILE_NAME_CHARS,
  MAX_SECONDS,
  MIN_DISK_BYTES,
  MIN_MEMORY_MIB,
  type RequestLimits,
} from '../limits.ts';
import { dateTime, warnings, word } from './answers.ts';
import { sandboxId, snapshotId } from './id.ts';
import { imageRef, pull } from './image.ts';
import { networkRequest, networkResponse, publish, publishedPort } from './network.ts';
import { nextCursor } from './page.ts';
import { createdService } from './service.ts';

/** Of vCPUs, memory and disk the default is the daemon's own setting; what is described is that of a daemon without settings. */
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
          'size of the writable layer, which takes only the space that is written; rounded up to 1 MiB',
        default: Math.min(DEFAULT_DISK_BYTES, limits.diskBytes),
      }),
      timeout_s: withDefault(
        integer(0, MAX_SECONDS, ' seconds, 0 for none'),
        0,
        'seconds after which the sandbox is deleted, 0 for none; forks inherit it, counted from their own creation',
      ),
      idle_timeout_s: withDefault(
        integer(0, MAX_SECONDS, ' seconds, 0 for none'),
        0,
        'seconds without use (no command, transfer, connection, output, traffic or work) after which the sandbox ends, 0 for none; forks inherit it',
      ),
      idle_action: choice(
        ['delete', 'snapshot'],
        'delete',
        'how it ends for that: deleted, or first saved as a snapshot, which needs the operation snapshot',
      ),
      boot_args: withDefault(
        text('must be a string', /^[ -~]*$/, 'must be one line of printable ASCII characters').max(
          MAX_BOOT_ARGS_CHARS,
          { error: `must be at most ${MAX_BOOT_ARGS_CHARS} characters` },
        ),
        '',
        'appended to the command line of the kernel; such a sandbox is always booted, never copied',
      ),
      profile: optionalText(
        text('must be a profile name').max(MAX_PROFILE_NAME_CHARS, {
          error: `must be a profile name of at most ${MAX_PROFILE_NAME_CHARS} characters`,
        }),
        'root filesystem to boot from; the daemon has a default',
      ),
      image: optional(imageRef, 'container image to boot from, instead of a profile'),
      pull,
      network: optional(networkRequest, 'what the guest may reach; no network by default'),
      publish,
      service: optional(createdService, 'a program to start and keep running'),
    },
    { error: 'must be a JSON object' },
  );
  const withOneSource = rule(
    fields,
    'profile and image exclude each other',
    ({ profile, image }) => profile === undefined || image === undefined,
    { error: 'and image exclude each other; send one of them', path: ['profile'] },
  );
  return rule(
    withOneSource,
    'a service needs a cmd unless an image has one',
    ({ service, image }) => service === undefined || image !== undefined || service.cmd !== undefined,
    { error: 'must be a non-empty array of strings, the program first', path: ['service', 'cmd'] },
  ).describe('a sandbox to create; every field may be left out');
}

/** A guest with more vCPUs than the host has CPUs only waits for itself. */
function vcpus({ vcpus: most, hostCpus = most }: RequestLimits) {
  const isHostSmaller = hostCpus < most;
  const about = { description: 'virtual CPUs', default: Math.min(DEFAULT_VCPUS, most) };
  const note = ` (this host has ${hostCpus} ${hostCpus === 1 ? 'CPU' : 'CPUs'})`;
  return integerOrDefault(1, Math.min(most, hostCpus), undefined, {
    ...about,
    ...(isHostSmaller && { note }),
  });
}

export const sandbox = z
  .object({
    id: sandboxId,
    created_at: dateTime('when it was created'),
    memory_mib: z.int().min(1).describe('memory, MiB'),
    vcpus: z.int().min(1).describe('virtual CPUs'),
    profile: word('root filesystem it was booted from; absent for an image').optional(),
    workdir: word('its directory on the host'),
    source_snapshot_id: snapshotId.optional().describe('the snapshot it was forked from'),
    network: networkResponse.optional(),
    published: z.array(publishedPort).optional().describe('ports of the host that lead into it'),
    warnings,
  })
  .describe('a sandbox');

export const sandboxList = z
  .object({ sandboxes: z.array(sandbox).describe('oldest first'), next_cursor: nextCursor, warnings })
  .describe('sandboxes');
