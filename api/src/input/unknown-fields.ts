// Names that a schema does not have. Clients that exist may send them, so they are reported and, unless asked for, not refused.
import { z } from 'zod';
import { MAX_FOUND_PROBLEMS, MAX_PROBLEMS } from '../limits.ts';
import { suggest } from '../suggest.ts';
import { toStep } from './shown.ts';

/** A longer one is no slip of a known one, and comparing it costs its length times theirs. */
const MAX_COMPARED_CHARS = 40;
/** Of a word that two names have in common: `env` is one, `io` is not. */
const MIN_STEM_CHARS = 3;

/** Where a name that is not known stands, and what is known there. */
type Unknown = { readonly parent: string; readonly name: string; readonly known: readonly string[] };

/** A sentence for each field of a body, nested ones included, that `schema` does not have: the first few, and how many more. */
export function findUnknownFields(schema: z.ZodType, body: unknown): readonly string[] {
  const unknown: Unknown[] = [];
  const more = collect(schema, body, '', unknown);
  if (unknown.length === 0) return [];
  const places = placesOf(schema, '');
  return withMore(
    unknown.map(
      (each) => `unknown field ${each.parent}${toStep(each.name, each.parent === '')}${guess(each, places)}`,
    ),
    more,
    'fields',
  );
}

/** The same of a query, whose parameters are all of one level. */
export function findUnknownParameters(known: readonly string[], names: readonly string[]): readonly string[] {
  const unknown = names.filter((name) => !known.includes(name));
  const shown = unknown.slice(0, MAX_PROBLEMS);
  return withMore(
    shown.map(
      (name) => `unknown query parameter ${toStep(name, true)}${guess({ parent: '', name, known }, [])}`,
    ),
    unknown.length - shown.length,
    'query parameters',
  );
}

/** Adds the first of them to `found`, and returns how many more there are. */
function collect(schema: z.core.$ZodType, value: unknown, path: string, found: Unknown[]): number {
  const inner = unwrap(schema);
  let more = 0;
  if (inner instanceof z.ZodArray && Array.isArray(value)) {
    // A longer list is refused, or has no fields in it.
    for (const [at, each] of value.slice(0, MAX_FOUND_PROBLEMS).entries())
      more += collect(inner.element, each, `${path}[${at}]`, found);
  }
  if (!(inner instanceof z.ZodObject) || typeof value !== 'object' || value === null || Array.isArray(value))
    return more;
  // Such a schema refuses them by itself.
  if (inner.def.catchall instanceof z.ZodNever) return more;
  const known = Object.keys(inner.shape);
  for (const name of Object.keys(value)) {
    const field = Object.hasOwn(inner.shape, name) ? inner.shape[name] : undefined;
    if (field !== undefined)
      more += collect(field, Reflect.get(value, name), `${path}${toStep(name, path === '')}`, found);
    else if (found.length < MAX_PROBLEMS) found.push({ parent: path, name, known });
    else more += 1;
  }
  return more;
}

/** What is within optional, defaulted and transformed ones. A value of free form, such as an environment, has no fields. */
function unwrap(schema: z.core.$ZodType): z.core.$ZodType {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) return unwrap(schema.unwrap());
  return schema instanceof z.ZodPipe ? unwrap(schema.in) : schema;
}

/** Every field that can be given a name in dots: not those in lists. */
function placesOf(schema: z.core.$ZodType, path: string): readonly string[] {
  const inner = unwrap(schema);
  if (!(inner instanceof z.ZodObject)) return [];
  return Object.entries<z.core.$ZodType>(inner.shape).flatMap(([name, field]) => {
    const place = `${path}${toStep(name, path === '')}`;
    return [place, ...placesOf(field, place)];
  });
}

/** A slip of the pen, the same field elsewhere in the body, or the only one that begins with the same word. */
function guess({ parent, name, known }: Unknown, places: readonly string[]): string {
  if (name.length > MAX_COMPARED_CHARS) return '';
  const word = name.toLowerCase();
  const prefix = parent === '' ? '' : `${parent}.`;
  const slip = suggest(word, known, prefix);
  if (slip !== '') return slip;
  const [place] = places.filter((each) => each.split('.').at(-1) === word);
  if (place !== undefined) return `; did you mean ${place}?`;
  const [stem = ''] = word.split('_', 1);
  const alike = known.filter((each) => stem.length >= MIN_STEM_CHARS && each.split('_', 1)[0] === stem);
  return alike.length === 1 ? `; did you mean ${prefix}${alike[0]}?` : '';
}

function withMore(sentences: readonly string[], more: number, what: string): readonly string[] {
  return more > 0 ? [...sentences, `and ${more} more unknown ${what}`] : sentences;
}
