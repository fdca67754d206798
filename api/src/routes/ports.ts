// Ports of a sandbox: connections to them, and which are open for URLs.
import { sandboxPath } from '../schemas/id.ts';
import { openPort, openPortList, openPortRequest, portPath } from '../schemas/port.ts';
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
    summary: 'List the ports that are open for URLs',
    access: 'view',
    params: sandboxPath,
    answers: [{ status: 200, description: 'the open ports', content: json(openPortList) }],
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
} as const satisfies Record<string, Route>;
