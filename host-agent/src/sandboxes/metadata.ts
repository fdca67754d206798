// What clients may set and change of a sandbox that exists: name, labels, environment, end of its lifetime.
import { createHash } from 'node:crypto';
import { type CreatedService, type Labels, MAX_SANDBOX_ENV_CHARS } from '@sandboxd/api';
import { baseEnvironment } from '../images/index.ts';
import type { RootfsSource } from '../images/rootfs-source.ts';
import { AppError } from '../lib/errors.ts';
import { changeLabels } from '../lib/labels.ts';
import { placeholdersOf, type StoredBinding } from '../secrets/index.ts';
import type { CopyOptions, CreateSandboxOptions } from './types.ts';

export type Metadata = {
  /** Unique among the sandboxes of its owner's tenant. */
  readonly name?: string;
  readonly labels: Labels;
  /** Variables of every command and of the service. Pairs, because the registry renames a variable `__proto__`. */
  readonly env: readonly (readonly [string, string])[];
  /** Secrets that its guest can use; absent: none. */
  readonly secrets?: readonly StoredBinding[] | undefined;
  /** Of the service as the create asked for it, for a later create of the same name. */
  readonly serviceHash?: string;
  /** Absent: `timeoutS` counts from the creation. */
  readonly expiresAtMs?: number;
};

/** What forks of a snapshot get from its source. */
export type Inherited = Pick<Metadata, 'labels' | 'env' | 'secrets'>;

export const NO_METADATA: Metadata = { labels: {}, env: [] };

type WithMetadata = { readonly metadata?: Metadata };

export function metadataOf({ metadata }: WithMetadata): Metadata {
  return metadata ?? NO_METADATA;
}

/** How long a sandbox is listed after a reboot of its host. */
const REBOOTED_MS = 86_400_000;

/** End of its lifetime, Unix milliseconds; undefined if it has none. */
export function expiryOf(
  record: WithMetadata & {
    readonly createdAtMs: number;
    readonly options: { readonly timeoutS: number };
    readonly exit?: { readonly rebootFoundAtMs?: number };
  },
): number | undefined {
  const { timeoutS } = record.options;
  const rebootedAtMs = record.exit?.rebootFoundAtMs;
  const forgottenAtMs = rebootedAtMs === undefined ? Number.POSITIVE_INFINITY : rebootedAtMs + REBOOTED_MS;
  const ownMs = metadataOf(record).expiresAtMs ?? record.createdAtMs + timeoutS * 1000;
  const expiresAtMs = Math.min(timeoutS > 0 ? ownMs : Number.POSITIVE_INFINITY, forgottenAtMs);
  return Number.isFinite(expiresAtMs) ? expiresAtMs : undefined;
}

export function toMetadata(
  { name, labels = {}, env = {}, service }: CreateSandboxOptions,
  secrets: readonly StoredBinding[] = [],
): Metadata {
  const serviceHash = service && hashService(service);
  return {
    ...(name !== undefined && { name }),
    labels,
    env: Object.entries(env),
    ...(secrets.length > 0 && { secrets }),
    ...(serviceHash !== undefined && { serviceHash }),
  };
}

/** Equal for equal services, whatever the order of their fields. */
export function hashService(service: CreatedService): string {
  const sorted = (_: string, value: unknown): unknown =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
      : value;
  return createHash('sha256').update(JSON.stringify(service, sorted)).digest('hex');
}

/** AppError invalid_argument if the inherited and the requested ones are too many together. */
export function inheritMetadata(
  { labels, env, secrets = [] }: Inherited = NO_METADATA,
  { name, labels: changes = {}, env: ownEnv = {} }: Omit<CopyOptions, 'publish'>,
): Metadata {
  const allEnv = Object.entries({ ...Object.fromEntries(env), ...ownEnv });
  if (allEnv.flat().join('').length > MAX_SANDBOX_ENV_CHARS)
    throw new AppError(
      'invalid_argument',
      `env must have at most ${MAX_SANDBOX_ENV_CHARS} characters in names and values, those that the fork ` +
        'inherits included',
    );
  return {
    ...(name !== undefined && { name }),
    labels: changeLabels(labels, changes),
    env: allEnv,
    ...(secrets.length > 0 && { secrets }),
  };
}

/** Environment of commands before the request's variables. */
export function environmentOf({
  options: { rootfs },
  ...record
}: WithMetadata & { readonly options: { readonly rootfs: RootfsSource } }): Readonly<Record<string, string>> {
  return { ...baseEnvironment(rootfs), ...ownEnvironmentOf(record) };
}

/** The same without that of the image: own variables, and those with placeholders of secrets. */
export function ownEnvironmentOf(record: WithMetadata): Readonly<Record<string, string>> {
  const { env, secrets } = metadataOf(record);
  return { ...placeholdersOf(secrets), ...Object.fromEntries(env) };
}
