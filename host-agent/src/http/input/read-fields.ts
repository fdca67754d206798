// Turns a JSON body into checked fields, or into one sentence that names each field, what it holds and what it must be.
import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';
import { type HttpContext, show } from '../context.ts';
import { readJson } from './json-body.ts';

/** Most problems that one message lists. */
const MAX_PROBLEMS = 5;

/** Unknown fields are ignored; no body and `null` are an object without fields. */
export async function readFields<T>(c: HttpContext, schema: z.ZodType<T>, idleMs?: number): Promise<T> {
  return checkFields(await readJson(c, idleMs), schema);
}

export function checkFields<T>(body: unknown, schema: z.ZodType<T>): T {
  const value = body ?? {};
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issues = withoutRepeats(result.error.issues);
  const problems = issues.slice(0, MAX_PROBLEMS).map(({ path, message }) => toSentence(value, path, message));
  const rest = issues.length > MAX_PROBLEMS ? `; and ${issues.length - MAX_PROBLEMS} more` : '';
  throw new AppError('invalid_argument', problems.join('; ') + rest);
}

/** Told apart before their sentences are made: each shows a value, which may be most of a large body. */
function withoutRepeats(issues: readonly z.core.$ZodIssue[]): readonly z.core.$ZodIssue[] {
  return [...new Map(issues.map((issue) => [JSON.stringify([issue.path, issue.message]), issue])).values()];
}

/** Absent, null and what stands for absent (`""` from clients that always send every field) are undefined. */
export function optional<T>(schema: z.ZodType<T>, empty?: unknown) {
  return z.preprocess((value) => (value === null || value === empty ? undefined : value), schema.optional());
}

export function integer(min: number, max: number, note = '') {
  const error = `must be an integer from ${min} to ${max}${note}`;
  return z.int({ error }).min(min, { error }).max(max, { error });
}

/** A string that Linux can hold as argument, path or variable (no NUL) and UTF-8 can carry (no half of a surrogate pair). */
export function text(error = 'must be a string') {
  return z
    .string({ error })
    .refine((value) => !value.includes('\0'), { error: `${error} without a NUL character` })
    .refine(isUnicode, { error: `${error} of whole Unicode characters, without a lone surrogate` });
}

/** Whether UTF-8 has the string; the guest could not be sent others. */
export function isUnicode(value: string): boolean {
  return value.isWellFormed();
}

function toSentence(body: unknown, path: readonly PropertyKey[], message: string): string {
  if (path.length === 0) return `the body ${message}, got ${show(body)}`;
  let value = body;
  let name = '';
  for (const key of path) {
    value = typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined;
    name += typeof key === 'number' ? `[${key}]` : `${name === '' ? '' : '.'}${String(key)}`;
  }
  return `${name} ${message}, got ${show(value)}`;
}
