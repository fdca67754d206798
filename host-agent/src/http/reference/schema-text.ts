// Short descriptions of schemas for table cells.
import type { JsonSchema } from '@sandboxd/api';
import { html, raw } from 'hono/html';

export type Html = ReturnType<typeof html>;

export type Field = { readonly name: string; readonly isRequired: boolean; readonly schema: JsonSchema };

export function toFields(schema: JsonSchema): Field[] {
  const { properties = {}, required = [] } = schema;
  return Object.entries(properties).map(([name, field]) => ({
    name,
    isRequired: required.includes(name),
    schema: typeof field === 'object' ? (field as JsonSchema) : {},
  }));
}

/** The type with its limits. */
export function toType(schema: JsonSchema): Html {
  const { $ref, enum: values, items, additionalProperties, anyOf, oneOf } = schema;
  if ($ref !== undefined) {
    const name = $ref.split('/').at(-1) ?? '';
    return html`<a href="#${name}">${name}</a>`;
  }
  const choices = (anyOf ?? oneOf)?.map((each) => each as JsonSchema).filter(({ type }) => type !== 'null');
  if (choices !== undefined) return join(choices.map(toType), ' or ');
  if (values !== undefined) return join(values.filter((value) => value !== '').map(toCode), ' · ');
  if ('const' in schema) return toCode(schema.const);
  if (schema.type === 'array') return html`array of ${toType((items ?? {}) as JsonSchema)}`;
  if (schema.type === 'object' && typeof additionalProperties === 'object' && schema.properties === undefined)
    return html`object of ${toType(additionalProperties as JsonSchema)}`;
  if (schema.type === 'object' && schema.properties !== undefined)
    return html`object: ${join(
      toFields(schema).map(({ name, schema: field }) => html`<code>${name}</code> ${toType(field)}`),
      ', ',
    )}`;
  return html`${schema.format ?? schema.type ?? 'anything'}${toRange(schema)}`;
}

export function toDefault({ default: fallback }: JsonSchema): Html | string {
  return fallback === undefined ? '' : toCode(fallback);
}

export function join(parts: readonly Html[], between: string): Html {
  return html`${parts.flatMap((part, at) => (at === 0 ? [part] : [raw(between), part]))}`;
}

function toCode(value: unknown): Html {
  return html`<code>${JSON.stringify(value)}</code>`;
}

/** The limits of a number or string. Omits those that every number has. */
function toRange({ minimum, maximum, maxLength }: JsonSchema): string {
  const isMinShown = minimum !== undefined && minimum > Number.MIN_SAFE_INTEGER;
  const isMaxShown = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER;
  if (isMinShown && isMaxShown) return `, ${minimum} to ${maximum}`;
  if (isMinShown) return `, at least ${minimum}`;
  if (isMaxShown) return `, at most ${maximum}`;
  return maxLength === undefined ? '' : `, at most ${maxLength} characters`;
}
