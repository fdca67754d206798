// Secrets: stored ones of a tenant, and those that a sandbox may use. A guest gets placeholders, and never a value.
// Messages name a field and never show what it has: it may be a value, also in the wrong place.
import { z } from 'zod';
import { integer, optional, optionalText, rule, text } from '../input/fields.ts';
import {
  MAX_PORT,
  MAX_RULE_PORTS,
  MAX_SANDBOX_SECRETS,
  MAX_SECRET_CHARS,
  MAX_SECRET_FORMS,
  MAX_SECRET_HOSTS,
  MIN_SECRET_CHARS,
} from '../limits.ts';
import { warnings, word } from './answers.ts';
import { hostPattern } from './host-pattern.ts';
import { nextCursor, pageQuery, unreachableHosts } from './page.ts';

/** Where a placeholder may become the value: `header` is any header. */
export type SecretForm =
  | 'bearer'
  | 'basic'
  | 'header'
  | 'body'
  | { readonly header: string }
  | { readonly query: string };

/** A header that the guest does not send. `format` has `{}` or `{base64:…{}…}` once. */
export type SecretInjection = { readonly header: string; readonly format: string };

export const DEFAULT_SECRET_FORMS = ['bearer', 'basic', 'header'] as const;

/** Sources of a value that are not in the registry; the operator names them. */
export const SECRET_SOURCES = ['credential', 'file', 'command'] as const;

const NAME_ERROR =
  '{name} must be a name of letters, digits, dots, dashes and underscores, at most 63, that begins with a letter or digit';
export const secretName = text(NAME_ERROR, /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/);

const VALUE_ERROR = `{name} must be ${MIN_SECRET_CHARS} to ${MAX_SECRET_CHARS} printable ASCII characters, without spaces at its ends`;
/** What a header can have. A shorter one could not be found in answers without harm to them. */
const secretValue = z
  .string({ error: VALUE_ERROR })
  .min(MIN_SECRET_CHARS, { error: VALUE_ERROR })
  .max(MAX_SECRET_CHARS, { error: VALUE_ERROR })
  .regex(/^[!-~](?:[ -~]*[!-~])?$/, { error: VALUE_ERROR })
  .meta({ writeOnly: true });

const HEADER_ERROR = '{name} must be a name of a header';
/** They frame a request, or name its receiver. */
const FORBIDDEN_HEADER =
  /^(?:host|connection|content-length|expect|keep-alive|te|trailer|transfer-encoding|upgrade|proxy-.*)$/i;
const header = rule(
  text(HEADER_ERROR, /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/),
  'not one of the connection, and not host',
  (name) => !FORBIDDEN_HEADER.test(name),
  { error: '{name} must not be a header of the connection, or host' },
);
const queryName = text('{name} must be a name of a parameter, of at most 128 characters').min(1).max(128);

const FORM_ERROR = '{name} must be bearer, basic, header, body, {"header": name} or {"query": name}';
const form = z.union(
  [
    z.enum(['bearer', 'basic', 'header', 'body'], { error: FORM_ERROR }),
    z.strictObject({ header: header.meta({ description: 'only this header' }) }, { error: FORM_ERROR }),
    z.strictObject(
      { query: queryName.meta({ description: 'only this parameter of the URL' }) },
      { error: FORM_ERROR },
    ),
  ],
  { error: FORM_ERROR },
);
const forms = z
  .array(form, { error: '{name} must be an array of forms' })
  .min(1, { error: '{name} must have a form' })
  .max(MAX_SECRET_FORMS, { error: `{name} must have at most ${MAX_SECRET_FORMS} forms` });

const FORMAT_ERROR = '{name} must be printable ASCII with {} once, or {base64:…} around it';
const injection = z.strictObject(
  {
    header: header.meta({ description: 'header that is added' }),
    format: z
      .string({ error: FORMAT_ERROR })
      .max(256, { error: FORMAT_ERROR })
      .regex(/^[^{}]*(?:\{\}|\{base64:[^{}]*\{\}[^{}]*\})[^{}]*$/, { error: FORMAT_ERROR })
      .regex(/^[!-~](?:[ -~]*[!-~])?$/, { error: FORMAT_ERROR })
      .nullish()
      .transform((value) => value ?? '{}')
      .meta({ description: 'its value: {} is the secret, {base64:user:{}} is encoded', default: '{}' }),
  },
  { error: '{name} must be an object of header and format' },
);

