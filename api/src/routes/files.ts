// Files of a sandbox.
import { pushFilesQuery, pushResult, readFileQuery } from '../schemas/file.ts';
import { sandboxPath } from '../schemas/id.ts';
import { SANDBOX_ID } from './examples.ts';
import { json, type Route } from './route.ts';

const GUEST = 'the guest does not respond';

export const fileRoutes = {
  readFile: {
    method: 'GET',
    path: '/sandboxes/:id/files',
    tag: 'files',
    summary: 'Read a file, or download a file or directory as a tar archive',
    access: 'read',
    readsGuest: true,
    params: sandboxPath,
    query: readFileQuery,
    transport: 'stream',
    answers: [
      {
        status: 200,
        description: 'the bytes of the file; with format=tar, a tar archive of the directory or file',
        content: { 'application/octet-stream': { kind: 'bytes' }, 'application/x-tar': { kind: 'bytes' } },
        headers: {
          'X-File-Size': 'size of the whole file in bytes, if it is known',
          'X-Truncated': 'true if max_bytes truncated the file',
        },
      },
    ],
    errors: {
      400: 'a parameter is invalid, or the path is a directory, is not a regular file or cannot be read',
      404: 'the sandbox or the file does not exist',
      502: GUEST,
    },
    example: { params: { id: SANDBOX_ID }, query: { path: '/etc/os-release' } },
  },
  pushFiles: {
    method: 'POST',
    path: '/sandboxes/:id/files',
    tag: 'files',
    summary: 'Upload a tar archive and extract it in the guest',
    description:
      'The archive may hold regular files, directories, symbolic links and hard links, with mode and ' +
      'modification time. Root owns what is extracted. The guest never writes outside of path.',
    access: 'exec',
    params: sandboxPath,
    query: pushFilesQuery,
    body: {
      kind: 'bytes',
      contentType: 'application/octet-stream',
      description: 'a tar archive, plain or compressed with gzip; an empty body writes nothing',
    },
    answers: [{ status: 200, description: 'number of files and bytes written', content: json(pushResult) }],
    errors: {
      400:
        'a parameter is invalid, the archive is damaged, an entry leads outside of path, or the disk of the ' +
        'guest is full',
      404: 'the sandbox does not exist',
      502: GUEST,
    },
    example: { params: { id: SANDBOX_ID }, query: { path: '/srv' }, answer: { files: 0, bytes: 0 } },
  },
} as const satisfies Record<string, Route>;
