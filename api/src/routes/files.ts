// Files of a sandbox.
import { pushFilesQuery, pushResult, readFileQuery } from '../schemas/file.ts';
import { sandboxPath } from '../schemas/id.ts';
import { SANDBOX_ID } from './examples.ts';
import { json, type Route } from './route.ts';

const GUEST = 'the guest does not answer';

export const fileRoutes = {
  readFile: {
    method: 'GET',
    path: '/sandboxes/:id/files',
    tag: 'files',
    summary: 'Read a file, or a directory or file as an archive',
    access: 'read',
    readsGuest: true,
    params: sandboxPath,
    query: readFileQuery,
    transport: 'stream',
    answers: [
      {
        status: 200,
        description:
          'the bytes of the file; with format=tar an archive of the directory, or of the file alone',
        content: { 'application/octet-stream': { kind: 'bytes' }, 'application/x-tar': { kind: 'bytes' } },
        headers: {
          'X-File-Size': 'bytes of the whole file, where that is known',
          'X-Truncated': 'true when max_bytes has cut the file',
        },
      },
    ],
    errors: {
      400: 'a parameter makes no sense, or the path is a directory, no file, or cannot be read',
      404: 'there is no such sandbox, or no such file in it',
      502: GUEST,
    },
    example: { params: { id: SANDBOX_ID }, query: { path: '/etc/os-release' } },
  },
  pushFiles: {
    method: 'POST',
    path: '/sandboxes/:id/files',
    tag: 'files',
    summary: 'Extract an archive in the guest',
    description:
      'Regular files, directories, symbolic and hard links, with mode and time, owned by root. Nothing is ever written outside of path.',
    access: 'exec',
    params: sandboxPath,
    query: pushFilesQuery,
    body: {
      kind: 'bytes',
      contentType: 'application/octet-stream',
      description: 'a tar archive, plain or gzip; an empty body writes nothing',
    },
    answers: [{ status: 200, description: 'how much was written', content: json(pushResult) }],
    errors: {
      400: 'a parameter makes no sense, the archive is damaged or leads out of path, or the disk of the guest is full',
      404: 'there is no such sandbox',
      502: GUEST,
    },
    example: { params: { id: SANDBOX_ID }, query: { path: '/srv' }, answer: { files: 0, bytes: 0 } },
  },
} as const satisfies Record<string, Route>;