const secretHosts = z
  .array(hostPattern, { error: 'must be an array of host name patterns' })
  .min(1, { error: 'must name a host' })
  .max(MAX_SECRET_HOSTS, { error: `must have at most ${MAX_SECRET_HOSTS} entries` });

const PREFIX_ERROR = '{name} must be at most 32 letters, digits, dashes and underscores';
const ENV_ERROR = '{name} must be a name of a variable: letters, digits and underscores, not first a digit';
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/;
const ports = z
  .array(integer(1, MAX_PORT), { error: 'must be an array of ports' })
  .min(1, { error: 'must name a port' })
  .max(MAX_RULE_PORTS, { error: `must have at most ${MAX_RULE_PORTS} entries` });

const bindingFields = z.strictObject(
  {
    value: optional(secretValue, 'the value, for this sandbox and its copies; no answer has it'),
    use: optionalText(secretName, 'name of a stored secret, in place of a value'),
    hosts: optional(secretHosts, 'the only hosts that get the value; default: those of the stored secret'),
    ports: optional(ports, 'the only ports; default: those that the rules have for the host'),
    in: optional(
      forms,
      'where the placeholder may be; default: bearer, basic and header, which is any header',
    ),
    inject: optional(injection, 'a header that is added to each request, in place of a placeholder'),
    env: z
      .union([text(ENV_ERROR, VARIABLE), z.null()], { error: ENV_ERROR })
      .optional()
      .meta({ description: 'variable that has the placeholder; default: the key of the entry; null: none' }),
    prefix: optionalText(
      text(PREFIX_ERROR, /^[A-Za-z0-9_-]{0,32}$/),
      'how the placeholder begins, for clients that check it; default: sbxs_ and the name',
    ),
    plain_http: optional(
      z.boolean({ error: '{name} must be true or false' }),
      'whether it may be sent without TLS, where the daemon permits that',
    ),
  },
  {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? `{name} has unknown fields: ${issue.keys.join(', ')}`
        : '{name} must be an object of value or use, and hosts',
  },
);

type BindingFields = z.output<typeof bindingFields>;

export const secretBinding = bindingFields
  .superRefine((fields, context) => {
    const problem = findProblem(fields);
    if (problem !== undefined) context.addIssue({ code: 'custom', ...problem });
  })
  .meta({
    description: 'a secret that the guest can use and does not have',
    'x-rules': [
      'value or use, not both',
      'value needs hosts',
      'inject excludes in, env and prefix',
      'a header may have one injected secret for each host',
    ],
  });

/** How a client binds a secret. */
export type SecretBinding = z.output<typeof secretBinding>;

function findProblem(fields: BindingFields): { message: string; path: string[] } | undefined {
  const { value, use, hosts, inject, env, prefix } = fields;
  if ((value === undefined) === (use === undefined))
    return { message: '{name} must be given, or use, and not both', path: ['value'] };
  if (value !== undefined && hosts === undefined)
    return { message: '{name} must name the hosts that get the value', path: ['hosts'] };
  if (inject === undefined) return undefined;
  const extra = Object.entries({ in: fields.in, env: env ?? undefined, prefix }).find(
    ([, each]) => each !== undefined,
  );
  return (
    extra && {
      message: '{name} must be absent with inject, because the guest has no placeholder',
      path: [extra[0]],
    }
  );
}

const MAP_ERROR = '{name} must be an object of secrets by name';
const COUNT_ERROR = `{name} must have at most ${MAX_SANDBOX_SECRETS} secrets`;
const bindingKey = text(ENV_ERROR, VARIABLE);

/** Bindings by name. */
export const secretBindings = rule(
  z.record(bindingKey, secretBinding, { error: MAP_ERROR }),
  `at most ${MAX_SANDBOX_SECRETS} secrets`,
  (map) => Object.keys(map).length <= MAX_SANDBOX_SECRETS,
  { error: COUNT_ERROR },
);

/** Null removes one. */
export const secretChanges = rule(
  z.record(bindingKey, secretBinding.nullable(), { error: MAP_ERROR }),
  `at most ${2 * MAX_SANDBOX_SECRETS} entries`,
  (map) => Object.keys(map).length <= 2 * MAX_SANDBOX_SECRETS,
  { error: COUNT_ERROR },
);

