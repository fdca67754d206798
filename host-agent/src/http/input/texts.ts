// Decodes the path and query of a request strictly. Errors name the invalid part.
import { show } from '@sandboxd/api';
import { AppError } from '../../lib/errors.ts';

/** The first value of a parameter; undefined if absent or empty. AppError invalid_argument if it cannot be decoded. */
export function readQuery(url: string, name: string): string | undefined {
  const [, query = ''] = url.split('#', 1)[0]?.split(/\?(.*)/s) ?? [];
  for (const pair of query.split('&')) {
    const [, key = '', value = ''] = /^([^=]*)=?(.*)$/s.exec(pair.replaceAll('+', ' ')) ?? [];
    if (key === name || lenientlyDecoded(key) === name) {
      return decodeText(value, `query ${name}`) || undefined;
    }
  }
  return undefined;
}

/** The distinct names of all parameters. A name that cannot be decoded stays encoded. */
export function namesOfQuery(url: string): readonly string[] {
  const [, query = ''] = url.split('#', 1)[0]?.split(/\?(.*)/s) ?? [];
  const names = query.split('&').map((pair) => pair.split('=', 1)[0]?.replaceAll('+', ' ') ?? '');
  return [...new Set(names.map(lenientlyDecoded))].filter((name) => name !== '');
}

/** Percent-encoded UTF-8 without NUL → text. AppError invalid_argument names `what` and the error. */
export function decodeText(encoded: string, what: string): string {
  const text = decoded(encoded);
  if (text === undefined) {
    const broken = /%(?![\da-f]{2}).{0,2}/i.exec(encoded)?.[0];
    const found = broken === undefined ? `${show(firstNotUtf8(encoded))}, which is no UTF-8` : show(broken);
    throw new AppError('invalid_argument', `${what} has a bad % escape, ${found}; write % itself as %25`);
  }
  if (!text.includes('\0')) return text;
  throw new AppError('invalid_argument', `${what} has a NUL character, got ${show(text)}; leave it out`);
}

function decoded(encoded: string): string | undefined {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}

function lenientlyDecoded(encoded: string): string {
  return decoded(encoded) ?? encoded;
}

function firstNotUtf8(encoded: string): string {
  const runs = encoded.match(/(?:%[\da-f]{2})+/gi) ?? [];
  return runs.find((run) => decoded(run) === undefined) ?? encoded;
}
