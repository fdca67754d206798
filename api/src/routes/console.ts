// The console: a web page for operators and developers, and its files. They carry no data, so they need no key.
import { z } from 'zod';
import type { Route } from './route.ts';

const ETAG = 'identifies this version of the file';
const NOT_MODIFIED = { status: 304, description: 'the browser has this version already' } as const;
const CONDITION = { 'If-None-Match': 'the ETag that the browser has' } as const;

export const consoleRoutes = {
  showConsole: {
    method: 'GET',
    path: '/console',
    tag: 'meta',
    summary: 'Show the console, a web page that uses this API',
    description: 'The page asks for a key if the daemon has keys, and keeps it in its memory.',
    access: 'public',
    headers: CONDITION,
    answers: [
      {
        status: 200,
        description: 'the page',
        content: { 'text/html': { kind: 'bytes' } },
        headers: {
          ETag: ETAG,
          'Content-Security-Policy': 'forbids inline scripts and every other origin',
        },
      },
      NOT_MODIFIED,
    ],
    errors: { 501: 'this build of the daemon has no console' },
    example: {},
  },
  readConsoleFile: {
    method: 'GET',
    path: '/console/:file',
    tag: 'meta',
    summary: 'Read a script or style of the console',
    access: 'public',
    params: z.object({ file: z.string().meta({ description: 'name of the file' }) }),
    headers: CONDITION,
    answers: [
      {
        status: 200,
        description: 'the file',
        content: {
          'text/javascript': { kind: 'bytes' },
          'text/css': { kind: 'bytes' },
          'image/svg+xml': { kind: 'bytes' },
        },
        headers: { ETag: ETAG },
      },
      NOT_MODIFIED,
    ],
    errors: { 404: 'the console has no such file', 501: 'this build of the daemon has no console' },
    example: { params: { file: 'console.js' } },
  },
} as const satisfies Record<string, Route>;