const shownForm = z
  .union([
    z.enum(['bearer', 'basic', 'header', 'body']),
    z.object({ header: word('name of a header') }),
    z.object({ query: word('name of a parameter') }),
  ])
  .describe('a form');

export const boundSecret = z
  .object({
    name: word('name'),
    use: word('the stored secret; absent: a value of its own').optional(),
    hosts: z.array(word('a host')).describe('the only hosts that get the value'),
    ports: z.array(z.int()).describe('the only ports; absent: those of the rules').optional(),
    in: z.array(shownForm).describe('where the placeholder may be').optional(),
    inject: z
      .object({ header: word('header'), format: word('its value') })
      .describe('the header that is added')
      .optional(),
    env: word('variable that has the placeholder').optional(),
    plain_http: z.literal(true).describe('it may be sent without TLS').optional(),
    has_value: z
      .boolean()
      .describe(
        'false: the stored secret was deleted, or the snapshot was imported; requests with it are refused',
      ),
  })
  .describe('a secret that the guest can use');

export const secretPath = z.object({ name: secretName.meta({ description: 'name of the secret' }) });

const source = z
  .union(
    SECRET_SOURCES.map((kind) =>
      z.strictObject({ [kind]: secretName.meta({ description: `name of a ${kind}` }) }),
    ) as unknown as readonly [z.ZodType<SecretSource>, z.ZodType<SecretSource>],
    { error: '{name} must be {"credential": name}, {"file": name} or {"command": name}' },
  )
  .meta({ description: 'where the daemon reads the value: a name that the operator gave to a source' });

export type SecretSource = { readonly [K in (typeof SECRET_SOURCES)[number]]?: string };

export const storeSecret = z
  .strictObject(
    {
      value: optional(secretValue, 'the value; no answer has it'),
      source: optional(source, 'where the value is read, in place of one'),
      hosts: secretHosts.meta({ description: 'the only hosts that get the value' }),
    },
    {
      error: (issue) =>
        issue.code === 'unrecognized_keys'
          ? `{name} has unknown fields: ${issue.keys.join(', ')}`
          : '{name} must be an object of value or source, and hosts',
    },
  )
  .superRefine((fields, context) => {
    if ((fields.value === undefined) === (fields.source === undefined))
      context.addIssue({
        code: 'custom',
        message: '{name} must be given, or source, and not both',
        path: ['value'],
      });
  })
  .meta({ description: 'a secret to store', 'x-rules': ['value or source, not both'] });

export const storedSecret = z
  .object({
    name: word('name'),
    hosts: z.array(word('a host')).describe('the only hosts that get the value'),
    source: z
      .object({
        credential: word('a credential of systemd').optional(),
        file: word('a file of the operator').optional(),
        command: word('a command of the operator').optional(),
      })
      .describe('where the value is read; absent: it is stored')
      .optional(),
    digest: word('beginning of a keyed digest of the stored value: it changes with the value').optional(),
    created_at: z.iso.datetime().describe('when it was made'),
    changed_at: z.iso.datetime().describe('when its value, source or hosts changed'),
    used_by: z.array(word('an id of a sandbox')).describe('sandboxes that may use it'),
    uses: z
      .int()
      .describe('requests that had its value, as far as gateways reported them; of an older daemon: absent')
      .optional(),
    last_used_at: z.iso.datetime().describe('when the last of them was; absent: never').optional(),
    missing_on: z
      .array(word('name of a host'))
      .describe('at the gateway of a fleet: hosts that do not have it; absent: none of those that answered')
      .optional(),
    older_on: z
      .array(word('name of a host'))
      .describe(
        'at the gateway of a fleet: hosts that may have an earlier value, as theirs was changed a minute ' +
          'before that of others or earlier; absent: none',
      )
      .optional(),
    warnings,
  })
  .describe('a stored secret');

export const secretListQuery = pageQuery;
export const secretList = z
  .object({
    secrets: z.array(storedSecret).describe('by name'),
    next_cursor: nextCursor,
    unreachable_hosts: unreachableHosts,
  })
  .describe('stored secrets');
