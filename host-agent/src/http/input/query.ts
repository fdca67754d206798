// The query of a request, by one rule: what is empty is absent, and integers go up to those of 64 bits.
import { AppError } from '../../lib/errors.ts';
import { type HttpContext, show } from '../context.ts';

const MAX_INT64 = 2n ** 63n - 1n;

/** The parameter's first value; undefined when it is absent or empty. AppError invalid_argument for what is no text. */
export function readQuery(c: HttpContext, name: string): string | undefined {
  const [, query = ''] = c.req.url.split('#', 1)[0]?.split(/\?(.*)/s) ?? [];
  for (const pair of query.split('&')) {
    const [, key = '', value = ''] = /^([^=]*)=?(.*)$/s.exec(pair.replaceAll('+', ' ')) ?? [];
    if (key === name || lenientlyDecoded(key) === name) {
      return decodeText(value, `query ${name}`) || undefined;
    }
  }
  return undefined;
}

/**
 * A whole number of the query, `min` at least; undefined when it is absent. What is over 2^53-1, more than there is of
 * anything here, is taken as that. AppError invalid_argument.
 */
export function readCount(c: HttpContext, name: string, min: number): number | undefined {
  const value = readQuery(c, name);
  if (value === undefined) return undefined;
  const number = parseInt64(value);
  if (number !== undefined && number >= min) return number;
  throw new AppError(
    'invalid_argument',
    `query ${name} must be a whole number of at least ${min}, got ${show(value)}`,
  );
}

/** Decimal digits → a safe integer, the nearest one for what 64 bits hold and a number does not; else undefined. */
export function parseInt64(text: string): number | undefined {
  if (!/^-?\d+$/.test(text)) return undefined;
  const value = BigInt(text);
  if (value > MAX_INT64 || value < -MAX_INT64 - 1n) return undefined;
  return Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, Number(value)));
}

/** One of `choices`; undefined when it is absent. AppError invalid_argument. */
export function readChoice<T extends string>(
  c: HttpContext,
  name: string,
  choices: readonly T[],
): T | undefined {
  const value = readQuery(c, name);
  if (value === undefined) return undefined;
  const choice = choices.find((candidate) => candidate === value);
  if (choice !== undefined) return choice;
  throw new AppError(
    'invalid_argument',
    `query ${name} must be one of ${choices.join(', ')}, got ${show(value)}`,
  );
}

/** Percent-encoded UTF-8 without NUL → text. AppError invalid_argument says what is wrong with `what`. */
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
