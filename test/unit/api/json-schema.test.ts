// Every schema of the table becomes JSON Schema, and the JSON Schema says what the schema does.
import { type JsonSchema, ROUTES, type Route, toJsonSchema } from '@sandboxd/api';
import t from 'tap';
import { z } from 'zod';
import { POOL, refuse } from './support/ask.ts';

const routes: readonly (readonly [string, Route])[] = Object.entries(ROUTES);

/** Everything that a route has a schema for. */
const schemas = routes.flatMap(([name, route]) => {
  const { params, query, body } = route;
  const contents = route.answers.flatMap(({ content = {} }) => Object.values(content));
  return [
    ...(params ? [[`${name} params`, params] as const] : []),
    ...(query ? [[`${name} query`, query] as const] : []),
    ...(body?.kind === 'json' ? [[`${name} body`, body.schema] as const] : []),
    ...contents.flatMap((content) =>
      content.kind === 'json' ? [[`${name} answer`, content.schema] as const] : [],
    ),
  ];
});

/** Problems of which JSON Schema knows only the sentence in `x-rules`. */
const RULES =
  /name a program first|max_retries unless|non-empty allowlist|must be true where|exactly one of|exclude each other|must not repeat|count 1|for keep_last or|service\.cmd must be a non-empty|must be given, or (?:source|use), and not both/;

t.test('every schema can be described, and each field of it says what it is', (t) => {
  t.ok(schemas.length > 40);
  for (const [name, schema] of schemas) {
    const described = toJsonSchema(schema);
    t.same(undescribed(described), [], name);
    t.equal(described.type ?? (described.oneOf && 'object'), 'object', name);
  }
  t.end();
});

t.test('a body is taken by its JSON Schema if and only if the schema takes it, rules in words apart', (t) => {
  let [taken, refused] = [0, 0];
  for (const [name, { body }] of routes) {
    if (body?.kind !== 'json') continue;
    const described = toJsonSchema(body.schema);
    const again = z.fromJSONSchema(described as Parameters<typeof z.fromJSONSchema>[0]);
    const required = { cmd: ['x'], ref: 'nginx' };
    const base = Object.fromEntries(
      (described.required ?? []).map((field) => [field, Reflect.get(required, field)]),
    );
    for (const field of Object.keys(described.properties ?? {})) {
      for (const value of POOL) {
        const input = { ...base, [field]: value };
        const problem = refuse(body.schema, input);
        const isTaken = again.safeParse(input).success;
        if (problem === '') taken++;
        else refused++;
        if (isTaken === (problem === '') || (isTaken && RULES.test(problem))) continue;
        t.fail(
          `${name}: ${JSON.stringify(input)}: JSON Schema ${isTaken ? 'takes' : 'refuses'} it; ${problem}`,
        );
      }
    }
  }
  t.ok(taken > 100 && refused > 1000, `${taken} taken, ${refused} refused`);
  t.end();
});

t.test('bounds, defaults and rules are in it', (t) => {
  const body = (name: 'createSandbox' | 'exec' | 'configureService' | 'forkSnapshot') =>
    toJsonSchema(ROUTES[name].body.schema);
  const create = body('createSandbox');
  t.match(create.properties, {
    vcpus: { default: 1, anyOf: [{ minimum: 0, maximum: 32 }, { type: 'null' }] },
    memory_mib: { default: 512, anyOf: [{ anyOf: [{ const: 0 }, { minimum: 128, maximum: 65_536 }] }, {}] },
    disk_bytes: { default: 4 * 2 ** 30, anyOf: [{ anyOf: [{ const: 0 }, { minimum: 64 * 2 ** 20 }] }, {}] },
    timeout_s: { default: 0 },
    pull: { default: 'missing', anyOf: [{ enum: ['missing', 'always', 'never', ''] }, {}] },
    publish: { default: [] },
  });
  t.same(create.required, undefined);
  t.same(create['x-rules'], [
    'profile and image exclude each other',
    'keep_last and snapshot_expires_s need an idle_timeout_s and the idle_action snapshot',
    'if_exists return needs a name',
    'a service needs a cmd unless an image has one',
  ]);
  t.match(body('exec'), {
    required: ['cmd'],
    properties: { cmd: { minItems: 1 }, timeout_s: { default: 0 } },
  });
  t.match(body('configureService').properties, {
    stop_signal: { default: 'SIGTERM' },
    stop_grace_s: { default: 10 },
    log_buffer_bytes: { default: 2 ** 21, anyOf: [{ maximum: 2 ** 24 }, {}] },
    restart: { default: { policy: 'never', max_retries: 0 } },
  });
  t.match(toJsonSchema(ROUTES.readFile.query), {
    required: ['path'],
    properties: {
      max_bytes: { type: 'integer', minimum: 1, default: 10 * 2 ** 20 },
      format: { default: 'raw' },
    },
  });
  t.match(toJsonSchema(ROUTES.readLogs.query).properties, {
    since: { minimum: -1, default: -1 },
    source: { default: 'all' },
  });
  t.match(toJsonSchema(ROUTES.forkSnapshot.query).properties, {
    count: { minimum: 1, maximum: 64, default: 1 },
  });
  t.end();
});

t.test('every check beyond the words of JSON Schema is described by a pattern or a rule', (t) => {
  let count = 0;
  for (const [name, schema] of schemas) {
    visit(schema, (part) => {
      const checks = part._zod.def.checks ?? [];
      const own = checks.filter((check) => check._zod.def.check === 'custom').length;
      const meta = z.globalRegistry.get(part) ?? {};
      if (own === 0) return;
      count++;
      const said =
        (meta['x-rules']?.length ?? 0) +
        ['pattern', 'allOf', 'anyOf', 'propertyNames', 'items'].filter((key) => key in meta).length;
      t.ok(said >= own, `${name}: ${own} checks, ${said} described`);
    });
  }
  t.ok(count > 20, `${count} schemas with checks`);
  t.end();
});

/** Paths of fields without a description. */
function undescribed(schema: JsonSchema, path = ''): string[] {
  const found: string[] = [];
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const at = `${path}.${name}`;
    if (typeof field === 'boolean' || field.description === undefined) found.push(at);
  }
  const { properties = {}, items, additionalProperties, anyOf = [], oneOf = [] } = schema;
  const parts = [...Object.entries(properties), ['[]', items], ['{}', additionalProperties]] as const;
  for (const [name, part] of [...parts, ...[...anyOf, ...oneOf].map((part) => ['|', part] as const)]) {
    if (typeof part === 'object' && !Array.isArray(part))
      found.push(...undescribed(part as JsonSchema, `${path}.${name}`));
  }
  return found;
}

/** Every schema within a schema. */
function visit(schema: z.core.$ZodType, see: (part: z.core.$ZodType) => void): void {
  see(schema);
  for (const part of Object.values(schema._zod.def)) {
    const inner = typeof part === 'object' && part !== null ? [part, ...Object.values(part)] : [];
    for (const value of inner) if (isSchema(value)) visit(value, see);
  }
}

function isSchema(value: unknown): value is z.core.$ZodType {
  return typeof value === 'object' && value !== null && '_zod' in value && 'safeParse' in value;
}
