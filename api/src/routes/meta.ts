// Liveness, profiles, and what the caller may do.
import { healthResponse, openApiDocument, profilesResponse, whoamiResponse } from '../schemas/meta.ts';
import { json, type Route } from './route.ts';

export const metaRoutes = {
  health: {
    method: 'GET',
    path: '/healthz',
    tag: 'meta',
    summary: 'Say that the daemon answers',
    access: 'public',
    answers: [{ status: 200, description: 'always', content: json(healthResponse) }],
    example: { answer: { status: 'ok', version: '0.1.0' } },
  },
  listProfiles: {
    method: 'GET',
    path: '/profiles',
    tag: 'meta',
    summary: 'List the root filesystems that sandboxes can boot from',
    access: 'view',
    answers: [
      { status: 200, description: 'the profiles, and what runs them', content: json(profilesResponse) },
    ],
    example: { answer: { profiles: ['base'], default: 'base' } },
  },
  whoami: {
    method: 'GET',
    path: '/whoami',
    tag: 'meta',
    summary: 'Say what the caller may do',
    access: 'any-key',
    answers: [
      { status: 200, description: 'the policy of the key, if it has one', content: json(whoamiResponse) },
    ],
    example: { answer: { scoped: false } },
  },
  readMetrics: {
    method: 'GET',
    path: '/metrics',
    tag: 'meta',
    summary: 'Read the numbers that the daemon keeps of itself, for Prometheus',
    description: 'Of the whole host: a key of a tenant is refused.',
    access: 'metrics',
    answers: [
      {
        status: 200,
        description: 'an OpenMetrics exposition',
        content: { 'application/openmetrics-text': { kind: 'bytes' } },
      },
    ],
    errors: { 501: 'this daemon keeps no metrics' },
    example: {},
  },
  describe: {
    method: 'GET',
    path: '/openapi.json',
    tag: 'meta',
    summary: 'Describe this interface',
    description: 'With the bounds of the interface; those of this daemon may be narrower.',
    access: 'public',
    answers: [{ status: 200, description: 'an OpenAPI 3.1 document', content: json(openApiDocument) }],
    example: {},
  },
  showReference: {
    method: 'GET',
    path: '/docs',
    tag: 'meta',
    summary: 'Show this interface as a page to read',
    access: 'public',
    answers: [
      {
        status: 200,
        description: 'a page that loads nothing else',
        content: { 'text/html': { kind: 'bytes' } },
        headers: { 'Content-Security-Policy': 'forbids whatever is not in the page' },
      },
    ],
    example: {},
  },
} as const satisfies Record<string, Route>;
