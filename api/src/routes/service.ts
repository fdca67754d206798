// The supervised service of a sandbox.
import { sandboxPath } from '../schemas/id.ts';
import {
  serviceLogLine,
  serviceLogPage,
  serviceLogsQuery,
  serviceSpec,
  serviceStatus,
  stopRequest,
} from '../schemas/service.ts';
import { SANDBOX_ID, SERVICE_SPEC, SERVICE_STATUS } from './examples.ts';
import { json, jsonBody, type Route } from './route.ts';

const ERRORS = { 404: 'the sandbox does not exist', 502: 'the guest does not respond' } as const;
const WITH_IDLE = { ...ERRORS, 409: 'the sandbox has no service' } as const;
const ANSWERS = [
  {
    status: 200,
    description: 'the status when the operation is complete, at the latest after 1 s',
    content: json(serviceStatus),
  },
] as const;

export const serviceRoutes = {
  getService: {
    method: 'GET',
    path: '/sandboxes/:id/service',
    tag: 'service',
    summary: 'Show the status of the service',
    access: 'read',
    readsGuest: true,
    params: sandboxPath,
    answers: [{ status: 200, description: 'the status', content: json(serviceStatus) }],
    errors: ERRORS,
    example: { params: { id: SANDBOX_ID }, answer: SERVICE_STATUS },
  },
  configureService: {
    method: 'PUT',
    path: '/sandboxes/:id/service',
    tag: 'service',
    summary: 'Configure the service and start or restart it',
    access: 'exec',
    isExperimental: true,
    params: sandboxPath,
    body: jsonBody(serviceSpec),
    answers: ANSWERS,
    errors: ERRORS,
    example: { params: { id: SANDBOX_ID }, body: SERVICE_SPEC, answer: SERVICE_STATUS },
  },
  startService: {
    method: 'POST',
    path: '/sandboxes/:id/service/start',
    tag: 'service',
    summary: 'Start the service',
    description: 'Has no effect on a running service.',
    access: 'exec',
    params: sandboxPath,
    answers: ANSWERS,
    errors: WITH_IDLE,
    example: { params: { id: SANDBOX_ID }, answer: SERVICE_STATUS },
  },
  stopService: {
    method: 'POST',
    path: '/sandboxes/:id/service/stop',
    tag: 'service',
    summary: 'Stop the service',
    access: 'exec',
    params: sandboxPath,
    body: jsonBody(stopRequest),
    answers: ANSWERS,
    errors: ERRORS,
    example: {
      params: { id: SANDBOX_ID },
      body: { grace_s: 2 },
      answer: { ...SERVICE_STATUS, state: 'stopping' },
    },
  },
  restartService: {
    method: 'POST',
    path: '/sandboxes/:id/service/restart',
    tag: 'service',
    summary: 'Restart the service',
    access: 'exec',
    params: sandboxPath,
    answers: ANSWERS,
    errors: WITH_IDLE,
    example: { params: { id: SANDBOX_ID }, answer: SERVICE_STATUS },
  },
  readServiceLogs: {
    method: 'GET',
    path: '/sandboxes/:id/service/logs',
    tag: 'service',
    summary: 'Read the output of the service from its buffer in the guest',
    description:
      'By default the answer is a stream of exec frames that starts with the oldest stored output and follows ' +
      'new output until the client disconnects. With from_seq, max_bytes or Accept: application/json it is one ' +
      'page of JSON. With Accept: application/x-ndjson, which takes precedence, it has one line for each ' +
      'record; a later request continues after the last line with ring and from_seq.',
    access: 'read',
    readsGuest: true,
    isExperimental: true,
    params: sandboxPath,
    query: serviceLogsQuery,
    transport: 'stream',
    answers: [
      {
        status: 200,
        description: 'the output',
        content: {
          'application/octet-stream': { kind: 'bytes', frames: ['stdout', 'stderr'] },
          ...json(serviceLogPage),
          'application/x-ndjson': { kind: 'lines', schema: serviceLogLine },
        },
      },
    ],
    errors: WITH_IDLE,
    example: {
      params: { id: SANDBOX_ID },
      query: { from_seq: '0', max_bytes: '65536' },
      answer: {
        records: [{ seq: 0, stream: 'stdout', unix_ms: 1_773_500_970_012, data: 'cmVhZHkK' }],
        next_seq: 1,
        first_seq: 0,
      },
    },
  },
} as const satisfies Record<string, Route>;
