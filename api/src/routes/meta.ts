// Health check, profiles, rights of the caller, metrics, and the description of this API.
import {
  healthResponse,
  hostChecksResponse,
  metricsQuery,
  openApiDocument,
  profilesResponse,
  whoamiResponse,
} from '../schemas/meta.ts';
import { json, type Route } from './route.ts';

export const metaRoutes = {
  health: {
    method: 'GET',
    path: '/healthz',
    tag: 'meta',
    summary: 'Check that the daemon responds',
    access: 'public',
    answers: [{ status: 200, description: 'always', content: json(healthResponse) }],
    example: { answer: { status: 'ok', version: '0.1.0', engine: 'chosen' } },
  },
  listProfiles: {
    method: 'GET',
    path: '/profiles',
    tag: 'meta',
    summary: 'List the profiles (root filesystems that sandboxes boot from)',
    access: 'view',
    answers: [{ status: 200, description: 'the profiles and the engine', content: json(profilesResponse) }],
    example: { answer: { profiles: ['base'], default: 'base' } },
  },
  whoami: {
    method: 'GET',
    path: '/whoami',
    tag: 'meta',
    summary: 'Show the rights of the caller',
    access: 'any-key',
    answers: [
      {
        status: 200,
        description: 'the policy of the key, if the key has one, and the use of its limits',
        content: json(whoamiResponse),
      },
    ],
    example: { answer: { scoped: false } },
  },
  readMetrics: {
    method: 'GET',
    path: '/metrics',
    tag: 'meta',
    summary: 'Read the metrics of the daemon in the OpenMetrics format of Prometheus',
    description: 'The metrics cover the whole host, so the daemon refuses the key of a tenant.',
    access: 'metrics',
    query: metricsQuery,
    answers: [
      {
        status: 200,
        description: 'the metrics as OpenMetrics text',
        content: { 'application/openmetrics-text': { kind: 'bytes' } },
      },
    ],
    errors: { 501: 'metrics are disabled on this daemon' },
    example: {},
  },
  checkHost: {
    method: 'GET',
    path: '/host/checks',
    tag: 'meta',
    summary: 'Check the requirements and recommendations for the host',
    description:
      'The findings are those of `sandboxd doctor --quick`, with the settings of this daemon. An answer is up to a minute old. The findings are of the whole host, so the daemon refuses the key of a tenant; a key with a policy gets none about keys and settings.',
    access: 'metrics',
    answers: [{ status: 200, description: 'the findings', content: json(hostChecksResponse) }],
    example: {
      answer: {
        checked_at: '2024-05-06T07:08:09.010Z',
        version: '0.1.0',
        worst: 'warning',
        groups: [
          {
            group: 'machine',
            findings: [
              { name: 'ksm', level: 'ok', seen: 'off' },
              {
                name: 'clock',
                level: 'warning',
                seen: 'follows no time server',
                advice: 'install chrony or systemd-timesyncd',
              },
            ],
          },
        ],
      },
    },
  },
  describe: {
    method: 'GET',
    path: '/openapi.json',
    tag: 'meta',
    summary: 'Get the OpenAPI document of this API',
    description: 'The document shows the limits of the API. The limits of this daemon may be lower.',
    access: 'public',
    answers: [{ status: 200, description: 'an OpenAPI 3.1 document', content: json(openApiDocument) }],
    example: {},
  },
  showReference: {
    method: 'GET',
    path: '/docs',
    tag: 'meta',
    summary: 'Show the API reference as an HTML page',
    access: 'public',
    answers: [
      {
        status: 200,
        description: 'a self-contained HTML page',
        content: { 'text/html': { kind: 'bytes' } },
        headers: { 'Content-Security-Policy': 'forbids scripts and external resources' },
      },
    ],
    example: {},
  },
} as const satisfies Record<string, Route>;
