// What the bucket says of an image beside its root filesystem.
import { createHash } from 'node:crypto';
import { z } from 'zod';

const texts = z.array(z.string()).readonly();
// What a later version adds is not a reason to refuse it.
const config = z.looseObject({
  ...{ entrypoint: texts, cmd: texts, env: z.record(z.string(), z.string()), exposedPorts: texts },
  ...{ user: z.string(), workdir: z.string(), stopSignal: z.string() },
  labels: z.record(z.string(), z.string()),
  labelsOmitted: z.number().exactOptional(),
});
export const described = z.looseObject({
  machine: z.string(),
  ...{ configDigest: z.string(), config, layers: texts },
  /** Its names on the host that sent it, which say where it is from. Earlier versions gave none. */
  refs: texts.exactOptional(),
  rootfsDigest: z.string().regex(/^[\da-f]{64}$/),
  isCopy: z.literal(true).exactOptional(),
  ...{ sizeBytes: z.number(), entries: z.number(), contentBytes: z.number(), convertedAtMs: z.number() },
});
export type Described = z.output<typeof described>;

/** As on the host that made it. */
export function idOf({
  rootfsDigest,
  configDigest,
  isCopy,
}: Pick<Described, 'rootfsDigest' | 'configDigest' | 'isCopy'>) {
  if (isCopy) return rootfsDigest;
  return createHash('sha256').update(`${rootfsDigest}\n${configDigest}\n`).digest('hex');
}
