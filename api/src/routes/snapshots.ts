// Snapshots of sandboxes, and forks of snapshots.
import type { RequestLimits } from '../limits.ts';
import { sandboxPath, snapshotPath } from '../schemas/id.ts';
import { sandbox } from '../schemas/sandbox.ts';
import { sandboxList } from '../schemas/sandbox-list.ts';
import {
  changeSnapshotRequest,
  diffRequest,
  forkQuery,
  forkRequest,
  importSnapshotQuery,
  rollbackRequest,
  snapshot,
  snapshotDiff,
  snapshotList,
  snapshotRequest,
  snapshotsQuery,
  snapshotTree,
  snapshotTreeQuery,
} from '../schemas/snapshot.ts';
import { SANDBOX, SANDBOX_ID, SNAPSHOT, SNAPSHOT_ID } from './examples.ts';
import { json, jsonBody, KEYED, KEYED_ANSWER, type Route } from './route.ts';

const UNKNOWN = 'the snapshot does not exist';
const NO_STORE = 'the snapshot is not on this host, and the snapshot store does not respond';
const NO_FIT = 'the snapshot is only in the snapshot store, and does not fit this host';

export function snapshotRoutes(limits: RequestLimits) {
  return {
    takeSnapshot: {
      method: 'POST',
      path: '/sandboxes/:id/snapshot',
      tag: 'snapshots',
      summary: 'Take a snapshot of a running sandbox, which continues to run',
      access: 'snapshot',
      params: sandboxPath,
      headers: KEYED,
      body: jsonBody(snapshotRequest),
      answers: [{ status: 201, description: 'the snapshot', content: json(snapshot), headers: KEYED_ANSWER }],
      errors: {
        404: 'the sandbox does not exist',
        409: 'a snapshot has the name',
        502: 'the guest does not respond',
      },
      example: { params: { id: SANDBOX_ID }, body: { labels: { stage: 'ready' } }, answer: SNAPSHOT },
    },
    listSnapshots: {
      method: 'GET',
      path: '/snapshots',
      tag: 'snapshots',
      summary: 'List snapshots',
      access: 'view',
      description:
        'Returns the whole list, or one page if limit is set. next_cursor is present if more entries follow.',
      query: snapshotsQuery,
      answers: [{ status: 200, description: 'the snapshots', content: json(snapshotList) }],
      example: { answer: { snapshots: [SNAPSHOT] } },
    },
    getSnapshot: {
      method: 'GET',
      path: '/snapshots/:id',
      tag: 'snapshots',
      summary: 'Show a snapshot',
      access: 'view',
      params: snapshotPath,
      answers: [{ status: 200, description: 'the snapshot', content: json(snapshot) }],
      errors: { 404: UNKNOWN, 502: NO_STORE },
      example: { params: { id: SNAPSHOT_ID }, answer: SNAPSHOT },
    },
    showSnapshotTree: {
      method: 'GET',
      path: '/snapshots/:id/tree',
      tag: 'snapshots',
      summary: 'Show the snapshots and sandboxes that came from each other',
      access: 'view',
      description:
        'Returns the whole tree that the snapshot belongs to, in pages of at most 1000 entries: next_cursor is ' +
        'present if more follow. A deleted snapshot that others came from is in it, and its id may be used here.',
      params: snapshotPath,
      query: snapshotTreeQuery,
      answers: [{ status: 200, description: 'the tree', content: json(snapshotTree) }],
      errors: { 404: UNKNOWN, 502: NO_STORE },
      example: {
        params: { id: SNAPSHOT_ID },
        answer: {
          nodes: [
            {
              kind: 'snapshot',
              id: SNAPSHOT_ID,
              created_at: '2026-03-14T15:10:02.120Z',
              source_id: SANDBOX_ID,
            },
            {
              kind: 'sandbox',
              id: SANDBOX_ID,
              parent_id: SNAPSHOT_ID,
              created_at: '2026-03-14T15:12:31.004Z',
              state: 'running',
            },
          ],
        },
      },
    },
    diffSnapshots: {
      method: 'POST',
      path: '/snapshots/:id/diff',
      tag: 'snapshots',
      summary: 'List the files that differ between the disks of two snapshots',
      description:
        'Compares what the guests see as their root directory, from the snapshot of the path to that of `with`. ' +
        'Neither is started. Times alone do not count. Returns pages: next_cursor is present if more follow.',
      access: 'read',
      readsGuest: true,
      params: snapshotPath,
      body: jsonBody(diffRequest),
      answers: [{ status: 200, description: 'the files', content: json(snapshotDiff) }],
      errors: {
        404: 'one of the snapshots does not exist',
        409: 'a disk is damaged, or there is too much to compare; the error says which',
        502: NO_STORE,
      },
      example: {
        params: { id: SNAPSHOT_ID },
        body: { with: SNAPSHOT_ID },
        answer: {
          files: [
            {
              path: '/etc/hosts',
              change: 'changed',
              kind: 'file',
              size_bytes: 212,
              mode: '0644',
              uid: 0,
              gid: 0,
              differs: ['content'],
              before: { kind: 'file', size_bytes: 158, mode: '0644', uid: 0, gid: 0 },
            },
            { path: '/srv/app', change: 'added', kind: 'directory', mode: '0755', uid: 1000, gid: 1000 },
          ],
        },
      },
    },
    changeSnapshot: {
      method: 'PATCH',
      path: '/snapshots/:id',
      tag: 'snapshots',
      summary: 'Change the name, labels, comment and expiry of a snapshot',
      access: 'snapshot',
      params: snapshotPath,
      body: jsonBody(changeSnapshotRequest),
      answers: [{ status: 200, description: 'the snapshot', content: json(snapshot) }],
      errors: { 404: UNKNOWN, 409: `another snapshot has the name, or ${NO_FIT}`, 502: NO_STORE },
      example: {
        params: { id: SNAPSHOT_ID },
        body: { name: 'golden', labels: { stage: 'tested', draft: null } },
        answer: SNAPSHOT,
      },
    },
    exportSnapshot: {
      method: 'GET',
      path: '/snapshots/:id/export',
      tag: 'snapshots',
      summary: 'Export a snapshot as an archive that another host can import',
      description: 'The archive holds the whole memory of the guest, including keys and passwords.',
      access: 'snapshot',
      readsGuest: true,
      params: snapshotPath,
      transport: 'stream',
      answers: [
        { status: 200, description: 'the archive', content: { 'application/zstd': { kind: 'bytes' } } },
      ],
      errors: { 404: UNKNOWN, 409: NO_FIT, 502: NO_STORE },
      example: { params: { id: SNAPSHOT_ID } },
    },
    exportSandbox: {
      method: 'GET',
      path: '/sandboxes/:id/export',
      tag: 'snapshots',
      summary: 'Export a paused sandbox as an archive, from which another host makes a snapshot',
      description:
        'The sandbox stays paused. The archive is that of a snapshot: it holds the whole memory of the guest, ' +
        'including keys and passwords.',
      access: 'snapshot',
      readsGuest: true,
      params: sandboxPath,
      transport: 'stream',
      answers: [
        { status: 200, description: 'the archive', content: { 'application/zstd': { kind: 'bytes' } } },
      ],
      errors: {
        404: 'the sandbox does not exist',
        409: 'the sandbox is not paused, or was paused without its memory',
      },
      example: { params: { id: SANDBOX_ID } },
    },
    importSnapshot: {
      method: 'POST',
      path: '/snapshots/import',
      tag: 'snapshots',
      summary: 'Import a snapshot archive of another host',
      description:
        'The VMM restores its device state from the archive, so import only archives of hosts that you trust. ' +
        'The key of a tenant may not import.',
      access: 'snapshot',
      query: importSnapshotQuery,
      headers: KEYED,
      body: { kind: 'bytes', contentType: 'application/octet-stream', description: 'the archive' },
      answers: [{ status: 201, description: 'the snapshot', content: json(snapshot), headers: KEYED_ANSWER }],
      errors: {
        400: 'the body is not a snapshot archive, is truncated or was modified',
        409: 'this host has a different engine, CPU or root filesystem; the error names the difference',
      },
      example: { answer: SNAPSHOT },
    },
    deleteSnapshot: {
      method: 'DELETE',
      path: '/snapshots/:id',
      tag: 'snapshots',
      summary: 'Delete a snapshot',
      description: 'Its forks continue to run.',
      access: 'delete',
      params: snapshotPath,
      answers: [{ status: 204, description: 'the snapshot is deleted' }],
      errors: { 404: UNKNOWN, 502: NO_STORE },
      example: { params: { id: SNAPSHOT_ID } },
    },
    forkSnapshot: {
      method: 'POST',
      path: '/snapshots/:id/fork',
      tag: 'snapshots',
      summary: 'Fork a snapshot into one or more new sandboxes, all or none',
      access: 'fork',
      params: snapshotPath,
      query: forkQuery(limits),
      headers: KEYED,
      body: jsonBody(forkRequest(limits)),
      answers: [{ status: 201, description: 'the forks', content: json(sandboxList), headers: KEYED_ANSWER }],
      errors: {
        400: 'count is invalid or not that of children, or publish or name is used for several forks',
        404: UNKNOWN,
        409: 'the name or a host port is in use, or the snapshot was taken with a different engine',
        500: 'the snapshot is damaged, or a fork could not be started',
        502: `the guest does not respond, or ${NO_STORE}`,
      },
      example: {
        params: { id: SNAPSHOT_ID },
        body: { count: 1 },
        answer: { sandboxes: [{ ...SANDBOX, source_snapshot_id: SNAPSHOT_ID }] },
      },
    },
    forkSandbox: {
      method: 'POST',
      path: '/sandboxes/:id/fork',
      tag: 'snapshots',
      summary: 'Fork a running or paused sandbox into one or more new ones, all or none',
      description:
        'As a fork of a snapshot that is taken now and not kept. The sandbox continues to run; a paused one stays ' +
        'paused if its memory was saved, and else is resumed.',
      access: 'fork',
      alsoNeeds: { operation: 'snapshot', when: 'always' },
      params: sandboxPath,
      query: forkQuery(limits),
      headers: KEYED,
      body: jsonBody(forkRequest(limits)),
      answers: [{ status: 201, description: 'the forks', content: json(sandboxList), headers: KEYED_ANSWER }],
      errors: {
        400: 'count is invalid or not that of children, or publish or name is used for several forks',
        404: 'the sandbox does not exist',
        409: 'a name or a host port is in use, or the paused sandbox was saved with a different engine',
        500: 'the sandbox could not be saved, or a fork could not be started',
        502: 'the guest does not respond',
      },
      example: {
        params: { id: SANDBOX_ID },
        body: { children: [{ name: 'left' }, { name: 'right', labels: { side: 'r' } }] },
        answer: { sandboxes: [{ ...SANDBOX, source_sandbox_id: SANDBOX_ID }] },
      },
    },
    rollbackSandbox: {
      method: 'POST',
      path: '/sandboxes/:id/rollback',
      tag: 'snapshots',
      summary: 'Go back to a snapshot: the sandbox gets its memory and disk, and keeps its id',
      description:
        'The snapshot must be of this sandbox, or one that the sandbox comes from. Name, labels, environment, ' +
        'addresses, host ports and log stay. What runs in the sandbox ends. On failure the sandbox goes on as it ' +
        'was. If the client disconnects, the rollback continues.',
      access: 'exec',
      params: sandboxPath,
      body: jsonBody(rollbackRequest),
      answers: [{ status: 200, description: 'the sandbox; its guest responds', content: json(sandbox) }],
      errors: {
        404: 'the sandbox or the snapshot does not exist',
        409: 'the sandbox does not come from the snapshot, or the engine does not fit it',
        500: 'the snapshot is damaged or could not be restored; the sandbox goes on as it was',
        502: 'the guest does not respond',
      },
      example: { params: { id: SANDBOX_ID }, body: { snapshot_id: SNAPSHOT_ID }, answer: SANDBOX },
    },
  } as const satisfies Record<string, Route>;
}
