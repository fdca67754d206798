// Building blocks of query parameters. Values arrive as strings; an empty string means an absent parameter.
import { z } from 'zod';
import { MAX_INT64 } from '../limits.ts';

type Options = { readonly description: string; readonly error?: string };

const MAX_NUMBER = BigInt(Number.MAX_SAFE_INTEGER);

/**
 * An integer from `min` to `max` (default 2^63 − 1). A value above 2^53 − 1 becomes 2^53 − 1. JSON Schema shows the
 * type integer.
 */
export function queryInteger<D extends number | undefined>(
  min: number,
  max: number | undefined,
  fallback: D,
  options: Options,
) {
  const upper = max === undefined ? MAX_INT64 : BigInt(max);
  const range = max === undefined ? `of at least ${min}` : `from ${min} to ${max}`;
  const error = options.error ?? `query {name} must be a whole number ${range}, got {value}`;
  return z
    .string({ error })
    .optional()
    .transform((text, context): number | D => {
      if (text === undefined || text === '') return fallback;
      const value = /^-?\d+$/.test(text) ? BigInt(text) : undefined;
      if (value !== undefined && value >= min && value <= upper)
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
      description: options.description,
    });
}

export function queryChoice<const T extends readonly string[]>(
  values: T,
  fallback: T[number],
  options: Options,
) {
  const error = options.error ?? `query {name} must be one of ${values.join(', ')}, got {value}`;
  return z
    .enum([...values, ''], { error })
    .optional()
    .transform((value): T[number] => value || fallback)
    .meta({ description: options.description, default: fallback });
}

/** `meaning` if the value is exactly `word`, else its opposite. */
export function querySwitch(word: string, meaning: boolean, description: string) {
  return z
    .string()
    .optional()
    .transform((value) => (value === word) === meaning)
    .meta({ description });
}
