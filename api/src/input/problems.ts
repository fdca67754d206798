// Input against its schema: the checked value, or one sentence that names each field, what it holds and what it must be.
import type { z } from 'zod';
import { MAX_PROBLEMS } from '../limits.ts';

export type Checked<T> =
  | { readonly isValid: true; readonly value: T }
  | { readonly isValid: false; readonly problem: string };

/** Of a value or a name in a message. */
const MAX_SHOWN_CHARS = 80;

/** A JSON body; an empty one and `null` are an object without fields. */
export function checkBody<S extends z.ZodType>(schema: S, body: unknown): Checked<z.output<S>> {
  return check(schema, body ?? {}, 'the body');
}

/** Parameters of the query or of the path, as text by name. */
export function checkParameters<S extends z.ZodType>(
  schema: S,
  parameters: Readonly<Record<string, string>>,
): Checked<z.output<S>> {
  return check(schema, parameters, 'the parameters');
}

function check<S extends z.ZodType>(schema: S, value: unknown, whole: string): Checked<z.output<S>> {
  const result = schema.safeParse(value);
  if (result.success) return { isValid: true, value: result.data };
  const issues = withoutRepeats(result.error.issues);
  const shown = issues.slice(0, MAX_PROBLEMS).map((issue) => toSentence(value, issue, whole));
  const rest = issues.length > MAX_PROBLEMS ? `; and ${issues.length - MAX_PROBLEMS} more` : '';
  return { isValid: false, problem: shown.join('; ') + rest };
}

/** Told apart before their sentences are made: each shows a value, which may be most of a large body. */
function withoutRepeats(issues: readonly z.core.$ZodIssue[]): readonly z.core.$ZodIssue[] {
  return [...new Map(issues.map((issue) => [JSON.stringify([issue.path, issue.message]), issue])).values()];
}

/** A schema's message says what follows the field's name, or places both itself as `{name}` and `{value}`. */
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

function toStep(key: PropertyKey, isFirst: boolean): string {
  if (typeof key === 'number') return `[${key}]`;
  const text = String(key);
  if (!/^[\w-]{1,80}$/.test(text)) return `[${show(text)}]`;
  return isFirst ? text : `.${text}`;
}

/** A value as messages show it: JSON, cut to a readable length. */
export function show(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = toJson(value);
  return text.length > MAX_SHOWN_CHARS ? `${text.slice(0, MAX_SHOWN_CHARS - 3)}...` : text;
}

/** JSON.parse takes any depth, JSON.stringify not always. */
function toJson(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    return 'a value that is nested too deeply';
  }
}
