// Exec: one command, in three transports.
import { execQuery, execRequest } from '../schemas/exec.ts';
import { execOutput, execPiece } from '../schemas/exec-output.ts';
import { sandboxPath } from '../schemas/id.ts';
import { SANDBOX_ID } from './examples.ts';
import { json, jsonBody, type Route } from './route.ts';

/** Errors are answers to frames of the client. */
const DOWNWARD = ['stdout', 'stderr', 'exit', 'error'] as const;
const UPWARD = ['stdin', 'stdinClose', 'resize', 'signal'] as const;
const ERRORS = {
  404: 'there is no such sandbox',
  409: 'the sandbox is being started or deleted',
  502: 'the guest does not answer',
} as const;

export const execRoutes = {
  exec: {
    method: 'POST',
    path: '/sandboxes/:id/exec',
    tag: 'exec',
    summary: 'Run a command',
    description:
      'Its output comes as frames, the exit frame last; after the 200 a failure is an exit frame with exit_code -1 and error. ' +
      'Whose Accept names application/json or application/x-ndjson, and nothing that frames are (such as */*), gets JSON instead. ' +
      'With stdin=1 frames go in both directions on the connection, right behind request and answer. A client that leaves ends the command.',
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
          'a stream of exec frames; one JSON object when it has ended; or lines of JSON as it goes on',
        content: {
          'application/octet-stream': { kind: 'bytes', frames: DOWNWARD },
          'application/x-ndjson': { kind: 'lines', schema: execPiece },
          ...json(execOutput),
        },
      },
    ],
    errors: ERRORS,
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
      'The first message is the request, due within 30 s; then binary messages carry the frames, split or packed anyhow. ' +
      'Close codes: 1000 after the exit frame, 1001 the daemon stops, 1003 a later text message, 1008 a bad first message, ' +
      '1009 a message over 1 MiB, 1011 the guest does not answer, 1013 too much is on its way to the daemon.',
    access: 'exec',
    readsGuest: true,
    params: sandboxPath,
    body: jsonBody(execRequest),
    transport: 'websocket',
    upward: UPWARD,
    answers: [
      {
        status: 101,
        description: 'a stream of exec frames in binary messages',
        content: { 'application/octet-stream': { kind: 'bytes', frames: DOWNWARD } },
      },
    ],
    errors: { ...ERRORS, 426: 'the request asks for no WebSocket' },
  },
} as const satisfies Record<string, Route>;
