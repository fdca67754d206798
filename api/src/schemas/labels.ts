// Filters of lists, event streams and webhooks by labels.
import { z } from 'zod';
import { MAX_IMAGE_REF_CHARS, MAX_LABEL_FILTERS } from '../limits.ts';
import { isLabelKey, isLabelValue } from './label.ts';

/** Matches objects that have the key, with the value if there is one. */
export type LabelFilter = { readonly key: string; readonly value?: string };

/** `key=value` or `key`. Undefined if it is neither. */
export function parseLabelFilter(word: string): LabelFilter | undefined {
  const at = word.indexOf('=');
  if (at === -1) return isLabelKey(word) ? { key: word } : undefined;
  const key = word.slice(0, at);
  const value = word.slice(at + 1);
  return isLabelKey(key) && isLabelValue(value) ? { key, value } : undefined;
}

const FILTER_ERROR =
  `query {name} must be key=value or key in the syntax of labels, at most ${MAX_LABEL_FILTERS} of them, ` +
  'got {value}';

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

/** The parameter `name` of a list. Undefined if it is absent. */
export const nameFilter = z
  .string()
  .max(MAX_IMAGE_REF_CHARS, { error: `query {name} must have at most ${MAX_IMAGE_REF_CHARS} characters` })
  .optional()
  .transform((value) => value || undefined)
  .meta({ description: 'only the entry of this name' });
