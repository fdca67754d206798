// Bodies and queries of the control plane. Unknown fields are ignored, as E2B's own API does.
import type { z as Zod } from 'zod';
import { z } from 'zod';
import type { HttpContext } from '../../http/context.ts';
import { readJson } from '../../http/input/json-body.ts';
import { E2bError } from '../errors.ts';

const strings = z
  .record(z.string(), z.string())
  .nullish()
  .transform((value) => value ?? {});
const seconds = z.int().min(1);
const flag = z.boolean().nullish();
const names = z
  .array(z.string().max(300))
  .max(256)
  .nullish()
  .transform((value) => value ?? []);

/** No sandbox has more secrets. */
const MAX_RULES = 64;
const isFew = (map: object): boolean => Object.keys(map).length <= MAX_RULES;
const TOO_MANY = { error: `must have at most ${MAX_RULES} entries` };
/** Of one host. */
const rule = z.object({ transform: z.object({ headers: strings.refine(isFew, TOO_MANY) }).nullish() });

export const networkBody = z.object({
  allowOut: names,
  denyOut: names,
  allowPublicTraffic: flag,
  maskRequestHost: z.string().nullish(),
  httpsPorts: z.array(z.int()).nullish(),
  dnsServers: z.array(z.string()).nullish(),
  rules: z.record(z.string().max(300), z.array(rule).max(MAX_RULES)).refine(isFew, TOO_MANY).nullish(),
  egressProxy: z.unknown().optional(),
});
export type NetworkBody = z.output<typeof networkBody>;

export const createBody = z.object({
  templateID: z.string().min(1).max(256),
  timeout: seconds.nullish(),
  metadata: strings,
  envVars: strings,
  autoPause: flag,
  autoPauseMemory: flag,
  autoResume: z.object({ enabled: z.boolean() }).nullish(),
  allow_internet_access: flag,
  network: networkBody.nullish(),
  mcp: z.unknown().optional(),
  iam: z.unknown().optional(),
  volumeMounts: z.array(z.unknown()).nullish(),
});
export type CreateBody = z.output<typeof createBody>;

export const connectBody = z.object({
  timeout: seconds.nullish(),
  memory: flag,
  autoPause: flag,
});
export const timeoutBody = z.object({ timeout: z.int().min(0) });
export const refreshBody = z.object({ duration: z.int().min(0).nullish() });
export const pauseBody = z.object({ memory: flag });
export const snapshotBody = z.object({ name: z.string().nullish(), memory: flag });
export const forkBody = z.object({ timeout: seconds.nullish(), count: z.int().min(1).max(100).nullish() });
export const putNetworkBody = networkBody.extend({ allow_internet_access: flag });

/** AppErrors and HttpErrors of the body; E2bError 400. */
export async function readBodyAs<S extends Zod.ZodType>(c: HttpContext, schema: S): Promise<Zod.output<S>> {
  return parseAs(schema, (await readJson(c)) ?? {});
}

export function parseAs<S extends Zod.ZodType>(schema: S, value: unknown): Zod.output<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(
    ({ path, message }) => `${path.join('.') || 'the body'}: ${message}`,
  );
  throw new E2bError(400, problems.slice(0, 8).join('; ').slice(0, 1000));
}

/** `metadata` of a list: a form whose keys and values are percent-encoded once more. */
export function parseMetadata(text: string | undefined): [string, string][] {
  return [...new URLSearchParams(text ?? '')].map(([key, value]) => [decode(key), decode(value)]);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
