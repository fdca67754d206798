// Validates input. Returns the value, or a message that names each invalid field, its value and what it must be.
import type { z } from 'zod';
import { MAX_PROBLEMS } from '../limits.ts';
import { show, toStep } from './shown.ts';
import { findUnknownFields } from './unknown-fields.ts';

export type Checked<T> =
  /** `warnings` name the unknown fields. */
  | { readonly isValid: true; readonly value: T; readonly warnings: readonly string[] }
  | { readonly isValid: false; readonly problem: string };

/**
 * Validates a JSON body. An empty body and `null` mean an object without fields. Unknown fields cause warnings, or
 * errors if `isStrict`. The message about other errors always lists them, because a missing field may be a misspelt
 * one.
 */
export function checkBody<S extends z.ZodType>(
  schema: S,
  body: unknown,
  isStrict = false,
): Checked<z.output<S>> {
  const checked = check(schema, body ?? {}, 'the body');
  const warnings = findUnknownFields(schema, body);
  if (checked.isValid && !(isStrict && warnings.length > 0)) return { ...checked, warnings };
  const problems = checked.isValid ? warnings : [checked.problem, ...warnings];
  return { isValid: false, problem: problems.join('; ') };
}

/** Validates query or path parameters: strings by name, or arrays of them for parameters that may be repeated. */
export function checkParameters<S extends z.ZodType>(
  schema: S,
  parameters: Readonly<Record<string, string | readonly string[]>>,
): Checked<z.output<S>> {
  return check(schema, parameters, 'the parameters');
}

function check<S extends z.ZodType>(schema: S, value: unknown, whole: string): Checked<z.output<S>> {
  const result = schema.safeParse(value);
  if (result.success) return { isValid: true, value: result.data, warnings: [] };
  const issues = withoutRepeats(result.error.issues);
  const shown = issues.slice(0, MAX_PROBLEMS).map((issue) => toSentence(value, issue, whole));
  const rest = issues.length > MAX_PROBLEMS ? `; and ${issues.length - MAX_PROBLEMS} more` : '';
  return { isValid: false, problem: shown.join('; ') + rest };
}

/** Removes duplicates before the sentences are built: each sentence formats a value, which may be large. */
function withoutRepeats(issues: readonly z.core.$ZodIssue[]): readonly z.core.$ZodIssue[] {
  return [...new Map(issues.map((issue) => [JSON.stringify([issue.path, issue.message]), issue])).values()];
}

/** A schema's message is the rest of the sentence after the field's name, or a template with `{name}` and `{value}`. */
function toSentence(root: unknown, { path, message }: z.core.$ZodIssue, whole: string): string {
  let value = root;
  let name = '';
  for (const key of path) {
    value =
      typeof value === 'object' && value !== null && Object.hasOwn(value, key)
        ? Reflect.get(value, key)
        : undefined;
    name += toStep(key, name === '');
  }
  const template =
    message.includes('{name}') || message.includes('{value}') ? message : `{name} ${message}, got {value}`;
  return template.replace(/\{(name|value)\}/g, (_, part) => (part === 'name' ? name || whole : show(value)));
}
