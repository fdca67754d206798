// Ports of a sandbox: connections to them, and which are open for URLs.
import { sandboxPath } from '../schemas/id.ts';
import {
  openPort,
  openPortList,
  openPortRequest,
  portPath,
  publishedPath,
  publishedPortAnswer,
  publishPortRequest,
} from '../schemas/port.ts';
import { SANDBOX_ID } from './examples.ts';
import { json, jsonBody, type Route } from './route.ts';

const MISSING = { 404: 'the sandbox does not exist' } as const;
const ERRORS = {
  ...MISSING,
  409: 'the sandbox is paused, and does not resume by use',
  501: 'the guest agent of the sandbox is too old for it',
  502: 'nothing listens on the port, or the guest does not respond',
} as const;
const BYTES = { 'application/octet-stream': { kind: 'bytes' } } as const;
const PARAMS = { id: SANDBOX_ID, port: '3000' } as const;
const OPEN = { port: 3000, access: 'private', opened_at: '2026-03-14T15:09:26.535Z' } as const;

export const portRoutes = {
  connectPort: {
    method: 'POST',
    path: '/sandboxes/:id/ports/:port/connect',
    tag: 'ports',
    summary: 'Connect to a TCP port',
    description:
      'After the response head the connection carries the bytes of a TCP connection to a server in the guest, at ' +
      '127.0.0.1, ::1 or an address of the guest. It needs no network of the sandbox. Each direction ends by itself; ' +
      'a reset of either side is one for the other. The status is 101 if the request has Upgrade: tcp. A sandbox has ' +
      'at most 256 such connections.',
    access: 'connect',
    params: portPath,
    transport: 'tunnel',
    answers: [
      { status: 200, description: 'the connection is established', content: BYTES },
      { status: 101, description: 'the same, for a request with Upgrade: tcp', content: BYTES },
    ],
    errors: ERRORS,
    example: { params: PARAMS },
  },
  connectPortWebSocket: {
    method: 'GET',
    path: '/sandboxes/:id/ports/:port/connect',
    tag: 'ports',
    readsGuest: true,
    summary: 'Connect to a TCP port over a WebSocket',
    description:
      'Binary messages carry the bytes; message boundaries have no meaning. The text message end, from either ' +
      'side, ends that direction. Close codes: 1000 when both directions have ended, or to close the connection; ' +
      '1001 the daemon stops; 1011 the server reset the connection, or the guest was lost. Any other end of the ' +
      'client resets it.',
    access: 'connect',
    params: portPath,
    transport: 'websocket',
    answers: [{ status: 101, description: 'the bytes of the connection in binary messages', content: BYTES }],
    errors: { ...ERRORS, 426: 'the request is not a WebSocket upgrade' },
  },
  listPorts: {
    method: 'GET',
    path: '/sandboxes/:id/ports',
    tag: 'ports',
    summary: 'List the open and the published ports',
    access: 'view',
    params: sandboxPath,
    answers: [{ status: 200, description: 'the ports', content: json(openPortList) }],
    errors: MISSING,
    example: { params: { id: SANDBOX_ID }, answer: { ports: [OPEN] } },
  },
  openPort: {
    method: 'POST',
    path: '/sandboxes/:id/ports',
    tag: 'ports',
    summary: 'Open a port for URLs, or change who may use it',
    description: 'Does nothing if it is open with that access. Open ports outlast pauses; forks have none.',
    access: 'connect',
    params: sandboxPath,
    body: jsonBody(openPortRequest),
    answers: [{ status: 200, description: 'the port is open', content: json(openPort) }],
    errors: { ...MISSING, 503: 'the sandbox has 256 open ports already' },
    example: { params: { id: SANDBOX_ID }, body: { port: 3000 }, answer: OPEN },
  },
  closePort: {
    method: 'DELETE',
    path: '/sandboxes/:id/ports/:port',
    tag: 'ports',
    summary: 'Close a port for URLs',
    description: 'Does nothing if it is not open.',
    access: 'connect',
    params: portPath,
    answers: [{ status: 204, description: 'the port is closed' }],
    errors: MISSING,
    example: { params: PARAMS },
  },
  publishPort: {
    method: 'POST',
    path: '/sandboxes/:id/ports/:port/publish',
    tag: 'ports',
    summary: 'Publish a port on the host',
    description:
      'As publish of a create, for a sandbox that exists and has a network. It lasts until it is deleted, over pauses, ' +
      'rollbacks and restarts of the daemon; forks have ports of their own. Does nothing if it is published so.',
    access: 'create',
    params: portPath,
    body: jsonBody(publishPortRequest),
    answers: [{ status: 200, description: 'the port is published', content: json(publishedPortAnswer) }],
    errors: {
      ...MISSING,
      400: 'the sandbox has no network, or 256 published ports already, or the host has no such address',
      409: 'another program, or another sandbox, has the port of the host',
    },
    example: {
      params: PARAMS,
      body: { host_port: 8080 },
      answer: { host_port: 8080, guest_port: 3000, protocol: 'tcp' },
    },
  },
  unpublishPort: {
    method: 'DELETE',
    path: '/sandboxes/:id/ports/:port/publish/:host_port',
    tag: 'ports',
    summary: 'Free a published port',
    description:
      'On all its addresses. Its connections are reset, and other programs may take the port when this has responded. ' +
      'Does nothing if it is not published.',
    access: 'create',
    params: publishedPath,
    answers: [{ status: 204, description: 'the port is free' }],
    errors: MISSING,
    example: { params: { ...PARAMS, host_port: '8080' } },
  },
} as const satisfies Record<string, Route>;
