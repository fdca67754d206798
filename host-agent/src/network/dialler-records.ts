// What the daemon writes down of connections that a dialler (native/egressd.c) reports. One that its guest has taken
// over may say anything, also in the daemon's own tags.
import { describeAllowedBy } from './bound-rules.ts';
import type { ConnectionRecord } from './connection-record.ts';
import type { DialledConnection } from './dialler-control.ts';
import type { Verdict } from './policy.ts';

/** As in native/egressd.c. */
const MAX_TAG_CHARS = 600;

/** By the words of native/egressd.c. */
const REASONS: ReadonlyMap<string, string> = new Map([
  ['silent', 'it sent no name; a tcp rule opens a port for other protocols'],
  ['slow', 'it took too long to say a name'],
  ['hello', 'its TLS handshake says no valid name (SNI), or more than one'],
  ['request', 'its HTTP request is not valid, or ambiguous'],
  ['authority', 'its Host is not that of the connection'],
  ['protocol', 'it is neither TLS nor HTTP; a tcp rule opens a port for other protocols'],
  ['unreachable', 'no address of the name answered'],
  ['server-without-tls', 'the database has no TLS'],
  ['no-answer', 'no daemon answered'],
  ['no-gateway', 'the process that reads requests could not take it'],
  ['policy', 'the policy changed'],
  ['ended', 'it ended'],
  ['reset', 'an end reset it'],
  ['idle', 'it was idle for too long'],
]);

type Tag = readonly [generation: number | null, rule: string | null, reason: string];

/** Goes with a verdict, and comes back in the record. */
export function toTag(generation: number | undefined, { by, reason }: Verdict): string {
  const tag: Tag = [generation ?? null, by === undefined ? null : describeAllowedBy(by), reason];
  return Buffer.from(JSON.stringify(tag)).toString('base64url').slice(0, MAX_TAG_CHARS);
}

/** One that was cut is of no use. */
function readTag(text: string | undefined): Tag | undefined {
  if (text === undefined || text.length > MAX_TAG_CHARS) return undefined;
  try {
    const tag: unknown = JSON.parse(Buffer.from(text, 'base64url').toString());
    return isTag(tag) ? tag : undefined;
  } catch {
    return undefined;
  }
}

function isTag(tag: unknown): tag is Tag {
  if (!Array.isArray(tag) || tag.length !== 3) return false;
  const [generation, rule, reason] = tag;
  const isGeneration = generation === null || (Number.isSafeInteger(generation) && generation >= 0);
  return isGeneration && (rule === null || isPlain(rule)) && isPlain(reason);
}

/** Without what a terminal could obey, or show as something else. */
function isPlain(text: unknown): text is string {
  return typeof text === 'string' && !/\p{C}/u.test(text);
}

export function toRecord(connection: DialledConnection): ConnectionRecord {
  const { isAllowed, reason, kind, name, address, port, bytesUp, bytesDown, ms, tag } = connection;
  const [generation, rule, text] = readTag(tag) ?? [null, null, ''];
  return {
    verdict: isAllowed ? 'allowed' : 'denied',
    reason: reason === 'not-allowed' && text !== '' ? text : (REASONS.get(reason) ?? 'it was refused'),
    protocol: kind ?? 'tcp',
    ...(generation !== null && { generation }),
    ...(rule !== null && { rule }),
    ...(name !== undefined && { name }),
    ...(address !== undefined && { address }),
    port,
    bytesUp,
    bytesDown,
    ms,
  };
}

export function toLost(count: number): ConnectionRecord {
  return {
    verdict: 'denied',
    reason: `${count} connections were over the limits of new ones or of all`,
    protocol: 'tcp',
  };
}
