// Stored secrets of a tenant: their values go in, and never out.
import { secretList, secretListQuery, secretPath, storedSecret, storeSecret } from '../schemas/secret.ts';
import { json, jsonBody, type Route } from './route.ts';

const SECRET = {
  name: 'github',
  hosts: ['api.github.com'],
  digest: '5f1d9c02ab47',
  created_at: '2026-03-14T15:09:26.535Z',
  changed_at: '2026-03-14T15:09:26.535Z',
  used_by: [],
  uses: 12,
  last_used_at: '2026-03-14T16:00:00.000Z',
} as const;
const PARAMS = { name: SECRET.name } as const;
const UNKNOWN = 'the secret does not exist';
const OWN = 'They are those of the tenant of the key; keys without a tenant share theirs.';

export const secretRoutes = {
  listSecrets: {
    method: 'GET',
    path: '/secrets',
    tag: 'secrets',
    summary: 'List stored secrets, without their values',
    description: `${OWN} Returns the whole list, or one page if limit is set.`,
    access: 'secrets',
    query: secretListQuery,
    answers: [{ status: 200, description: 'the secrets', content: json(secretList) }],
    example: { answer: { secrets: [SECRET] } },
  },
  getSecret: {
    method: 'GET',
    path: '/secrets/:name',
    tag: 'secrets',
    summary: 'Show a stored secret, without its value',
    access: 'secrets',
    params: secretPath,
    answers: [{ status: 200, description: 'the secret', content: json(storedSecret) }],
    errors: { 404: UNKNOWN },
    example: { params: PARAMS, answer: SECRET },
  },
  putSecret: {
    method: 'PUT',
    path: '/secrets/:name',
    tag: 'secrets',
    summary: 'Store a secret, or replace its value, source and hosts',
    description:
      `${OWN} Running sandboxes that use it have the new value at their next request, with the same placeholder. ` +
      'The value is encrypted on disk and in no answer.',
    access: 'secrets',
    params: secretPath,
    body: jsonBody(storeSecret),
    answers: [{ status: 200, description: 'the secret', content: json(storedSecret) }],
    errors: { 409: 'the tenant has as many secrets, or as large ones, as it may' },
    example: {
      params: PARAMS,
      body: { value: 'example-token-0123456789', hosts: ['api.github.com'] },
      answer: SECRET,
    },
  },
  deleteSecret: {
    method: 'DELETE',
    path: '/secrets/:name',
    tag: 'secrets',
    summary: 'Delete a stored secret',
    description: 'Also one that sandboxes use: their next request with it is refused with 403.',
    access: 'secrets',
    params: secretPath,
    answers: [{ status: 204, description: 'it is deleted' }],
    errors: { 404: UNKNOWN },
    example: { params: PARAMS },
  },
} as const satisfies Record<string, Route>;
