// Exec: one command, in three transports.

import { command } from '../schemas/commands.ts';
import { execQuery, execRequest, execWebSocketQuery } from '../schemas/exec.ts';
import { execOutput, execPiece } from '../schemas/exec-output.ts';
import { sandboxPath } from '../schemas/id.ts';
import { SANDBOX_ID } from './examples.ts';
import { json, jsonBody, type Route } from './route.ts';

/** An error frame answers an invalid frame of the client. */
const DOWNWARD = ['stdout', 'stderr', 'exit', 'error'] as const;
/** Absent for a guest agent that is too old to list commands, and with stdin=1 unless command_id is 1. */
const COMMAND_ID_HEADER = { 'X-Command-Id': 'id of the command, for requests to commands' };
const UPWARD = ['stdin', 'stdinClose', 'resize', 'signal'] as const;
const ERRORS = {
  404: 'the sandbox does not exist',
  409: 'the sandbox is paused and does not resume by use',
  502: 'the guest does not respond',
} as const;

export const execRoutes = {
  exec: {
    method: 'POST',
    path: '/sandboxes/:id/exec',
    tag: 'exec',
    summary: 'Run a command',
    description:
      'The answer is a stream of exec frames that ends with the exit frame. A failure after status 200 is an ' +
      'exit frame with exit_code -1 and error. The answer is JSON if Accept names application/json or ' +
      'application/x-ndjson and no range that includes the frames, such as */*. With stdin=1 the connection ' +
      'carries frames in both directions, directly after the request and the response head. If the client ' +
      'disconnects, the daemon kills the command. With detach the answer is 201 right after the start, and the ' +
      'command does not depend on its client.',
    access: 'exec',
    params: sandboxPath,
    query: execQuery,
    body: jsonBody(execRequest),
    transport: 'duplex',
    upward: UPWARD,
    answers: [
      {
        status: 200,
        description:
          'a stream of exec frames, one JSON object at the end of the command, or JSON lines while it runs',
        content: {
          'application/octet-stream': { kind: 'bytes', frames: DOWNWARD },
          'application/x-ndjson': { kind: 'lines', schema: execPiece },
          ...json(execOutput),
        },
        headers: COMMAND_ID_HEADER,
      },
      { status: 201, description: 'with detach: the command has started', content: json(command) },
    ],
    errors: { ...ERRORS, 501: 'detach, and the guest agent of the sandbox is too old for it' },
    example: {
      params: { id: SANDBOX_ID },
      body: { cmd: ['sh', '-c', 'echo hello; echo oops >&2; exit 3'] },
      answer: { stdout: 'hello\n', stderr: 'oops\n', exit_code: 3, duration_ms: 12 },
    },
  },
  execWebSocket: {
    method: 'GET',
    path: '/sandboxes/:id/exec',
    tag: 'exec',
    summary: 'Run a command over a WebSocket',
    description:
      'The first message is the request; the client must send it within 30 s. After it, binary messages carry ' +
      'exec frames; message boundaries have no meaning. Close codes: 1000 after the exit frame, 1001 the daemon stops,' +
      ' 1003 a text message after the first, 1008 an invalid first message, 1009 a message over 1 ' +
      'MiB, 1011 the guest does not respond, 1013 too many large requests are in progress.',
    access: 'exec',
    readsGuest: true,
    params: sandboxPath,
    query: execWebSocketQuery,
    body: jsonBody(execRequest),
    transport: 'websocket',
    upward: UPWARD,
    answers: [
      {
        status: 101,
        description: 'a stream of exec frames in binary messages',
        content: { 'application/octet-stream': { kind: 'bytes', frames: [...DOWNWARD, 'started'] } },
      },
    ],
    errors: { ...ERRORS, 426: 'the request is not a WebSocket upgrade' },
  },
} as const satisfies Record<string, Route>;
