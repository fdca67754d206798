// Liveness, profiles, and what the caller may do.
import { healthResponse, profilesResponse, whoamiResponse } from '../schemas/meta.ts';
import { json, type Route } from './route.ts';

export const metaRoutes = {
  health: {
    method: 'GET',
    path: '/healthz',
    tag: 'meta',
    summary: 'Say that the daemon answers',
    access: 'public',
    answers: [{ status: 200, description: 'always', content: json(healthResponse) }],
  },
  listProfiles: {
    method: 'GET',
    path: '/profiles',
    tag: 'meta',
    summary: 'List the root filesystems that sandboxes can boot from',
    access: 'read',
    answers: [
      { status: 200, description: 'the profiles, and what runs them', content: json(profilesResponse) },
    ],
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
  },
} as const satisfies Record<string, Route>;
