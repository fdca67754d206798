// Stored secrets of the tenant of the client.
import { tenantOf } from '../../keys/index.ts';
import type { SandboxInfo } from '../../sandboxes/types.ts';
import type { SecretInfo } from '../../secrets/index.ts';
import type { HttpContext } from '../context.ts';
import { toPage } from '../input/page.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';

export function secretHandlers({ secrets, sandboxes: host }: HttpServices) {
  const scopeOf = (c: HttpContext): string => tenantOf(c.get('principal')) ?? '';
  /** Of sandboxes that the client may see, which those of its tenant are. */
  const usersIn = (c: HttpContext, scope: string) => {
    const all = host.as(c.get('principal')).list();
    return (name: string): string[] => all.filter(uses(scope, name)).map(({ id }) => id);
  };
  return {
    listSecrets: ({ query }, c) => {
      const scope = scopeOf(c);
      const all = secrets.list(scope);
      const { entries, next } = toPage(all, ({ createdAtMs, name }) => ({ atMs: createdAtMs, name }), query);
      const usersOf = usersIn(c, scope);
      return { secrets: entries.map((each) => toSecretBody(each, usersOf(each.name))), ...next };
    },

    getSecret: ({ params: { name } }, c) => {
      const scope = scopeOf(c);
      return toSecretBody(secrets.get(scope, name), usersIn(c, scope)(name));
    },

    putSecret: async ({ params: { name }, body }, c) => {
      const scope = scopeOf(c);
      const principal = c.get('principal');
      const { hosts, source } = body;
      const audit = c.get('audit');
      audit.effective = { secret: name, hosts };
      // Who changes a secret decides where its value goes.
      host.as(principal).admitSecret({ name, hosts, use: name });
      const { isNew, ...stored } = await secrets.put(scope, name, body);
      // Not before: a source that does not exist may be a value in the wrong field.
      audit.effective = {
        ...audit.effective,
        ...(source && { source }),
        change: isNew ? 'created' : 'changed',
      };
      return toSecretBody(stored, usersIn(c, scope)(name));
    },

    deleteSecret: async ({ params: { name } }, c) => {
      c.get('audit').effective = { secret: name };
      host.as(c.get('principal')).admitSecret({ name, hosts: [], use: name });
      await secrets.remove(scopeOf(c), name);
      return undefined;
    },
  } satisfies Partial<Handlers>;
}

function uses(scope: string, name: string) {
  return ({ storedSecrets = [] }: SandboxInfo): boolean =>
    storedSecrets.some((used) => used.scope === scope && used.name === name);
}

function toSecretBody(
  { name, hosts, source, digest, createdAtMs, changedAtMs, use }: SecretInfo,
  users: string[],
) {
  return {
    name,
    hosts: [...hosts],
    ...(source && { source }),
    ...(digest !== undefined && { digest }),
    created_at: new Date(createdAtMs).toISOString(),
    changed_at: new Date(changedAtMs).toISOString(),
    used_by: users,
    uses: use?.count ?? 0,
    ...(use && { last_used_at: new Date(use.lastAtMs).toISOString() }),
  };
}
