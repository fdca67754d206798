// Files of a sandbox.
import {
  changeFileRequest,
  copyFileRequest,
  copyResult,
  fileEntry,
  fileList,
  listFilesQuery,
  makeDirectoryRequest,
  moveFileRequest,
  pushFilesQuery,
  pushResult,
  readContentQuery,
  readFileQuery,
  removeFilesQuery,
  removeResult,
  statFileQuery,
  watchEvent,
  watchFilesQuery,
  writeContentQuery,
} from '../schemas/file.ts';
import { sandboxPath } from '../schemas/id.ts';
import { SANDBOX_ID } from './examples.ts';
import { json, jsonBody, type Route } from './route.ts';

const GUEST = 'the guest does not respond';
const MISSING = 'the sandbox or the file does not exist';
const FAILED =
  'a parameter is invalid, or the guest cannot do it, such as without permission or on a full disk';
const EXISTS = 'the new name exists, or the directory is not empty';
const ENTRY_HEADERS = {
  ETag: 'changes with the content and attributes of the file',
  'Last-Modified': 'modification time',
};
const CONDITIONS = {
  'If-Match': 'one or more ETags, or *: fails with 412 unless the file exists and has one of them',
  'If-None-Match': 'one or more ETags, or *: the opposite',
};

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
      'modification time. Root, or `owner`, owns what is extracted. The guest never writes outside of path.',
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
  statFile: {
    method: 'GET',
    path: '/sandboxes/:id/files/stat',
    tag: 'files',
    summary: 'Show a file: kind, size, permissions, owner, times',
    access: 'read',
    readsGuest: true,
    params: sandboxPath,
    query: statFileQuery,
    answers: [
      {
        status: 200,
        description: 'the file',
        content: json(fileEntry),
        headers: { ETag: ENTRY_HEADERS.ETag },
      },
    ],
    errors: { 400: FAILED, 404: MISSING, 502: GUEST },
    example: { params: { id: SANDBOX_ID }, query: { path: '/etc/os-release' } },
  },
  listFiles: {
    method: 'GET',
    path: '/sandboxes/:id/files/list',
    tag: 'files',
    summary: 'List a directory, optionally with its subdirectories',
    access: 'read',
    readsGuest: true,
    params: sandboxPath,
    query: listFilesQuery,
    answers: [{ status: 200, description: 'a page of entries', content: json(fileList) }],
    errors: { 400: FAILED, 404: MISSING, 502: GUEST },
    example: { params: { id: SANDBOX_ID }, query: { path: '/etc', limit: '2' } },
  },
  watchFiles: {
    method: 'GET',
    path: '/sandboxes/:id/files/watch',
    tag: 'files',
    summary: 'Watch a directory for changes',
    description:
      'The answer is a stream of server-sent events, or of JSON lines if Accept names application/x-ndjson. It begins ' +
      'with `armed` and has no past: list the directory after that. The rights of the user apply to every directory.',
    access: 'read',
    readsGuest: true,
    params: sandboxPath,
    query: watchFilesQuery,
    transport: 'stream',
    answers: [
      {
        status: 200,
        description: 'the changes; the data field of each server-sent event holds the same JSON as a line',
        content: {
          'text/event-stream': { kind: 'bytes' },
          'application/x-ndjson': { kind: 'lines', schema: watchEvent },
        },
      },
    ],
    errors: { 400: FAILED, 404: MISSING, 501: 'the agent of the sandbox is too old', 502: GUEST },
    example: {
      params: { id: SANDBOX_ID },
      query: { path: '/srv' },
      answer: { type: 'armed', directories: 1 },
    },
  },
  readContent: {
    method: 'GET',
    path: '/sandboxes/:id/files/content',
    tag: 'files',
    summary: 'Read one file, or a range of its bytes',
    access: 'read',
    readsGuest: true,
    params: sandboxPath,
    query: readContentQuery,
    headers: {
      Range:
        'bytes=first-last, bytes=first- or bytes=-count; several ranges are answered with the whole file',
      'If-Range': 'an ETag: the range is ignored unless the file has it',
      ...CONDITIONS,
      'If-None-Match': 'one or more ETags, or *: 304 if the file has one of them',
    },
    transport: 'stream',
    answers: [
      {
        status: 200,
        description: 'the bytes of the file',
        content: { 'application/octet-stream': { kind: 'bytes' } },
        headers: { ...ENTRY_HEADERS, 'Accept-Ranges': 'bytes' },
      },
      {
        status: 206,
        description: 'the range',
        content: { 'application/octet-stream': { kind: 'bytes' } },
        headers: { ...ENTRY_HEADERS, 'Content-Range': 'bytes first-last/size' },
      },
      { status: 304, description: 'the client has the content already', headers: ENTRY_HEADERS },
    ],
    errors: {
      400: 'a parameter is invalid, or the path is a directory, is not a regular file or cannot be read',
      404: MISSING,
      412: 'the file does not have the ETag of If-Match',
      416: 'the file has no byte of the range; Content-Range has its size',
      502: GUEST,
    },
    example: { params: { id: SANDBOX_ID }, query: { path: '/etc/os-release' } },
  },
  writeContent: {
    method: 'PUT',
    path: '/sandboxes/:id/files/content',
    tag: 'files',
    summary: 'Write one file, all of it or nothing',
    description:
      'The content is written to a temporary file beside it, flushed to the disk and renamed, so readers see the ' +
      'old or the new content. A symbolic link is followed. Owner and permissions of an existing file stay.',
    access: 'exec',
    params: sandboxPath,
    query: writeContentQuery,
    headers: CONDITIONS,
    body: { kind: 'bytes', contentType: 'application/octet-stream', description: 'the content of the file' },
    answers: [
      {
        status: 200,
        description: 'the file',
        content: json(fileEntry),
        headers: { ETag: ENTRY_HEADERS.ETag },
      },
    ],
    errors: {
      400: FAILED,
      404: MISSING,
      412: 'the file is not as If-Match or If-None-Match demands',
      502: GUEST,
    },
    example: { params: { id: SANDBOX_ID }, query: { path: '/srv/empty' } },
  },
  makeDirectory: {
    method: 'POST',
    path: '/sandboxes/:id/files/mkdir',
    tag: 'files',
    summary: 'Make a directory',
    access: 'exec',
    params: sandboxPath,
    body: jsonBody(makeDirectoryRequest),
    answers: [{ status: 201, description: 'the directory', content: json(fileEntry) }],
    errors: { 400: FAILED, 404: MISSING, 409: 'the name exists', 502: GUEST },
    example: { params: { id: SANDBOX_ID }, body: { path: '/srv/data', may_exist: true } },
  },
  moveFile: {
    method: 'POST',
    path: '/sandboxes/:id/files/move',
    tag: 'files',
    summary: 'Move or rename a file or directory',
    access: 'exec',
    params: sandboxPath,
    body: jsonBody(moveFileRequest),
    answers: [{ status: 200, description: 'the file under its new name', content: json(fileEntry) }],
    errors: { 400: FAILED, 404: MISSING, 409: EXISTS, 502: GUEST },
    example: {
      params: { id: SANDBOX_ID },
      body: { path: '/etc/motd', to: '/etc/motd.old', overwrite: true },
    },
  },
  copyFile: {
    method: 'POST',
    path: '/sandboxes/:id/files/copy',
    tag: 'files',
    summary: 'Copy a file or directory',
    access: 'exec',
    params: sandboxPath,
    body: jsonBody(copyFileRequest),
    answers: [{ status: 201, description: 'the copy', content: json(copyResult) }],
    errors: { 400: FAILED, 404: MISSING, 409: EXISTS, 502: GUEST },
    example: {
      params: { id: SANDBOX_ID },
      body: { path: '/etc/os-release', to: '/etc/os-copy', overwrite: true },
    },
  },
  changeFile: {
    method: 'PATCH',
    path: '/sandboxes/:id/files',
    tag: 'files',
    summary: 'Change permissions, owner or modification time of a file',
    access: 'exec',
    params: sandboxPath,
    body: jsonBody(changeFileRequest),
    answers: [{ status: 200, description: 'the file', content: json(fileEntry) }],
    errors: { 400: FAILED, 404: MISSING, 502: GUEST },
    example: { params: { id: SANDBOX_ID }, body: { path: '/etc/os-release', mode: '0644' } },
  },
  removeFiles: {
    method: 'DELETE',
    path: '/sandboxes/:id/files',
    tag: 'files',
    summary: 'Remove a file or directory',
    access: 'exec',
    params: sandboxPath,
    query: removeFilesQuery,
    answers: [
      { status: 200, description: 'number of files and directories removed', content: json(removeResult) },
    ],
    errors: { 400: FAILED, 404: MISSING, 409: EXISTS, 502: GUEST },
    example: { params: { id: SANDBOX_ID }, query: { path: '/etc/os-copy' } },
  },
} as const satisfies Record<string, Route>;
