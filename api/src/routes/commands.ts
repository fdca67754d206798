// Commands by id: they are listed, and detached ones are read, written, signalled and ended by later requests.

import {
  attachDuplexQuery,
  attachQuery,
  command,
  commandLine,
  commandList,
  commandOutputQuery,
  killQuery,
  signalRequest,
  stdinQuery,
  waitQuery,
} from '../schemas/commands.ts';
import { terminalSize } from '../schemas/exec.ts';
import { commandPath, sandboxPath } from '../schemas/id.ts';
import { COMMAND, COMMAND_ID, EXEC_RESULT, SANDBOX_ID } from './examples.ts';
import { json, jsonBody, type Route } from './route.ts';

const DOWNWARD = ['stdout', 'stderr', 'exit', 'error', 'position'] as const;
const UPWARD = ['stdin', 'stdinClose', 'resize', 'signal'] as const;
const SANDBOX_ERRORS = {
  404: 'the sandbox does not exist',
  501: 'the guest agent of the sandbox is too old to list commands',
  502: 'the guest does not respond',
} as const;
const ERRORS = {
  ...SANDBOX_ERRORS,
  404: 'the sandbox does not exist, or has no such command, or the command ended long ago',
} as const;
const NOT_DETACHED = { ...ERRORS, 409: 'the command is not detached' } as const;
const HAS_ENDED = { ...ERRORS, 409: 'the command has ended' } as const;
const ATTACH_ERRORS = {
  ...ERRORS,
  409: 'the command is not detached, or another client writes to it',
} as const;
const ATTACHED =
  'The client gets the stored output of a detached command from the record `from` on, then new output until the ' +
  'command ends, and may write input, resize the terminal and send signals. A position frame names the next record ' +
  'after each part of the output, and counts dropped output. The exit frame comes when the command has ended. When ' +
  'the client disconnects, the command continues.';
const params = { id: SANDBOX_ID, cid: COMMAND_ID };
const STATUS = [{ status: 200, description: 'the command after that', content: json(command) }] as const;
const ended = { ...COMMAND, state: 'exited', exited_at: '2026-03-14T15:09:30.000Z', result: EXEC_RESULT };

