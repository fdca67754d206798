// Health check, profiles, rights of the caller, metrics, and the description of the API.
import { toOpenApi } from '@sandboxd/api';
import { VERSION } from '../../lib/version.ts';
import { REFERENCE_POLICY, renderReference } from '../reference/page.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices, ProfileInfo } from '../services.ts';
import { metricsHandler } from './metrics.ts';

export function metaHandlers(services: HttpServices) {
  return {
    health: () => ({ status: 'ok', version: VERSION, engine: services.engine().state }),

    listProfiles: async () => {
      const profiles = await services.listProfiles();
      const engine = services.engine();
      const all = [...profiles, ...(await services.listUnbakedProfiles())];
      const fallback = all.find(({ isDefault }) => isDefault);
      return {
        profiles: all.map(({ name }) => name).sort(),
        ...(fallback ? { default: fallback.name } : {}),
        details: Object.fromEntries(profiles.map((profile) => [profile.name, toDetailsBody(profile)])),
        engine,
      };
    },

    // A key with only a tenant has all rights to the resources of that tenant and none to others.
    whoami: (_, c) => {
      const principal = c.get('principal');
      return principal.policy === undefined && principal.tenant === undefined
        ? { scoped: false }
        : { scoped: true, policy: principal.policy ?? {} };
    },

    readMetrics: metricsHandler(services.metrics),

    describe: (_, c) => c.body(describe().json, 200, { 'Content-Type': 'application/json' }),

    showReference: (_, c) =>
      c.body(describe().page, 200, {
        'Content-Type': 'text/html; charset=utf-8',
        'Content-Security-Policy': REFERENCE_POLICY,
        'X-Content-Type-Options': 'nosniff',
        'Referrer-Policy': 'no-referrer',
      }),
  } satisfies Partial<Handlers>;
}

function toDetailsBody(profile: ProfileInfo) {
  return {
    digest: profile.digest,
    size_bytes: profile.sizeBytes,
    workdir: profile.workdir,
    env: profile.env,
    packages: profile.packages,
  };
}

type Description = { readonly json: string; readonly page: string };
let description: Description | undefined;

/** Built at the first request. */
function describe(): Description {
  if (description !== undefined) return description;
  const document = toOpenApi();
  description = { json: JSON.stringify(document), page: renderReference(document) };
  return description;
}
