// Lines of a gateway, which its guest may have taken over: what is not of their form is refused.
import type { ConnectionRecord } from './connection-record.ts';
import { type FromGateway, MAX_GATEWAY_LINE } from './gateway-wire.ts';
import { isName } from './resolver/allowlist.ts';

const MAX_PATH_CHARS = 1024;
const MAX_WORD_CHARS = 512;
const MAX_FAILED_CHARS = 2048;
const MAX_NAMES = 64;

/** Undefined for what no gateway writes. */
export function readGatewayLine(line: string): FromGateway | undefined {
  if (line.length > MAX_GATEWAY_LINE) return undefined;
  let message: unknown;
  try {
    message = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (!isObject(message)) return undefined;
  if (message.idle === true) return { idle: true };
  if (isCount(message.missed)) return { missed: message.missed };
  if (typeof message.failed === 'string') return { failed: message.failed.slice(0, MAX_FAILED_CHARS) };
  if (isCount(message.settled) && isCount(message.closed))
    return { settled: message.settled, closed: message.closed };
  const record = isObject(message.record) ? readRecord(message.record) : undefined;
  return record && { record };
}

function readRecord(fields: Readonly<Record<string, unknown>>): ConnectionRecord | undefined {
  const { verdict, protocol, reason, generation, rule, name, address, port } = fields;
  const { bytesUp, bytesDown, ms, method, path, status, secrets, forms } = fields;
  if (verdict !== 'allowed' && verdict !== 'denied') return undefined;
  if (protocol !== 'tls' && protocol !== 'http') return undefined;
  if (!isWord(reason, MAX_WORD_CHARS) || address !== undefined) return undefined;
  return {
    ...{ verdict, protocol, reason },
    ...(isCount(generation) && generation > 0 && { generation }),
    ...(isWord(rule, MAX_WORD_CHARS) && { rule }),
    ...(isWord(name, MAX_WORD_CHARS) && isName(name) && { name }),
    ...(isCount(port) && port <= 65_535 && { port }),
    ...(isCount(bytesUp) && { bytesUp }),
    ...(isCount(bytesDown) && { bytesDown }),
    ...(isCount(ms) && { ms }),
    ...(isWord(method, MAX_WORD_CHARS) && { method }),
    ...(isWord(path, MAX_PATH_CHARS) && { path }),
    ...(isCount(status) && status >= 100 && status <= 999 && { status }),
    ...(isNames(secrets) && { secrets }),
    ...(isNames(forms) && { forms }),
  };
}

function isNames(value: unknown): value is string[] {
  return Array.isArray(value) && value.length <= MAX_NAMES && value.every((each) => isWord(each, 64));
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

/** Without what a terminal could obey, or show as something else. */
function isWord(value: unknown, most: number): value is string {
  return typeof value === 'string' && value.length <= most && !/\p{C}/u.test(value);
}
