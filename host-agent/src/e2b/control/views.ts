// Sandboxes as E2B's control plane shows them.
import type { SandboxInfo } from '@sandboxd/client';
import { E2bError } from '../errors.ts';
import { type SandboxRecord, toE2bId } from '../sandbox-records.ts';

/** The SDKs choose features by it. */
export const ENVD_VERSION = '0.6.13';
const CLIENT_ID = 'sandboxd';
/** Of a sandbox without a lifetime: E2B has none. */
const NEVER = '9999-12-31T23:59:59Z';

export type Tokens = { readonly envd: string; readonly traffic: string | null };

/** Undefined for one that E2B has no state for. */
export function stateOf({ state }: SandboxInfo): 'running' | 'paused' | undefined {
  if (state === 'running' || state === 'pausing') return 'running';
  return state === 'paused' || state === 'resuming' ? 'paused' : undefined;
}

export function toSandbox(
  info: SandboxInfo,
  record: SandboxRecord | undefined,
  tokens: Tokens,
  domain: string,
) {
  return {
    ...identify(info, record),
    envdAccessToken: tokens.envd,
    trafficAccessToken: tokens.traffic,
    domain,
  };
}

export function toDetail(
  info: SandboxInfo,
  record: SandboxRecord | undefined,
  tokens: Tokens,
  domain: string,
) {
  const pauses = info.timeout_action === 'pause';
  return {
    ...toListed(info, record),
    envdAccessToken: tokens.envd,
    domain,
    allowInternetAccess: record?.allowInternetAccess ?? null,
    ...(record?.network && { network: record.network }),
    lifecycle: { onTimeout: pauses ? 'pause' : 'kill', autoResume: info.auto_resume },
  };
}

export function toListed(info: SandboxInfo, record: SandboxRecord | undefined) {
  return {
    ...identify(info, record),
    metadata: metadataOf(info, record),
    startedAt: info.created_at,
    endAt: info.paused_at ?? info.expires_at ?? NEVER,
    cpuCount: info.vcpus,
    memoryMB: info.memory_mib,
    diskSizeMB: Math.round(info.disk_bytes / 2 ** 20),
    state: stateOf(info) ?? 'running',
    volumeMounts: [],
  };
}

/** Sandboxes that were not created here have no metadata, but may have labels. */
export function metadataOf(
  info: SandboxInfo,
  record: SandboxRecord | undefined,
): Readonly<Record<string, string>> {
  return record?.metadata ?? info.labels;
}

export function templateOf(info: SandboxInfo, record: SandboxRecord | undefined): string {
  return record?.templateId ?? info.source_snapshot_id ?? info.profile ?? info.image?.reference ?? 'base';
}

function identify(info: SandboxInfo, record: SandboxRecord | undefined) {
  const templateID = templateOf(info, record);
  return {
    templateID,
    alias: templateID,
    sandboxID: toE2bId(info.id),
    clientID: CLIENT_ID,
    envdVersion: ENVD_VERSION,
  };
}

// Pages of E2B's lists: an opaque token in the header `x-next-token` continues after the last entry.

export const NEXT_TOKEN = 'x-next-token';
const MAX_PAGE = 100;

type Position = { readonly id: string; readonly startedAt: string };

/** `all` in any order; entries of one instant are ordered by id. E2bError 400. */
export function toPage<T>(
  all: readonly T[],
  positionOf: (entry: T) => Position,
  query: {
    readonly limit?: string | undefined;
    readonly nextToken?: string | undefined;
    readonly order?: string | undefined;
  },
): { readonly entries: readonly T[]; readonly next: string | undefined } {
  const isDescending = query.order !== 'asc';
  const keyed = all
    .map((entry) => ({ entry, key: keyOf(positionOf(entry)) }))
    .sort((a, b) => (a.key < b.key ? -1 : 1) * (isDescending ? -1 : 1));
  const after = query.nextToken ? Buffer.from(query.nextToken, 'base64url').toString() : undefined;
  const rest = keyed.filter(({ key }) => after === undefined || (isDescending ? key < after : key > after));
  const limit = toLimit(query.limit);
  const page = rest.slice(0, limit);
  const last = page.at(-1);
  return {
    entries: page.map(({ entry }) => entry),
    next: rest.length > limit && last ? Buffer.from(last.key).toString('base64url') : undefined,
  };
}

/** What continues after an entry. */
export function tokenOf(position: Position): string {
  return Buffer.from(keyOf(position)).toString('base64url');
}

function keyOf({ id, startedAt }: Position): string {
  return `${new Date(startedAt).toISOString()} ${id}`;
}

function toLimit(text: string | undefined): number {
  if (text === undefined) return MAX_PAGE;
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (limit < 1) throw new E2bError(400, `limit must be a number from 1 to ${MAX_PAGE}`);
  return Math.min(limit, MAX_PAGE);
}
