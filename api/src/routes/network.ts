// What the guest of a sandbox may reach: shown, changed while it runs, and explained.
import { egressQuery, egressRecord, egressResponse } from '../schemas/egress.ts';
import { sandboxPath } from '../schemas/id.ts';
import {
  changedNetworkPolicy,
  networkCheck,
  networkPatch,
  networkPolicy,
  networkReplacement,
  networkVerdict,
  presetList,
} from '../schemas/network.ts';
import { SANDBOX_ID } from './examples.ts';
import { json, jsonBody, type Route } from './route.ts';

const ERRORS = {
  404: 'the sandbox does not exist',
  409: 'the sandbox has no network',
} as const;
const CHANGE_ERRORS = {
  404: 'the sandbox does not exist',
  409: 'the sandbox has no network, or its policy has another generation than if_generation',
  501: 'a rule has a protocol that needs the egress gateway, which this daemon does not have',
} as const;
const PARAMS = { id: SANDBOX_ID } as const;
const RULE = { host: 'github.com', protocol: 'tcp', ports: [22] } as const;
const POLICY = {
  generation: 2,
  allowlist: ['example.com'],
  rules: [RULE],
  presets: [],
  log: 'all',
  secrets: [
    {
      name: 'GITHUB_TOKEN',
      use: 'github',
      hosts: ['api.github.com'],
      in: ['bearer', 'basic', 'header'],
      env: 'GITHUB_TOKEN',
      has_value: true,
    },
  ],
  gateway: '10.87.0.5',
  guest_ip: '10.87.0.6',
} as const;
const HOLDS =
  'When it answers, the new policy holds, and connections that it does not allow are closed. A paused sandbox has it ' +
  'when it resumes.';

export const networkRoutes = {
  getNetwork: {
    method: 'GET',
    path: '/sandboxes/:id/network',
    tag: 'network',
    summary: 'Show what the guest may reach',
    access: 'view',
    params: sandboxPath,
    answers: [{ status: 200, description: 'the policy', content: json(networkPolicy) }],
    errors: ERRORS,
    example: { params: PARAMS, answer: POLICY },
  },
  updateNetwork: {
    method: 'PATCH',
    path: '/sandboxes/:id/network',
    tag: 'network',
    summary: 'Change what the guest may reach',
    description: `A given list replaces the whole list; absent ones stay. Lists may be empty. ${HOLDS}`,
    access: 'network',
    params: sandboxPath,
    body: jsonBody(networkPatch),
    answers: [{ status: 200, description: 'the policy is in force', content: json(changedNetworkPolicy) }],
    errors: CHANGE_ERRORS,
    example: {
      params: PARAMS,
      body: { rules: [RULE], if_generation: 1 },
      answer: { ...POLICY, closed: 0 },
    },
  },
  replaceNetwork: {
    method: 'PUT',
    path: '/sandboxes/:id/network',
    tag: 'network',
    summary: 'Replace what the guest may reach',
    description: `Lists that are absent are empty. ${HOLDS}`,
    access: 'network',
    params: sandboxPath,
    body: jsonBody(networkReplacement),
    answers: [{ status: 200, description: 'the policy is in force', content: json(changedNetworkPolicy) }],
    errors: CHANGE_ERRORS,
    example: {
      params: PARAMS,
      body: { allowlist: ['example.com'] },
      answer: { ...POLICY, rules: [], closed: 1 },
    },
  },
  checkNetwork: {
    method: 'POST',
    path: '/sandboxes/:id/network/check',
    tag: 'network',
    summary: 'Explain whether the guest may open a connection',
    description: 'Nothing is resolved, sent or changed.',
    access: 'view',
    params: sandboxPath,
    body: jsonBody(networkCheck),
    answers: [{ status: 200, description: 'the verdict', content: json(networkVerdict) }],
    errors: ERRORS,
    example: {
      params: PARAMS,
      body: { host: 'github.com', port: 22 },
      answer: {
        verdict: 'allowed',
        reason: 'it is open once the guest has resolved the name',
        generation: 2,
        rule: RULE,
      },
    },
  },
  readEgress: {
    method: 'GET',
    path: '/sandboxes/:id/egress',
    tag: 'network',
    summary: 'Read the egress log: what the guest reached, and what it was denied',
    description:
      'The answer is a page of the log. With follow=1 it is a stream of server-sent events, or of JSON lines if Accept ' +
      'names application/x-ndjson. The id of an event is a position for Last-Event-ID.',
    access: 'read',
    readsGuest: true,
    params: sandboxPath,
    query: egressQuery,
    transport: 'stream',
    answers: [
      {
        status: 200,
        description: 'records, also after the sandbox was deleted',
        content: {
          ...json(egressResponse),
          'application/x-ndjson': { kind: 'lines', schema: egressRecord },
          'text/event-stream': { kind: 'bytes' },
        },
      },
    ],
    errors: {
      404: 'the sandbox does not exist and has no log',
      501: 'durable logs are disabled on this daemon',
    },
    example: {
      params: PARAMS,
      answer: {
        next_offset: 214,
        records: [
          {
            at: '2026-03-14T15:09:26.535Z',
            verdict: 'denied',
            reason: 'no rule has the address; it is open only while an allowed name leads to it',
            generation: 2,
            protocol: 'tcp',
            address: '203.0.113.9',
            port: 443,
          },
        ],
      },
    },
  },
  listNetworkPresets: {
    method: 'GET',
    path: '/network/presets',
    tag: 'network',
    summary: 'List the presets of networks that the key may use',
    access: 'view',
    answers: [{ status: 200, description: 'the presets', content: json(presetList) }],
    example: {
      answer: {
        presets: [
          {
            name: 'packages',
            description: 'registries of packages',
            rules: [{ host: 'registry.npmjs.org', protocol: 'tcp', ports: [443] }],
          },
        ],
      },
    },
  },
} as const satisfies Record<string, Route>;
