// Names and labels, by which clients find sandboxes. Labels have the syntax of Kubernetes.
import { z } from 'zod';
import { text } from '../input/fields.ts';
import { MAX_IMAGE_REF_CHARS, MAX_LABELS, MAX_LABELS_CHARS, MAX_NAME_CHARS } from '../limits.ts';

const DNS_LABEL = '[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?';
const WORD = '[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?';
const MAX_PREFIX_CHARS = 253;
const MAX_KEY_CHARS = MAX_PREFIX_CHARS + 1 + MAX_NAME_CHARS;
const KEY = new RegExp(`^(?:${DNS_LABEL}(?:\\.${DNS_LABEL})*/)?${WORD}$`);
const VALUE = new RegExp(`^(?:${WORD})?$`);

const NAME_ERROR =
  `must be a DNS label: at most ${MAX_NAME_CHARS} of a-z, 0-9 and -, ` +
  'with a letter or digit at the beginning and end';
export const KEY_ERROR =
  `must have keys of Kubernetes' syntax: at most ${MAX_NAME_CHARS} letters, digits, -, _ and ., with a letter or ` +
  'digit at the beginning and end; before them optionally a domain name and /';
export const VALUE_ERROR = `must be at most ${MAX_NAME_CHARS} letters, digits, -, _ and ., with a letter or digit at the beginning and end`;

export type Labels = Readonly<Record<string, string>>;

/** A name that is unique among the sandboxes of a tenant. */
export const objectName = text(NAME_ERROR, new RegExp(`^${DNS_LABEL}$`));

export function isLabelKey(key: string): boolean {
  const prefixChars = key.lastIndexOf('/');
  return key.length <= MAX_KEY_CHARS && prefixChars <= MAX_PREFIX_CHARS && KEY.test(key);
}

export function isLabelValue(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_NAME_CHARS && VALUE.test(value);
}

export function countLabelChars(entries: readonly (readonly [string, unknown])[]): number {
  return entries.reduce(
    (sum, [key, value]) => sum + key.length + (typeof value === 'string' ? value.length : 0),
    0,
  );
}

/** Labels by key. */
export const labels = labelsOf<string>(isLabelValue, { type: 'string', pattern: VALUE.source });

/** Changes of labels, a JSON merge patch (RFC 7396): `null` removes a label, and others stay. */
export const labelsPatch = labelsOf<string | null>((value) => value === null || isLabelValue(value), {
  type: ['string', 'null'],
  pattern: VALUE.source,
});

/**
 * Not a `z.record`, because that drops a label with the key `__proto__` instead of refusing it. Its JSON Schema is
 * written by hand.
 */
function labelsOf<V>(isValid: (value: unknown) => boolean, value: object) {
  return z
    .unknown()
    .superRefine((given, context) => {
      const refuse = (message: string, ...path: string[]) =>
        context.addIssue({ code: 'custom', message, path });
      if (given === null || given === undefined) return;
      if (typeof given !== 'object' || Array.isArray(given)) return refuse('must be an object of strings');
      const entries = Object.entries(given);
      if (entries.length > MAX_LABELS)
        return refuse(`{name} must have at most ${MAX_LABELS} labels, got ${entries.length}`);
      const chars = countLabelChars(entries);
      if (chars > MAX_LABELS_CHARS)
        return refuse(
          `{name} must have at most ${MAX_LABELS_CHARS} characters in keys and values, got ${chars}`,
        );
      for (const [key, each] of entries) {
        if (!isLabelKey(key)) refuse(`{name} ${KEY_ERROR}, got ${JSON.stringify(key.slice(0, 80))}`);
        else if (!isValid(each)) refuse(VALUE_ERROR, key);
      }
    })
    .meta({
      type: 'object',
      propertyNames: { type: 'string', maxLength: MAX_KEY_CHARS, pattern: KEY.source },
      additionalProperties: value,
      maxProperties: MAX_LABELS,
    }) as unknown as z.ZodType<Readonly<Record<string, V>>, Readonly<Record<string, V>>>;
}

/** `value` absent: any value. */
export type LabelSelector = { readonly key: string; readonly value?: string };

/** `key=value`, or `key` for any value; undefined for invalid text. */
export function parseLabelSelector(text: string): LabelSelector | undefined {
  const [, key = '', value] = /^([^=]*)(?:=(.*))?$/s.exec(text) ?? [];
  if (!isLabelKey(key) || !isLabelValue(value ?? '')) return undefined;
  return { key, ...(value !== undefined && { value }) };
}

const SELECTOR_ERROR = `query {name} must be key or key=value, in the syntax of labels, ${MAX_LABELS} at most, got {value}`;

/** A parameter that may be repeated; all of its selectors must match. */
export const labelSelectors = z
  .array(z.string())
  .optional()
  .transform((words, context): readonly LabelSelector[] | undefined => {
    if (words === undefined) return undefined;
    const selectors = words.slice(0, MAX_LABELS).flatMap((word) => parseLabelSelector(word) ?? []);
    if (selectors.length === words.length) return selectors;
    context.addIssue({ code: 'custom', message: SELECTOR_ERROR });
    return z.NEVER;
  })
  .meta({
    type: 'array',
    items: { type: 'string' },
    description:
      'only entries with this label, key=value, or key for any value; may be repeated, and all must match',
  });

/** The parameter `name` of a list. Undefined if it is absent. */
export const nameFilter = z
  .string()
  .max(MAX_IMAGE_REF_CHARS, { error: `query {name} must have at most ${MAX_IMAGE_REF_CHARS} characters` })
  .optional()
  .transform((value) => value || undefined)
  .meta({ description: 'only the entry of this name' });
