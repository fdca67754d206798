// Parses sizes, durations, counts, variables and ports of flags.
import { UsageError } from '@sandboxd/api/command-line';

const MIB_PER: Readonly<Record<string, number>> = { m: 1, g: 1024, t: 1024 ** 2 };
const SECONDS_PER: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };
const BYTES_PER: Readonly<Record<string, number>> = { k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40 };

/** `512m`, `2g`; a plain number is MiB. */
export function toMib(flag: string, text: string): number {
  return toAmount(flag, text, MIB_PER, 1, 'a size such as 512m or 2g');
}

/** `90`, `30s`, `10m`, `2h`. */
export function toSeconds(flag: string, text: string): number {
  return toAmount(flag, text, SECONDS_PER, 1, 'a time such as 30s, 10m or 2h');
}

/** `64m`, `8g`; a plain number is bytes. */
export function toBytes(flag: string, text: string): number {
  return toAmount(flag, text, BYTES_PER, 1, 'a size such as 64m or 8g');
}

export function toCount(flag: string, text: string): number {
  return toAmount(flag, text, {}, 1, 'a whole number');
}

function toAmount(
  flag: string,
  text: string,
  units: Readonly<Record<string, number>>,
  plain: number,
  form: string,
): number {
  const [, digits = '', unit = ''] = /^(\d{1,12})([a-z]?)(?:i?b)?$/.exec(text.toLowerCase()) ?? [];
  const factor = unit === '' ? plain : units[unit];
  if (digits === '' || factor === undefined)
    throw new UsageError(`--${flag} must be ${form}, not ${JSON.stringify(text)}`);
  return Number(digits) * factor;
}

/** `NAME=value`; `NAME` alone passes the variable of this environment. */
export function toEnvironment(texts: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    texts.flatMap((text) => {
      const at = text.indexOf('=');
      if (at > 0) return [[text.slice(0, at), text.slice(at + 1)]];
      const value = process.env[text];
      if (at === 0 || text === '')
        throw new UsageError(`--env must be NAME=value, not ${JSON.stringify(text)}`);
      return value === undefined ? [] : [[text, value]];
    }),
  );
}

/** `8080:80` or `127.0.0.1:8080:80`. */
export function toPort(text: string): { host_ip?: string; host_port: number; guest_port: number } {
  const [, ip, host, guest] = /^(?:(.+):)?(\d{1,5}):(\d{1,5})(?:\/tcp)?$/.exec(text) ?? [];
  if (host === undefined)
    throw new UsageError(`--publish must be [address:]port:port-in-the-sandbox, not ${JSON.stringify(text)}`);
  return {
    ...(ip !== undefined && { host_ip: ip.replace(/^\[|\]$/g, '') }),
    host_port: Number(host),
    guest_port: Number(guest),
  };
}

/** `key=value` texts as labels. UsageError. */
export function toLabels(texts: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    texts.map((text) => {
      const at = text.indexOf('=');
      if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
      throw new UsageError(`--label must be key=value, not ${JSON.stringify(text)}`);
    }),
  );
}

/** The same; `key-` removes a label. UsageError. */
export function toLabelChanges(texts: readonly string[]): Record<string, string | null> {
  const isRemoval = (text: string): boolean => !text.includes('=') && /.-$/.test(text);
  const removed = texts.filter(isRemoval).map((text) => [text.slice(0, -1), null] as const);
  const set = toLabels(texts.filter((text) => !isRemoval(text)));
  return { ...set, ...Object.fromEntries(removed) };
}
