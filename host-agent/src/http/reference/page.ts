// The API reference as an HTML page, rendered from the OpenAPI document. It has no scripts and loads no resources.
import { createHash } from 'node:crypto';
import type { DocumentedAnswer, DocumentedOperation, JsonSchema, OpenApiDocument } from '@sandboxd/api';
import { html, raw } from 'hono/html';

// The style of the page, light or dark by the reader's preference.
const STYLE = `
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; display: flex; }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; flex: 0 0 13rem; padding: 1rem; box-sizing: border-box; border-right: 1px solid var(--line); }
nav ul { margin: 0 0 .6rem; padding-left: 1rem; list-style: none; font-size: 13px; }
main { padding: 1rem 2rem; max-width: 62rem; min-width: 0; }
section { border-top: 1px solid var(--line); padding: .4rem 0 1rem; }
h3 b { font: bold 13px ui-monospace, monospace; padding: .1rem .4rem; border-radius: 3px; color: #fff; background: #467; }
h3 b.post { background: #375; } h3 b.delete { background: #933; } h3 b.put { background: #963; }
table { border-collapse: collapse; margin: .5rem 0; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--soft); font-size: 14px; }
code, pre { font: 13px/1.4 ui-monospace, monospace; } pre { background: var(--soft); padding: .6rem; overflow: auto; }
.notes { opacity: .7; } a { color: inherit; }
@media (max-width: 50rem) { body { display: block; } nav { position: static; height: auto; } }
`;

/** The Content-Security-Policy: allows only the style of this page. */
export const REFERENCE_POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

type Entry = { readonly method: string; readonly path: string; readonly operation: DocumentedOperation };

export function renderReference(document: OpenApiDocument): string {
  const entries = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
  const { title, version, description } = document.info;
  const page = html`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} ${version}</title><style>${raw(STYLE)}</style></head>
<body>
<nav>${document.tags.map(({ name }) => renderContents(name, entries))}<a href="#schemas">schemas</a></nav>
<main>
<h1>${title} <small>interface ${version} · <a href="openapi.json">openapi.json</a></small></h1>
${renderText(String(description))}
${document.tags.map(
  (tag) => html`<h2 id="tag-${tag.name}">${tag.name}</h2><p>${tag.description}</p>
${entries.filter(({ operation }) => operation.tags.includes(tag.name)).map(renderEntry)}`,
)}
<h2 id="schemas">schemas</h2>
${Object.entries(document.components.schemas).map(renderSchema)}
</main>
</body>
</html>
`;
  return String(page);
}

function renderContents(tag: string, entries: readonly Entry[]): Html {
  return html`<a href="#tag-${tag}">${tag}</a>
<ul>${entries
    .filter(({ operation }) => operation.tags.includes(tag))
    .map(
      ({ operation }) =>
        html`<li><a href="#${operation.operationId}" title="${operation.summary}">${operation.operationId}</a></li>`,
    )}</ul>`;
}

function renderEntry({ method, path, operation }: Entry): Html {
  const { operationId, summary, description, parameters = [], requestBody, responses } = operation;
  const answers = Object.entries(responses);
  const first = (requestBody ?? operation['x-first-message']) as DocumentedOperation['requestBody'];
  return html`<section id="${operationId}">
<h3><b class="${method.toLowerCase()}">${method}</b> <code>${path}</code></h3>
<p><strong>${summary}.</strong> ${description ?? ''} ${renderNotes(operation)}</p>
${renderFields(
  'parameters',
  parameters.map(({ name, in: place, required, schema, description: text }) => ({
    name: place === 'query' ? `?${name}` : place === 'header' ? `${name}:` : name,
    isRequired: required,
    schema: text === undefined ? schema : { ...schema, description: text },
  })),
)}
${first === undefined ? '' : renderBody(requestBody === undefined ? 'first message' : 'body', first)}
<table><tr><th>status</th><th>when</th><th>what</th></tr>
${answers.map(([status, answer]) => renderAnswer(status, answer))}</table>
${renderExample(answers)}
</section>`;
}

function renderNotes(operation: DocumentedOperation): Html {
  const also = operation['x-also-needs'] as { operation: string; when: string } | undefined;
  return html`<span class="notes">${operation['x-access'] === 'public' ? 'Needs no key.' : ''}
${operation['x-experimental'] ? 'May change.' : ''}
${also ? `A policy must allow ${also.operation} as well when ${also.when}.` : ''}</span>`;
}

function renderBody(
  name: string,
  { content, description }: NonNullable<DocumentedOperation['requestBody']>,
): Html {
  return html`${Object.entries(content).map(
    ([type, { schema, example }]) =>
      html`<p>${name}: ${type}${schema ? html`, ${toType(schema)}` : ''}${description ? `, ${description}` : ''}</p>
${example === undefined ? '' : html`<pre>${JSON.stringify(example, null, 2)}</pre>`}`,
  )}`;
}

function renderAnswer(status: string, { description, content = {} }: DocumentedAnswer): Html {
  return html`<tr><td>${status}</td><td>${description}</td><td>${Object.entries(content).map(
    ([type, { schema }]) => html`${schema ? toType(schema) : ''} <small>${type}</small> `,
  )}</td></tr>
`;
}

function renderExample(answers: readonly (readonly [string, DocumentedAnswer])[]): Html {
  return html`${answers.flatMap(([status, { content = {} }]) =>
    Object.values(content).flatMap(({ example }) =>
      example === undefined ? [] : [html`<p>${status}</p><pre>${JSON.stringify(example, null, 2)}</pre>`],
    ),
  )}`;
}

function renderSchema([name, schema]: [string, JsonSchema]): Html {
  const { description, 'x-rules': rules = [] } = schema as JsonSchema & { 'x-rules'?: readonly string[] };
  const fields = toFields(schema);
  return html`<section id="${name}"><h3>${name}</h3><p>${description ?? ''}</p>
${fields.length > 0 ? renderFields('fields', fields) : html`<p>${toType(schema)}</p>`}
${rules.map((rule) => html`<p>Rule: ${rule}.</p>`)}</section>`;
}

function renderFields(title: string, fields: readonly Field[]): Html | string {
  if (fields.length === 0) return '';
  return html`<table><tr><th>${title}</th><th>type</th><th>default</th><th></th></tr>
${fields.map(
  ({ name, isRequired, schema }) => html`<tr><td><code>${name}</code>${isRequired ? ' *' : ''}</td>
<td>${toType(schema)}</td><td>${toDefault(schema)}</td><td>${schema.description ?? ''}</td></tr>
`,
)}</table>`;
}

/** Renders paragraphs, and code between backquotes. */
function renderText(text: string): Html {
  const paragraphs = text.split('\n\n').map((paragraph) => paragraph.split('`'));
  return html`${paragraphs.map(
    (parts) => html`<p>${parts.map((part, at) => (at % 2 === 1 ? html`<code>${part}</code>` : part))}</p>`,
  )}`;
}

// Short descriptions of schemas for table cells.
type Html = ReturnType<typeof html>;

type Field = { readonly name: string; readonly isRequired: boolean; readonly schema: JsonSchema };

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

function join(parts: readonly Html[], between: string): Html {
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
