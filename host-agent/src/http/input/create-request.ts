// The body of POST /sandboxes.

import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';
import type { CreateSandboxOptions } from '../../sandboxes/types.ts';
import type { HttpLimits } from '../services.ts';
import { imageSchema, imagesAreOff } from './image-ref.ts';
import { networkSchema, publishSchema } from './network-request.ts';
import { integer, optional, text } from './read-fields.ts';
import { serviceSchema, toServiceSpec } from './service-request.ts';

const MIN_MEMORY_MIB = 128;
const MIN_DISK_BYTES = 64 * 2 ** 20;
const MAX_SECONDS = 2 ** 31 - 1;
/** The kernel's own limit on x86 is 2048, of which the engine needs a part. */
const MAX_BOOT_ARGS_CHARS = 1024;

/** `limits` are the daemon's own, at most those of the interface. */
export function createSchema(limits: HttpLimits) {
  return z.object(
    {
      vcpus: optional(vcpusSchema(limits), 0),
      memory_mib: optional(integer(MIN_MEMORY_MIB, limits.memoryMib), 0),
      disk_bytes: optional(integer(MIN_DISK_BYTES, limits.diskBytes), 0),
      timeout_s: optional(integer(0, MAX_SECONDS, ' seconds, 0 for none')),
      boot_args: optional(
        z
          .string({ error: 'must be a string' })
          .regex(/^[\x20-\x7e]*$/, { error: 'must be one line of printable ASCII characters' })
          .max(MAX_BOOT_ARGS_CHARS, { error: `must be at most ${MAX_BOOT_ARGS_CHARS} characters` }),
        '',
      ),
      profile: optional(text('must be a profile name'), ''),
      image: optional(imageSchema),
      pull: optional(
        z.enum(['missing', 'always', 'never'], { error: 'must be one of missing, always, never' }),
        '',
      ),
      network: optional(networkSchema),
      publish: optional(publishSchema),
      service: optional(serviceSchema),
    },
    { error: 'must be a JSON object' },
  );
}

/** A guest with more vCPUs than the host has CPUs only waits for itself. */
function vcpusSchema({ vcpus, hostCpus = vcpus }: HttpLimits) {
  if (vcpus <= hostCpus) return integer(1, vcpus);
  return integer(1, hostCpus, ` (this host has ${hostCpus} ${hostCpus === 1 ? 'CPU' : 'CPUs'})`);
}

type CreateFields = z.infer<ReturnType<typeof createSchema>>;

/** AppError unsupported for what this daemon cannot do; nothing asked for is silently left out. */
export function toCreateOptions(fields: CreateFields): CreateSandboxOptions {
  if (fields.image !== undefined && fields.profile !== undefined) {
    throw new AppError('invalid_argument', 'profile and image exclude each other; send one of them');
  }
  if (fields.image !== undefined) {
    throw imagesAreOff();
  }
  if (fields.network?.enabled === true) {
    throw new AppError('unsupported', 'networks are not enabled on this daemon; leave network out');
  }
  if ((fields.publish?.length ?? 0) > 0) {
    throw new AppError('unsupported', 'published ports are not enabled on this daemon; leave publish out');
  }
  return {
    ...(fields.profile !== undefined && { rootfs: { kind: 'profile', name: fields.profile } }),
    vcpus: fields.vcpus,
    memoryMib: fields.memory_mib,
    diskBytes: fields.disk_bytes,
    timeoutS: fields.timeout_s,
    bootArgs: fields.boot_args,
    service: fields.service && toServiceSpec(fields.service),
  };
}
