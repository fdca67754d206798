// Building blocks of JSON bodies. In an optional field, `null` means absent. A check that JSON Schema cannot express is
// a sentence under `x-rules`, so that generated documentation is complete.
import { z } from 'zod';
import { MAX_FOUND_PROBLEMS } from '../limits.ts';

declare module 'zod' {
  interface GlobalMeta {
    /** Sentences that describe the checks which JSON Schema cannot express. */
    'x-rules'?: readonly string[];
  }
}

/** The output of a schema, read-only. A field that may be undefined may be absent. */
export type Parsed<T> = T extends readonly (infer E)[]
  ? readonly Parsed<E>[]
  : T extends object
    ? { readonly [K in keyof T as undefined extends T[K] ? never : K]: Parsed<T[K]> } & {
        readonly [K in keyof T as undefined extends T[K] ? K : never]?: Parsed<T[K]>;
      }
    : T;

/** Strings that are valid as Linux arguments, paths and variables: no NUL and no lone surrogates. */
export const TEXT = {
  type: 'string',
  pattern: '^(?:[^\\u0000\\ud800-\\udfff]|[\\ud800-\\udbff][\\udc00-\\udfff])*$',
} as const;

/**
 * A string without NUL and lone surrogates. `pattern` restricts it further and must have no flags, because JSON Schema
 * has none. `formError` is the message for a mismatch; its default is `error`.
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

/** Why a value is not a valid text; undefined for a valid one. */
export function findTextProblem(value: unknown, error = 'must be a string'): string | undefined {
  if (typeof value !== 'string') return error;
  if (value.includes('\0')) return `${error} without a NUL character`;
  return value.isWellFormed() ? undefined : `${error} of whole characters; it holds half of a surrogate pair`;
}

/**
 * An array of at least `min` texts. Not a `z.array`, because that creates an issue for each invalid entry, which takes
 * a second for a body that is full of them.
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

/** Adds a check of several fields, or one that JSON Schema cannot express. The error names the field `path`. */
export function rule<S extends z.ZodType>(
  schema: S,
  sentence: string,
  check: (value: z.output<S>) => boolean,
  { error, path = [] }: { readonly error: string; readonly path?: PropertyKey[] },
): S {
  const rules = [...(schema.meta()?.['x-rules'] ?? []), sentence];
  // The check may read every field, so it runs only on a value without other issues.
  const when = ({ issues }: z.core.ParsePayload): boolean => issues.length === 0;
  return schema.refine(check, { error, path, when }).meta({ 'x-rules': rules });
}

/** An optional field. */
export function optional<S extends z.ZodType>(schema: S, description: string) {
  return schema
    .nullish()
    .transform((value): z.output<S> | undefined => value ?? undefined)
    .meta({ description });
}

/** An optional field with the default `fallback`. */
export function withDefault<S extends z.ZodType>(schema: S, fallback: z.output<S>, description: string) {
  return schema
    .nullish()
    .transform((value): z.output<S> => value ?? fallback)
    .meta({ description, default: fallback });
}

/** An optional text. "" means absent, because some clients always send every field. */
export function optionalText(schema: z.ZodType<string, string>, description: string) {
  return schema
    .nullish()
    .transform((value) => value || undefined)
    .meta({ description });
}

/** One of `values`, with a default. "" means absent. */
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

/** A number in which 0 means the default. `fallback` is undefined if the settings of the daemon define the default. */
export function integerOrDefault<D extends number | undefined>(
  min: number,
  max: number,
  fallback: D,
  about: { readonly description: string; readonly default?: number; readonly note?: string },
) {
  const error = `must be an integer from ${min} to ${max}${about.note ?? ''}`;
  const given = z.int({ error }).max(max, { error });
  // If `min` is at most 1, a single range also covers 0.
  const schema =
    min <= 1
      ? given.min(0, { error })
      : z.union([z.literal(0, { error }), given.min(min, { error })], { error });
  return schema
    .nullish()
    .transform((value): number | D => value || fallback)
    .meta({ description: `${about.description}; 0 means the default`, default: about.default ?? fallback });
}
