// What requests that make sandboxes ask for, as far as a place depends on it.
import type { IncomingMessage } from 'node:http';
import { DEFAULT_MEMORY_MIB, DEFAULT_VCPUS, MAX_FORKS, MAX_MEMORY_MIB, MAX_VCPUS } from '@sandboxd/api';
import { toImageHolding } from '../kubernetes/holdings.ts';
import type { JsonBody } from './body.ts';
import type { Caller } from './callers.ts';

/** A reference is shorter. */
const MAX_IMAGE_CHARS = 1024;
/** Beginning of the claim of a key of retries. */
export const KEY_CLAIM = 'key ';

/** What a create asks for. */
export type CreateRequest = {
  readonly vcpus: number;
  readonly memoryMib: number;
  readonly name?: string | undefined;
  /** A holding: hosts that have it are preferred. */
  readonly prefers?: string | undefined;
  /** Only that host has what it begins with. */
  readonly on?: string | undefined;
  /** Hosts that cannot begin with it. */
  readonly not?: readonly string[];
  /** Hosts get a copy of what it begins with: one that finds that this does not fit is passed over. */
  readonly isCopied?: boolean;
};

/** Undefined for a size that no host accepts. */
export function toRequest({ value }: Pick<JsonBody, 'value'>): CreateRequest | undefined {
  if (value === undefined) return undefined;
  const vcpus = toInteger(value.vcpus, MAX_VCPUS, DEFAULT_VCPUS);
  const memoryMib = toInteger(value.memory_mib, MAX_MEMORY_MIB, DEFAULT_MEMORY_MIB);
  if (vcpus === undefined || memoryMib === undefined) return undefined;
  const name = typeof value.name === 'string' ? value.name : undefined;
  return { vcpus, memoryMib, name, prefers: toPreferred(value.image) };
}

/** 0 and null mean the default, as for hosts. */
function toInteger(value: unknown, most: number, fallback: number): number | undefined {
  if (value === undefined || value === null || value === 0) return fallback;
  return typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= most
    ? value
    : undefined;
}

function toPreferred(image: unknown): string | undefined {
  const { oci } = Object(image) as { readonly oci?: unknown };
  return typeof oci === 'string' && oci !== '' ? toImageHolding(oci.slice(0, MAX_IMAGE_CHARS)) : undefined;
}

/** Undefined for a number that no host accepts. */
export function toCount(path: string, { value }: JsonBody): number | undefined {
  if (value === undefined) return undefined;
  const { count, children } = value;
  const inQuery = new URLSearchParams(path.split('?')[1] ?? '').get('count');
  const wanted = Array.isArray(children) ? children.length : count || Number(inQuery ?? 1);
  return toInteger(wanted, MAX_FORKS, 1);
}

export function toNameClaim(name: string): string {
  return `name ${name}`;
}

/** A name is one of its tenant, and the key of a retry one of a client’s key. */
export function toClaims(
  { headers }: IncomingMessage,
  { name = '' }: CreateRequest,
  { digest }: Caller,
): string[] {
  const key = headers['idempotency-key'];
  return [
    ...(typeof key === 'string' && key !== ''
      ? [`${KEY_CLAIM}${digest} ${/^"(.*)"$/s.exec(key)?.[1] ?? key}`]
      : []),
    ...(name !== '' ? [toNameClaim(name)] : []),
  ];
}
