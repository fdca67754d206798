// The page of the interface, of a small document: all that it says, and what it leaves out.
import type { JsonSchema, OpenApiDocument } from '@sandboxd/api';
import t from 'tap';
import {
  REFERENCE_POLICY,
  renderReference,
  toDefault,
  toFields,
  toType,
} from '../../../../../host-agent/src/http/reference/page.ts';

const GET = {
  operationId: 'getThing',
  tags: ['things'],
  summary: 'Shows <it>',
  description: 'All of it.',
  security: [],
  'x-access': 'public',
  'x-experimental': true,
  'x-also-needs': { operation: 'exec', when: 'it runs' },
  parameters: [
    { name: 'id', in: 'path', required: true, schema: { type: 'string', description: 'own' } },
    {
      name: 'max',
      in: 'query',
      required: false,
      schema: { type: 'integer', default: 5 },
      description: 'said',
    },
  ],
  responses: {
    200: {
      description: 'here it is',
      content: {
        'application/json': { schema: { $ref: '#/components/schemas/Thing' }, example: { a: 1 } },
        'text/plain': {},
      },
    },
    404: { description: 'it is not' },
  },
};
const POST = {
  operationId: 'makeThing',
  tags: ['others'],
  summary: 'Makes one',
  security: [],
  requestBody: {
    required: true,
    description: 'what to make',
    content: { 'application/json': { schema: { type: 'string' }, example: 'x' }, 'application/x-tar': {} },
  },
  responses: { 204: { description: 'made' } },
};
const SOCKET = {
  operationId: 'talk',
  tags: ['others', 'things'],
  summary: 'Talks',
  security: [],
  'x-access': 'exec',
  'x-first-message': { required: true, content: { 'application/json': { schema: { type: 'boolean' } } } },
  responses: {},
};
const DOCUMENT = {
  info: { title: 'It', version: '1.2', description: 'Has `code`, and more.\n\nNext <p>.' },
  tags: [
    { name: 'things', description: 'Of things.' },
    { name: 'others', description: 'Of others.' },
  ],
  paths: { '/things/{id}': { get: GET, post: POST }, '/talk': { get: SOCKET } },
  components: {
    schemas: {
      Thing: {
        type: 'object',
        description: 'A thing.',
        properties: { a: { type: 'integer', description: 'the a' }, b: true },
        required: ['a'],
        'x-rules': ['a before b'],
      },
      Plain: { type: 'string' },
    },
  },
} as unknown as OpenApiDocument;

/** Text and tags, one a line. */
const linesOf = (html: string): string[] =>
  html
    .replace(/<style>.*<\/style>/s, '')
    .split(/(<[^>]*>)/)
    .map((part) => part.trim().replace(/\s+/g, ' '))
    .filter((part) => part !== '' && !/^<\/?(?:html|head|body|meta|main|td|th)\b/.test(part));

const part = (lines: readonly string[], from: string, to: string): string =>
  lines.slice(lines.indexOf(from) + 1, lines.indexOf(to, lines.indexOf(from))).join(' ');

