// Finds fields that a schema does not have. Existing clients may send them, so by default they cause a warning, not an
// error.
import { z } from 'zod';
import { MAX_FOUND_PROBLEMS, MAX_PROBLEMS } from '../limits.ts';
import { suggest } from '../suggest.ts';
import { toStep } from './shown.ts';

/** A longer name is not a typing error of a known one, and the cost of a comparison is the product of both lengths. */
const MAX_COMPARED_CHARS = 40;
/** Shortest first word that makes two names similar: `env` is long enough, `io` is not. */
const MIN_STEM_CHARS = 3;

/** An unknown field, its parent, and the known fields of that parent. */
type Unknown = { readonly parent: string; readonly name: string; readonly known: readonly string[] };

/** A sentence for each of the first unknown fields of a body, nested ones included, and the number of further ones. */
export function findUnknownFields(schema: z.ZodType, body: unknown): readonly string[] {
  const unknown: Unknown[] = [];
  const more = collect(schema, body, '', unknown);
  if (unknown.length === 0) return [];
  const paths = pathsOf(schema, '');
  return withMore(
    unknown.map(
      (each) =>
        `unknown field ${each.parent}${toStep(each.name, each.parent === '')}${suggestField(each, paths)}`,
    ),
    more,
    'fields',
  );
}

/** The same for query parameters, which are not nested. */
export function findUnknownParameters(known: readonly string[], names: readonly string[]): readonly string[] {
  const unknown = names.filter((name) => !known.includes(name));
  const shown = unknown.slice(0, MAX_PROBLEMS);
  return withMore(
    shown.map(
      (name) =>
        `unknown query parameter ${toStep(name, true)}${suggestField({ parent: '', name, known }, [])}`,
    ),
    unknown.length - shown.length,
    'query parameters',
  );
}

/** Adds up to MAX_PROBLEMS unknown fields to `found` and returns the number of further ones. */
function collect(schema: z.core.$ZodType, value: unknown, path: string, found: Unknown[]): number {
  const inner = unwrap(schema);
  let more = 0;
  if (inner instanceof z.ZodArray && Array.isArray(value)) {
    // Every list of objects has a lower limit than this, so a longer list is refused elsewhere.
    for (const [at, each] of value.slice(0, MAX_FOUND_PROBLEMS).entries())
      more += collect(inner.element, each, `${path}[${at}]`, found);
  }
  if (!(inner instanceof z.ZodObject) || typeof value !== 'object' || value === null || Array.isArray(value))
    return more;
  // A strict schema refuses unknown fields itself.
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

/**
 * The schema inside optional, nullable and transformed ones. A free-form value, such as an environment, has no fields.
 */
function unwrap(schema: z.core.$ZodType): z.core.$ZodType {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) return unwrap(schema.unwrap());
  return schema instanceof z.ZodPipe ? unwrap(schema.in) : schema;
}

/** The dotted paths of all fields outside of lists. */
function pathsOf(schema: z.core.$ZodType, path: string): readonly string[] {
  const inner = unwrap(schema);
  if (!(inner instanceof z.ZodObject)) return [];
  return Object.entries<z.core.$ZodType>(inner.shape).flatMap(([name, field]) => {
    const fieldPath = `${path}${toStep(name, path === '')}`;
    return [fieldPath, ...pathsOf(field, fieldPath)];
  });
}

/** Suggests a similar name, the same name elsewhere in the body, or the only name with the same first word. */
function suggestField({ parent, name, known }: Unknown, paths: readonly string[]): string {
  if (name.length > MAX_COMPARED_CHARS) return '';
  const word = name.toLowerCase();
  const prefix = parent === '' ? '' : `${parent}.`;
  const similar = suggest(word, known, prefix);
  if (similar !== '') return similar;
  const [path] = paths.filter((each) => each.split('.').at(-1) === word);
  if (path !== undefined) return `; did you mean ${path}?`;
  const [stem = ''] = word.split('_', 1);
  const alike = known.filter((each) => stem.length >= MIN_STEM_CHARS && each.split('_', 1)[0] === stem);
  return alike.length === 1 ? `; did you mean ${prefix}${alike[0]}?` : '';
}

function withMore(sentences: readonly string[], more: number, what: string): readonly string[] {
  return more > 0 ? [...sentences, `and ${more} more unknown ${what}`] : sentences;
}