export const commandRoutes = {
  listCommands: {
    method: 'GET',
    path: '/sandboxes/:id/commands',
    tag: 'exec',
    summary: 'List the commands of a sandbox',
    description:
      'Running commands, attached ones included, and those that have ended within the last hour. Of many, the ' +
      'newest are listed.',
    access: 'read',
    params: sandboxPath,
    answers: [{ status: 200, description: 'the commands', content: json(commandList) }],
    errors: SANDBOX_ERRORS,
    example: { params: { id: SANDBOX_ID }, answer: { commands: [COMMAND] } },
  },
  getCommand: {
    method: 'GET',
    path: '/sandboxes/:id/commands/:cid',
    tag: 'exec',
    summary: 'Show a command',
    access: 'read',
    params: commandPath,
    answers: [{ status: 200, description: 'the command', content: json(command) }],
    errors: ERRORS,
    example: { params, answer: ended },
  },
  waitCommand: {
    method: 'GET',
    path: '/sandboxes/:id/commands/:cid/wait',
    tag: 'exec',
    summary: 'Wait for the end of a command',
    access: 'read',
    params: commandPath,
    query: waitQuery,
    answers: [
      {
        status: 200,
        description: 'the command when it has ended, or after timeout_s',
        content: json(command),
      },
    ],
    errors: ERRORS,
    example: { params, query: { timeout_s: '30' }, answer: ended },
  },
  readCommandOutput: {
    method: 'GET',
    path: '/sandboxes/:id/commands/:cid/output',
    tag: 'exec',
    summary: 'Read the stored output of a detached command',
    description:
      'The answer is a stream of exec frames, of JSON lines with Accept: application/x-ndjson, or of server-sent ' +
      'events with Accept: text/event-stream, whose data is the same JSON. Lines and events have sequence numbers: ' +
      'a later request continues with `from`, or with Last-Event-ID, without a gap and without duplicates.',
    access: 'read',
    readsGuest: true,
    params: commandPath,
    query: commandOutputQuery,
    transport: 'stream',
    answers: [
      {
        status: 200,
        description:
          'the output; the exit frame, or a line with the result, is last if the command has ended',
        content: {
          'application/octet-stream': { kind: 'bytes', frames: ['stdout', 'stderr', 'exit'] },
          'application/x-ndjson': { kind: 'lines', schema: commandLine },
          'text/event-stream': { kind: 'bytes' },
        },
      },
    ],
    errors: NOT_DETACHED,
    example: {
      params,
      query: { from: '0' },
      answer: { seq: 0, stream: 'stdout', unix_ms: 1_773_500_970_012, data: 'ready\n' },
    },
  },
  attachCommand: {
    method: 'POST',
    path: '/sandboxes/:id/commands/:cid/attach',
    tag: 'exec',
    summary: 'Attach to a detached command',
    description: `${ATTACHED} With stdin=1 the connection carries frames in both directions.`,
    access: 'exec',
    readsGuest: true,
    params: commandPath,
    query: attachDuplexQuery,
    transport: 'duplex',
    upward: UPWARD,
    answers: [
      {
        status: 200,
        description: 'a stream of exec frames',
        content: { 'application/octet-stream': { kind: 'bytes', frames: DOWNWARD } },
      },
    ],
    errors: ATTACH_ERRORS,
    example: { params, query: { from: '0' } },
  },
  attachCommandWebSocket: {
    method: 'GET',
    path: '/sandboxes/:id/commands/:cid/attach',
    tag: 'exec',
    summary: 'Attach to a detached command over a WebSocket',
    description:
      `${ATTACHED} Binary messages carry the frames, from the first message on. Close codes: 1000 after the exit ` +
      'frame, 1001 the daemon stops, 1003 a text message, 1009 a message over 1 MiB, 1011 the command cannot be ' +
      'attached: an error frame has the reason.',
    access: 'exec',
    readsGuest: true,
    params: commandPath,
    query: attachQuery,
    transport: 'websocket',
    upward: UPWARD,
    answers: [
      {
        status: 101,
        description: 'a stream of exec frames in binary messages',
        content: { 'application/octet-stream': { kind: 'bytes', frames: DOWNWARD } },
      },
    ],
    errors: { ...ERRORS, 426: 'the request is not a WebSocket upgrade' },
  },
  writeCommandInput: {
    method: 'POST',
    path: '/sandboxes/:id/commands/:cid/stdin',
    tag: 'exec',
    summary: 'Write to the input of a detached command',
    description: 'The answer comes when the command has taken the bytes.',
    access: 'exec',
    params: commandPath,
    query: stdinQuery,
    body: { kind: 'bytes', contentType: 'application/octet-stream', description: 'the input' },
    answers: STATUS,
    errors: { ...ERRORS, 409: 'its input is closed, or another client writes to it' },
    example: { params, answer: COMMAND },
  },
  signalCommand: {
    method: 'POST',
    path: '/sandboxes/:id/commands/:cid/signal',
    tag: 'exec',
    summary: 'Send a signal to a command',
    description: 'The signal goes to the process group of the command, also of one that is not detached.',
    access: 'exec',
    params: commandPath,
    body: jsonBody(signalRequest),
    answers: STATUS,
    errors: HAS_ENDED,
    example: { params, body: { signal: 'SIGUSR1' }, answer: COMMAND },
  },
  resizeCommand: {
    method: 'POST',
    path: '/sandboxes/:id/commands/:cid/resize',
    tag: 'exec',
    summary: 'Resize the terminal of a command',
    description:
      'Without a terminal it has no effect. The size that it has already makes programs draw it again.',
    access: 'exec',
    params: commandPath,
    body: jsonBody(terminalSize),
    answers: STATUS,
    errors: HAS_ENDED,
    example: { params, body: { cols: 120, rows: 50 }, answer: COMMAND },
  },
  endCommand: {
    method: 'DELETE',
    path: '/sandboxes/:id/commands/:cid',
    tag: 'exec',
    summary: 'End a command and all that it started',
    description:
      'SIGTERM to its process group, and SIGKILL to all of its processes after grace_s, or once its first process ' +
      'has exited. The answer comes when it has ended. Its result stays for an hour. Has no effect on a command ' +
      'that has ended.',
    access: 'exec',
    params: commandPath,
    query: killQuery,
    answers: [{ status: 200, description: 'the command with its result', content: json(command) }],
    errors: ERRORS,
    example: { params, query: { grace_s: '2' }, answer: ended },
  },
} as const satisfies Record<string, Route>;
