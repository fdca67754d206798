// The API reference as an HTML page, rendered from the OpenAPI document. It has no scripts and loads no resources.
import { createHash } from 'node:crypto';
import type { DocumentedAnswer, DocumentedOperation, JsonSchema, OpenApiDocument } from '@sandboxd/api';
import { html, raw } from 'hono/html';
import { type Field, type Html, toDefault, toFields, toType } from './schema-text.ts';
import { STYLE } from './style.ts';

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
