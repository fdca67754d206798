// Hosts of the fleet.
import { hostList } from '../schemas/host.ts';
import { json, type Route } from './route.ts';

export const hostRoutes = {
  listHosts: {
    method: 'GET',
    path: '/hosts',
    tag: 'meta',
    summary: 'List the hosts of the fleet',
    description:
      'The gateway of a fleet lists all hosts, also those that do not answer; a daemon alone lists itself. What a host ' +
      'has is of all tenants, so the key of a tenant is refused.',
    access: 'metrics',
    answers: [{ status: 200, description: 'the hosts', content: json(hostList) }],
    example: {
      answer: {
        hosts: [
          {
            name: 'h0',
            state: 'ready',
            version: '0.1.0',
            engine: 'chosen',
            engine_name: 'memory',
            cpus: 64,
            memory_bytes: 270_582_939_648,
            memory_promised_bytes: 34_359_738_368,
            sandboxes: 64,
            max_sandboxes: 1000,
          },
        ],
      },
    },
  },
} as const satisfies Record<string, Route>;
