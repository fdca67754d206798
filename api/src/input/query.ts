// Building blocks of queries. Everything arrives as text, and an empty text is as good as none.
import { z } from 'zod';
import { MAX_INT64 } from '../limits.ts';

type About = { readonly description: string; readonly error?: string };

const MAX_NUMBER = BigInt(Number.MAX_SAFE_INTEGER);

/**
 * A whole number from `min` to `max`, which is 2^63 − 1 when absent; above 2^53 − 1 it is taken for that. Described as the
 * integer that it stands for.
 */
export function queryInteger<D extends number | undefined>(
  min: number,
  max: number | undefined,
  fallback: D,
  about: About,
) {
  const most = max === undefined ? MAX_INT64 : BigInt(max);
  const range = max === undefined ? `of at least ${min}` : `from ${min} to ${max}`;
  const error = about.error ?? `query {name} must be a whole number ${range}, got {value}`;
  return z
    .string({ error })
    .optional()
    .transform((text, context): number | D => {
      if (text === undefined || text === '') return fallback;
      const value = /^-?\d+$/.test(text) ? BigInt(text) : undefined;
      if (value !== undefined && value >= min && value <= most)
        return Number(value < MAX_NUMBER ? value : MAX_NUMBER);
      context.addIssue({ code: 'custom', message: error });
      return z.NEVER;
    })
    .meta({
      type: 'integer',
      format: 'int64',
      minimum: min,
      ...(max !== undefined && { maximum: max }),
      ...(fallback !== undefined && { default: fallback }),
      description: about.description,
    });
}

export function queryChoice<const T extends readonly string[]>(values: T, fallback: T[number], about: About) {
  const error = about.error ?? `query {name} must be one of ${values.join(', ')}, got {value}`;
  return z
    .enum([...values, ''], { error })
    .optional()
    .transform((value): T[number] => value || fallback)
    .meta({ description: about.description, default: fallback });
}

/** `meaning` for exactly the text `word`, the opposite for anything else. */
export function querySwitch(word: string, meaning: boolean, description: string) {
  return z
    .string()
    .optional()
    .transform((value) => (value === word) === meaning)
    .meta({ description });
}
