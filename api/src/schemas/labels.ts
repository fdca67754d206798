// Labels in the syntax of Kubernetes, names of objects, and the filters of lists by both.
import { z } from 'zod';
import { text } from '../input/fields.ts';
import { show } from '../input/shown.ts';
import { MAX_LABEL_FILTERS, MAX_LABELS } from '../limits.ts';

/** Letters, digits, `-`, `_` and `.`, at most 63, with a letter or digit at both ends. */
const SEGMENT = '[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?';
const DNS_LABEL = '[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?';
const MAX_PREFIX_CHARS = 253;
const KEY = new RegExp(`^(?:(${DNS_LABEL}(?:\\.${DNS_LABEL})*)/)?${SEGMENT}$`);
const VALUE = new RegExp(`^(?:${SEGMENT})?$`);

const KEY_RULE =
  'at most 63 letters, digits, -, _ and ., with a letter or digit at both ends, after an optional DNS name and /';
const VALUE_RULE = 'empty, or at most 63 letters, digits, -, _ and ., with a letter or digit at both ends';

export type Labels = Readonly<Record<string, string>>;

/** Matches objects that have the key, with the value if there is one. */
export type LabelFilter = { readonly key: string; readonly value?: string };

export function isLabelKey(key: string): boolean {
  const match = KEY.exec(key);
  return match !== null && (match[1]?.length ?? 0) <= MAX_PREFIX_CHARS;
}

export function isLabelValue(value: unknown): value is string {
  return typeof value === 'string' && VALUE.test(value);
}

/** What is wrong with an object of labels; undefined for a valid one. `allowsNull`: null removes a label. */
function findProblem(value: unknown, allowsNull: boolean): { message: string; path?: string[] } | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { message: 'must be an object of strings' };
  const names = Object.keys(value);
  if (names.length > MAX_LABELS)
    return { message: `{name} must have at most ${MAX_LABELS} labels, got ${names.length}` };
  const key = names.find((name) => !isLabelKey(name));
  if (key !== undefined) return { message: `{name} must have keys of ${KEY_RULE}, got ${show(key)}` };
  const isValid = (each: unknown) => isLabelValue(each) || (allowsNull && each === null);
  const wrong = names.find((name) => !isValid(Reflect.get(value, name)));
  return wrong === undefined ? undefined : { message: `must be ${VALUE_RULE}`, path: [wrong] };
}

// Not a `z.record`, because that creates an issue for each invalid entry, and drops `__proto__` silently.
function labelObject(allowsNull: boolean) {
  return z
    .unknown()
    .superRefine((value, context) => {
      const problem = value === null || value === undefined ? undefined : findProblem(value, allowsNull);
      if (problem !== undefined) context.addIssue({ code: 'custom', ...problem });
    })
    .meta({
      type: 'object',
      maxProperties: MAX_LABELS,
      propertyNames: { type: 'string', pattern: KEY.source },
      additionalProperties: {
        type: allowsNull ? ['string', 'null'] : 'string',
        pattern: VALUE.source,
      } as never,
    });
}

/** The labels of an object, by key. For an optional field wrap it in `optional`. */
export const labels = labelObject(false) as unknown as z.ZodType<Labels, Labels>;

/** A change of labels: a string sets a label, null removes it, others stay. */
export const labelChanges = labelObject(true) as unknown as z.ZodType<
  Readonly<Record<string, string | null>>,
  Readonly<Record<string, string | null>>
>;

/** Labels in answers. */
export const shownLabels = z.record(z.string(), z.string()).describe('labels').optional();

const NAME_ERROR =
  'must be a name of at most 63 lower-case letters, digits and -, with a letter or digit at both ends';

/** The name of a sandbox or snapshot. */
export const objectName = text(NAME_ERROR, new RegExp(`^${DNS_LABEL}$`));

/** `key=value` or `key`. Undefined if it is neither. */
export function parseLabelFilter(word: string): LabelFilter | undefined {
  const at = word.indexOf('=');
  if (at === -1) return isLabelKey(word) ? { key: word } : undefined;
  const key = word.slice(0, at);
  const value = word.slice(at + 1);
  return isLabelKey(key) && isLabelValue(value) ? { key, value } : undefined;
}

const FILTER_ERROR =
  `query {name} must be key=value or key, at most ${MAX_LABEL_FILTERS} of them; a key has ${KEY_RULE}; ` +
  `a value is ${VALUE_RULE}; got {value}`;

/**
 * The parameter `label` of a list. It may be repeated: the server joins repeated parameters by commas, which no key or
 * value has. Undefined if it is absent.
 */
export const labelFilter = z
  .string()
  .optional()
  .transform((joined, context): readonly LabelFilter[] | undefined => {
    if (joined === undefined || joined === '') return undefined;
    const words = joined.split(',', MAX_LABEL_FILTERS + 1);
    const filters = words.map(parseLabelFilter).filter((filter) => filter !== undefined);
    if (words.length <= MAX_LABEL_FILTERS && filters.length === words.length) return filters;
    context.addIssue({ code: 'custom', message: FILTER_ERROR });
    return z.NEVER;
  })
  .meta({
    // Marks a parameter that may be repeated.
    type: 'array',
    items: { type: 'string' },
    maxItems: MAX_LABEL_FILTERS,
    description:
      'only entries with this label: key=value, or key alone; repeated: entries that match all of them',
  });
