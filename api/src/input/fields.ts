// Building blocks of JSON bodies. Of every field that may be left out, `null` means that it is; what is not said in JSON Schema
// is a rule in words under `x-rules`, so that whatever is generated from a schema loses nothing.
import { z } from 'zod';
import { MAX_FOUND_PROBLEMS } from '../limits.ts';

declare module 'zod' {
  interface GlobalMeta {
    /** Sentences about what is checked beyond the schema's own words. */
    'x-rules'?: readonly string[];
  }
}

/** What a schema gives, read-only; what may be undefined may be absent. */
export type Parsed<T> = T extends readonly (infer E)[]
  ? readonly Parsed<E>[]
  : T extends object
    ? { readonly [K in keyof T as undefined extends T[K] ? never : K]: Parsed<T[K]> } & {
        readonly [K in keyof T as undefined extends T[K] ? K : never]?: Parsed<T[K]>;
      }
    : T;

/** Strings that can become arguments, paths and variables of Linux: no NUL, and nothing that UTF-8 has no bytes for. */
export const TEXT = {
  type: 'string',
  pattern: '^(?:[^\\u0000\\ud800-\\udfff]|[\\ud800-\\udbff][\\udc00-\\udfff])*$',
} as const;

/**
 * A string of whole characters without NUL. `pattern` (without flags: JSON Schema has none) is for its form, which `formError`
 * describes where it differs from `error`.
 */
export function text(
  error = 'must be a string',
  pattern?: RegExp,
  formError: string | ((value: string) => string) = error,
) {
  const toProblem = (value: string): string | undefined => {
    const problem = findTextProblem(value, error);
    if (problem !== undefined || pattern === undefined || pattern.test(value)) return problem;
    return typeof formError === 'string' ? formError : formError(value);
  };
  return z
    .string({ error })
    .superRefine((value, context) => {
      const message = toProblem(value);
      if (message !== undefined) context.addIssue({ code: 'custom', message });
    })
    .meta(
      pattern === undefined
        ? { pattern: TEXT.pattern }
        : { allOf: [TEXT, { ...TEXT, pattern: pattern.source }] },
    );
}

/** What keeps a value from being a text of no form. */
export function findTextProblem(value: unknown, error = 'must be a string'): string | undefined {
  if (typeof value !== 'string') return error;
  if (value.includes('\0')) return `${error} without a NUL character`;
  return value.isWellFormed() ? undefined : `${error} of whole characters; it holds half of a surrogate pair`;
}

/**
 * Texts of no form, `min` of them at least. Not a `z.array`, which makes a problem of each entry: that takes a second where a body
 * has nothing but wrong ones.
 */
export function texts(error: string, min = 0) {
  return z
    .unknown()
    .superRefine((value, context) => {
      if (!Array.isArray(value) || value.length < min)
        return context.addIssue({ code: 'custom', message: error });
      let found = 0;
      for (const [at, each] of value.entries()) {
        const message = findTextProblem(each);
        if (message === undefined) continue;
        context.addIssue({ code: 'custom', message, path: [at] });
        found += 1;
        if (found === MAX_FOUND_PROBLEMS) return;
      }
    })
    .meta({ ...(min > 0 && { minItems: min }), type: 'array', items: TEXT }) as unknown as z.ZodType<
    string[],
    string[]
  >;
}

export function integer(min: number, max: number, note = '') {
  const error = `must be an integer from ${min} to ${max}${note}`;
  return z.int({ error }).min(min, { error }).max(max, { error });
}

/** Adds a check of several fields at once, or of what JSON Schema has no words for. `path` is the field it blames. */
export function rule<S extends z.ZodType>(
  schema: S,
  sentence: string,
  check: (value: z.output<S>) => boolean,
  { error, path = [] }: { readonly error: string; readonly path?: PropertyKey[] },
): S {
  const rules = [...(schema.meta()?.['x-rules'] ?? []), sentence];
  // It may look into all of a value, so that is whole first.
  const when = ({ issues }: z.core.ParsePayload): boolean => issues.length === 0;
  return schema.refine(check, { error, path, when }).meta({ 'x-rules': rules });
}

/** May be left out. */
export function optional<S extends z.ZodType>(schema: S, description: string) {
  return schema
    .nullish()
    .transform((value): z.output<S> | undefined => value ?? undefined)
    .meta({ description });
}

/** May be left out, and then is `fallback`. */
export function withDefault<S extends z.ZodType>(schema: S, fallback: z.output<S>, description: string) {
  return schema
    .nullish()
    .transform((value): z.output<S> => value ?? fallback)
    .meta({ description, default: fallback });
}

/** A text for which "" is as good as leaving it out, as clients have it that always send every field. */
export function optionalText(schema: z.ZodType<string, string>, description: string) {
  return schema
    .nullish()
    .transform((value) => value || undefined)
    .meta({ description });
}

/** One of `values`; "" is as good as leaving it out. */
export function choice<const T extends readonly string[]>(
  values: T,
  fallback: T[number],
  description: string,
  error = `must be one of ${values.join(', ')}`,
) {
  return z
    .enum([...values, ''], { error })
    .nullish()
    .transform((value): T[number] => value || fallback)
    .meta({ description, default: fallback });
}

/** For numbers whose smallest value is above 0: there 0 means the default, which is undefined if the daemon's settings have it. */
export function integerOrDefault<D extends number | undefined>(
  min: number,
  max: number,
  fallback: D,
  about: { readonly description: string; readonly default?: number; readonly note?: string },
) {
  const error = `must be an integer from ${min} to ${max}${about.note ?? ''}`;
  const given = z.int({ error }).max(max, { error });
  // Where 0 is the next number below anyway, one range is both.
  const schema =
    min <= 1
      ? given.min(0, { error })
      : z.union([z.literal(0, { error }), given.min(min, { error })], { error });
  return schema
    .nullish()
    .transform((value): number | D => value || fallback)
    .meta({ description: `${about.description}; 0 means the default`, default: about.default ?? fallback });
}
