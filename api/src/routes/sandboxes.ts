// Create, list, show and delete sandboxes.
import type { RequestLimits } from '../limits.ts';
import { sandboxPath } from '../schemas/id.ts';
import {
  createSandboxRequest,
  pauseRequest,
  resumeRequest,
  sandbox,
  updateSandboxRequest,
} from '../schemas/sandbox.ts';
import {
  deletedSandboxes,
  deleteSandboxesQuery,
  listSandboxesQuery,
  sandboxList,
} from '../schemas/sandbox-list.ts';
import { sandboxStats } from '../schemas/stats.ts';
import { PAUSED_SANDBOX, SANDBOX, SANDBOX_ID, SANDBOX_STATS } from './examples.ts';
import { json, jsonBody, KEYED, KEYED_ANSWER, type Route } from './route.ts';

const UNKNOWN = 'the sandbox does not exist';

export function sandboxRoutes(limits: RequestLimits) {
  return {
    listSandboxes: {
      method: 'GET',
      path: '/sandboxes',
      tag: 'sandboxes',
      summary: 'List sandboxes',
      access: 'view',
      description:
        'Returns the whole list, or one page if limit is set. next_cursor is present if more entries follow. ' +
        'All filters must match.',
      query: listSandboxesQuery,
      answers: [{ status: 200, description: 'the sandboxes', content: json(sandboxList) }],
      example: { answer: { sandboxes: [SANDBOX] } },
    },
    createSandbox: {
      method: 'POST',
      path: '/sandboxes',
      tag: 'sandboxes',
      summary: 'Create a sandbox and wait until its guest responds',
      description:
        'If the client disconnects, the daemon cancels the creation and rolls it back, unless the request has an ' +
        'Idempotency-Key. If the image must be pulled or converted first, the key also needs the operation images.',
      access: 'create',
      alsoNeeds: { operation: 'exec', when: 'the request or the image starts a service' },
      headers: KEYED,
      body: jsonBody(createSandboxRequest(limits)),
      answers: [
        {
          status: 201,
          description: 'the sandbox; its guest responds',
          content: json(sandbox),
          headers: KEYED_ANSWER,
        },
        {
          status: 200,
          description: 'if_exists is return: the existing sandbox of that name',
          content: json(sandbox),
          headers: KEYED_ANSWER,
        },
      ],
      errors: {
        404: 'pull is never and the image is not on this host',
        409: 'the name or a host port is in use, or a digest prefix matches several images',
        500: 'the sandbox could not be started; the error names the stage',
        501: 'images or host paths are disabled on this daemon',
        502: 'the registry failed, or the guest does not respond',
      },
      example: { body: { memory_mib: 512, timeout_s: 600 }, answer: SANDBOX },
    },
    deleteSandboxes: {
      method: 'DELETE',
      path: '/sandboxes',
      tag: 'sandboxes',
      summary: 'Delete the sandboxes that match all filters',
      description:
        'At least one filter is needed. An unknown, empty or repeated parameter is refused, because without it more ' +
        'sandboxes would match; only label may be repeated. Sandboxes that a concurrent request deletes are in ' +
        'neither list, or in deleted.',
      access: 'delete',
      query: deleteSandboxesQuery,
      exactQuery: true,
      answers: [
        {
          status: 200,
          description: 'what was deleted, and what could not be',
          content: json(deletedSandboxes),
        },
      ],
      example: { query: { label: 'team=compilers' }, answer: { deleted: [SANDBOX_ID], failed: [] } },
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
      summary: 'Show the resource usage of a sandbox',
      description:
        'The answer is one JSON object. If Accept names application/x-ndjson or text/event-stream, the answer ' +
        'is a stream: one sample each second, with the CPU usage in percent, until the sandbox is deleted.',
      access: 'view',
      params: sandboxPath,
      transport: 'stream',
      answers: [
        {
          status: 200,
          description: 'resource usage as the host measures it, without a request to the guest',
          content: {
            ...json(sandboxStats),
            'application/x-ndjson': { kind: 'lines', schema: sandboxStats },
            'text/event-stream': { kind: 'bytes' },
          },
        },
      ],
      errors: { 404: UNKNOWN, 500: 'the VM of the sandbox has exited' },
      example: { params: { id: SANDBOX_ID }, answer: SANDBOX_STATS },
    },
    pauseSandbox: {
      method: 'POST',
      path: '/sandboxes/:id/pause',
      tag: 'sandboxes',
      summary: 'Pause a sandbox: save it, and free its memory and CPUs',
      description:
        'Its id, name, addresses, host ports, log and commands stay. Streams of commands end with the reason; the ' +
        'commands go on after the resume. A paused sandbox is answered as it is. If the client disconnects, the ' +
        'pause continues.',
      access: 'exec',
      params: sandboxPath,
      body: jsonBody(pauseRequest),
      answers: [{ status: 200, description: 'the paused sandbox', content: json(sandbox) }],
      errors: {
        404: UNKNOWN,
        500: 'the VM of the sandbox has exited, or it could not be saved and runs on; the error names the stage',
        501: 'memory is false, and the guest agent is too old for that',
        502: 'the guest does not respond',
      },
      example: { params: { id: SANDBOX_ID }, body: {}, answer: PAUSED_SANDBOX },
    },
    resumeSandbox: {
      method: 'POST',
      path: '/sandboxes/:id/resume',
      tag: 'sandboxes',
      summary: 'Resume a paused sandbox and wait until its guest responds',
      description:
        'A sandbox that runs is answered as it is. If the client disconnects, the resume continues.',
      access: 'exec',
      params: sandboxPath,
      body: jsonBody(resumeRequest),
      answers: [{ status: 200, description: 'the sandbox; its guest responds', content: json(sandbox) }],
      errors: {
        404: UNKNOWN,
        409: 'the engine of this daemon does not fit what was saved',
        500: 'the sandbox could not be resumed and stays paused; the error names the stage',
        502: 'the sandbox was resumed, but its guest does not respond',
      },
      example: { params: { id: SANDBOX_ID }, body: {}, answer: SANDBOX },
    },
    updateSandbox: {
      method: 'PATCH',
      path: '/sandboxes/:id',
      tag: 'sandboxes',
      summary: 'Change name, labels or timeouts of a sandbox',
      description:
        'All changes are made, or none. The lifetime of a sandbox may not end later than max_timeout_s of the key ' +
        'after its creation.',
      access: 'create',
      alsoNeeds: { operation: 'snapshot', when: 'idle_action is snapshot' },
      params: sandboxPath,
      body: jsonBody(updateSandboxRequest),
      answers: [{ status: 200, description: 'the changed sandbox', content: json(sandbox) }],
      errors: { 404: UNKNOWN, 409: 'another sandbox has the name' },
      example: { params: { id: SANDBOX_ID }, body: { timeout_s: 600 }, answer: SANDBOX },
    },
    deleteSandbox: {
      method: 'DELETE',
      path: '/sandboxes/:id',
      tag: 'sandboxes',
      summary: 'Delete a sandbox',
      description: 'Its durable log is kept.',
      access: 'delete',
      params: sandboxPath,
      answers: [{ status: 204, description: 'the sandbox is deleted and its host ports are free' }],
      errors: { 404: UNKNOWN },
      example: { params: { id: SANDBOX_ID } },
    },
  } as const satisfies Record<string, Route>;
}
