// Health check, profiles, rights of the caller, metrics, and the description of the API.
import { type Routes, toOpenApi } from '@sandboxd/api';
import { type KeyHolder, type LimitUse, type Principal, policyOf, tenantOf } from '../../keys/index.ts';
import { AppError } from '../../lib/errors.ts';
import { worstOf } from '../../lib/findings.ts';
import { VERSION } from '../../lib/version.ts';
import { REFERENCE_POLICY, renderReference } from '../reference/page.ts';
import type { Handler, Handlers } from '../serve-routes.ts';
import type { HostReport, HttpServices, ProfileInfo } from '../services.ts';

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
      const policy = policyOf(principal);
      const tenant = tenantOf(principal);
      const about = principal.kind === 'key' ? toCallerBody(principal, services.limitUse(principal)) : {};
      return policy === undefined && tenant === undefined
        ? { scoped: false, ...about }
        : { scoped: true, policy: policy ?? {}, ...(tenant !== undefined && { tenant }), ...about };
    },

    checkHost: async (_, c) => {
      const principal = c.get('principal');
      assertOperator(principal, 'the checks of the host');
      return toAllowedChecks(await services.checkHost(), policyOf(principal) !== undefined);
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

function toCallerBody({ key, tenant, expiresAtMs }: KeyHolder, usage: readonly LimitUse[]) {
  const expires = expiresAtMs === undefined ? {} : { expires_at: new Date(expiresAtMs).toISOString() };
  return { key: { name: key, ...(tenant !== undefined && { tenant }), ...expires }, usage: [...usage] };
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

/** A key with a policy, such as that of Prometheus, learns nothing of other keys and of how the daemon is guarded. */
function toAllowedChecks(report: HostReport, hasPolicy: boolean): HostReport {
  if (!hasPolicy) return report;
  const groups = report.groups.filter(({ group }) => group !== 'keys' && group !== 'settings');
  return { ...report, groups, worst: worstOf(groups) };
}

/** AppError forbidden for the key of a tenant. `what`: a plural. */
function assertOperator(principal: Principal, what: string): void {
  const tenant = tenantOf(principal);
  if (tenant === undefined) return;
  const message = `${what} are of all tenants together, so a key of tenant ${tenant} has none; use a key without a tenant`;
  throw new AppError('forbidden', message);
}

// The metrics of the daemon.
/** AppError forbidden for the key of a tenant, because the metrics cover all tenants. */
function metricsHandler(metrics: HttpServices['metrics']): Handler<Routes['readMetrics']> {
  return async (_, c) => {
    assertOperator(c.get('principal'), 'metrics');
    return c.body(await metrics.render(), 200, { 'Content-Type': metrics.contentType });
  };
}
