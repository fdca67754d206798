// Create, list, show and delete sandboxes.
import type { RequestLimits } from '../limits.ts';
import { sandboxPath } from '../schemas/id.ts';
import { pageQuery } from '../schemas/page.ts';
import { createSandboxRequest, sandbox, sandboxList } from '../schemas/sandbox.ts';
import { sandboxStats } from '../schemas/stats.ts';
import { SANDBOX, SANDBOX_ID, SANDBOX_STATS } from './examples.ts';
import { json, jsonBody, type Route } from './route.ts';

const UNKNOWN = 'there is no such sandbox';

export function sandboxRoutes(limits: RequestLimits) {
  return {
    listSandboxes: {
      method: 'GET',
      path: '/sandboxes',
      tag: 'sandboxes',
      summary: 'List the sandboxes',
      access: 'view',
      description: 'All of it, or with limit a page of it; next_cursor is there when more follows.',
      query: pageQuery,
      answers: [{ status: 200, description: 'the sandboxes', content: json(sandboxList) }],
      example: { answer: { sandboxes: [SANDBOX] } },
    },
    createSandbox: {
      method: 'POST',
      path: '/sandboxes',
      tag: 'sandboxes',
      summary: 'Create a sandbox and wait until it answers',
      description:
        'A client that goes away cancels it, and everything is rolled back. An image that has to be pulled or converted first needs the operation images.',
      access: 'create',
      alsoNeeds: { operation: 'exec', when: 'it starts a service, of the request or of the image' },
      body: jsonBody(createSandboxRequest(limits)),
      answers: [{ status: 201, description: 'the sandbox; its guest has answered', content: json(sandbox) }],
      errors: {
        404: 'pull is never, and the image is not here',
        409: 'a port of the host is taken, or a digest prefix fits several images',
        500: 'the sandbox could not be started; the stage is named',
        501: 'the daemon has that part not enabled: images, paths of the host, networks',
        502: 'the registry failed, or the guest does not answer',
      },
      example: { body: { memory_mib: 512, timeout_s: 600 }, answer: SANDBOX },
    },
    getSandbox: {
      method: 'GET',
      path: '/sandboxes/:id',
      tag: 'sandboxes',
      summary: 'Show a sandbox',
      access: 'view',
      params: sandboxPath,
      answers: [{ status: 200, description: 'the sandbox', content: json(sandbox) }],
      errors: { 404: UNKNOWN },
      example: { params: { id: SANDBOX_ID }, answer: SANDBOX },
    },
    readStats: {
      method: 'GET',
      path: '/sandboxes/:id/stats',
      tag: 'sandboxes',
      summary: 'Say what a sandbox takes of the host',
      description:
        'Once, as JSON; each second until it is gone, where Accept names lines or server-sent events, with the share of CPU time.',
      access: 'view',
      params: sandboxPath,
      transport: 'stream',
      answers: [
        {
          status: 200,
          description: 'the numbers as the host counts them; the guest is not asked',
          content: {
            ...json(sandboxStats),
            'application/x-ndjson': { kind: 'lines', schema: sandboxStats },
            'text/event-stream': { kind: 'bytes' },
          },
        },
      ],
      errors: { 404: UNKNOWN, 500: 'the VM of the sandbox has ended' },
      example: { params: { id: SANDBOX_ID }, answer: SANDBOX_STATS },
    },
    deleteSandbox: {
      method: 'DELETE',
      path: '/sandboxes/:id',
      tag: 'sandboxes',
      summary: 'Destroy a sandbox',
      description: 'Its durable log stays.',
      access: 'delete',
      params: sandboxPath,
      answers: [{ status: 204, description: 'it is gone, its ports are free' }],
      errors: { 404: UNKNOWN },
      example: { params: { id: SANDBOX_ID } },
    },
  } as const satisfies Record<string, Route>;
}