t.test('contents, groups and what each operation takes and gives', async (t) => {
  const page = renderReference(DOCUMENT);
  t.match(page, /^<!doctype html>\n<html lang="en">/);
  const lines = linesOf(page);
  t.equal(
    part(lines, '<nav>', '</nav>'),
    '<a href="#tag-things"> things </a> <ul> <li> <a href="#getThing" title="Shows &lt;it&gt;"> getThing </a> </li>' +
      ' <li> <a href="#talk" title="Talks"> talk </a> </li> </ul>' +
      ' <a href="#tag-others"> others </a> <ul> <li> <a href="#makeThing" title="Makes one"> makeThing </a> </li>' +
      ' <li> <a href="#talk" title="Talks"> talk </a> </li> </ul> <a href="#schemas"> schemas </a>',
  );
  t.equal(
    part(lines, '</nav>', '<h2 id="tag-things">'),
    '<h1> It <small> interface 1.2 · <a href="openapi.json"> openapi.json </a> </small> </h1>' +
      ' <p> Has <code> code </code> , and more. </p> <p> Next &lt;p&gt;. </p>',
  );
  t.equal(
    part(lines, '<h2 id="tag-things">', '<section id="talk">'),
    'things </h2> <p> Of things. </p> <section id="getThing"> <h3> <b class="get"> GET </b> <code> /things/{id} </code> </h3>' +
      ' <p> <strong> Shows &lt;it&gt;. </strong> All of it. <span class="notes"> Needs no key. May change.' +
      ' A policy must allow exec as well when it runs. </span> </p>' +
      ' <table> <tr> parameters type default </tr> <tr> <code> id </code> * string own </tr>' +
      ' <tr> <code> ?max </code> integer <code> 5 </code> said </tr> </table>' +
      ' <table> <tr> status when what </tr> <tr> 200 here it is <a href="#Thing"> Thing </a>' +
      ' <small> application/json </small> <small> text/plain </small> </tr> <tr> 404 it is not </tr> </table>' +
      ' <p> 200 </p> <pre> { &quot;a&quot;: 1 } </pre> </section>',
  );
  t.equal(
    part(lines, '<section id="talk">', '</section>'),
    '<h3> <b class="get"> GET </b> <code> /talk </code> </h3> <p> <strong> Talks. </strong> <span class="notes"> </span> </p>' +
      ' <p> first message: application/json, boolean </p> <table> <tr> status when what </tr> </table>',
  );
  t.equal(
    part(lines, '<section id="makeThing">', '</section>'),
    '<h3> <b class="post"> POST </b> <code> /things/{id} </code> </h3> <p> <strong> Makes one. </strong>' +
      ' <span class="notes"> </span> </p> <p> body: application/json, string, what to make </p>' +
      ' <pre> &quot;x&quot; </pre> <p> body: application/x-tar, what to make </p>' +
      ' <table> <tr> status when what </tr> <tr> 204 made </tr> </table>',
  );
  t.equal(
    lines.slice(lines.indexOf('<h2 id="schemas">')).join(' '),
    '<h2 id="schemas"> schemas </h2> <section id="Thing"> <h3> Thing </h3> <p> A thing. </p>' +
      ' <table> <tr> fields type default </tr> <tr> <code> a </code> * integer the a </tr>' +
      ' <tr> <code> b </code> anything </tr> </table> <p> Rule: a before b. </p> </section>' +
      ' <section id="Plain"> <h3> Plain </h3> <p> </p> <p> string </p> </section>',
  );
  t.match(REFERENCE_POLICY, /^default-src 'none'; style-src 'sha256-[^']+'; base-uri 'none'; form-action/);
});

t.test('a schema as the text of a table cell', async (t) => {
  for (const [schema, text] of [
    [{ $ref: '#/components/schemas/Thing' }, '<a href="#Thing">Thing</a>'],
    [{ anyOf: [{ type: 'string' }, { type: 'null' }, { type: 'boolean' }] }, 'string or boolean'],
    [{ oneOf: [{ type: 'string' }, { type: 'integer' }] }, 'string or integer'],
    [{ enum: ['a', '', 'b'] }, '<code>&quot;a&quot;</code> · <code>&quot;b&quot;</code>'],
    [{ const: 7 }, '<code>7</code>'],
    [{ type: 'array', items: { type: 'string' } }, 'array of string'],
    [{ type: 'array' }, 'array of anything'],
    [{ type: 'object', additionalProperties: { type: 'string' } }, 'object of string'],
    [{ type: 'object', additionalProperties: false }, 'object'],
    [{ type: 'object' }, 'object'],
    [{ type: 'string', properties: { a: {} }, additionalProperties: {} }, 'string'],
    [
      { type: 'object', properties: { a: { type: 'string' }, b: {} }, additionalProperties: {} },
      'object: <code>a</code> string, <code>b</code> anything',
    ],
    [{ type: 'string', format: 'date-time' }, 'date-time'],
    [{}, 'anything'],
    [{ type: 'integer', minimum: 0, maximum: 9 }, 'integer, 0 to 9'],
    [{ type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER }, 'integer, at least 0'],
    [{ type: 'integer', minimum: Number.MIN_SAFE_INTEGER, maximum: 9 }, 'integer, at most 9'],
    [{ type: 'integer', minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }, 'integer'],
    [{ type: 'integer', minimum: 3 }, 'integer, at least 3'],
    [{ type: 'string', maxLength: 5 }, 'string, at most 5 characters'],
  ] as const)
    t.equal(String(toType(schema as unknown as JsonSchema)), text, JSON.stringify(schema));
  t.equal(String(toDefault({ default: null })), '<code>null</code>');
  t.equal(toDefault({}), '');
  t.same(toFields({}), []);
  t.same(toFields({ properties: { a: { type: 'string' }, b: false }, required: ['b'] }), [
    { name: 'a', isRequired: false, schema: { type: 'string' } },
    { name: 'b', isRequired: true, schema: {} },
  ]);
});
