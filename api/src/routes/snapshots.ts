// Snapshots of sandboxes, and forks of snapshots.
import type { RequestLimits } from '../limits.ts';
import { sandboxPath, snapshotPath } from '../schemas/id.ts';
import { pageQuery } from '../schemas/page.ts';
import { sandboxList } from '../schemas/sandbox.ts';
import { forkQuery, forkRequest, importSnapshotQuery, snapshot, snapshotList } from '../schemas/snapshot.ts';
import { SANDBOX, SANDBOX_ID, SNAPSHOT, SNAPSHOT_ID } from './examples.ts';
import { json, jsonBody, type Route } from './route.ts';

const UNKNOWN = 'there is no such snapshot';

export function snapshotRoutes(limits: RequestLimits) {
  return {
    takeSnapshot: {
      method: 'POST',
      path: '/sandboxes/:id/snapshot',
      tag: 'snapshots',
      summary: 'Take a snapshot of a sandbox, which goes on',
      access: 'snapshot',
      params: sandboxPath,
      answers: [{ status: 201, description: 'the snapshot', content: json(snapshot) }],
      errors: { 404: 'there is no such sandbox', 502: 'the guest does not answer' },
      example: { params: { id: SANDBOX_ID }, answer: SNAPSHOT },
    },
    listSnapshots: {
      method: 'GET',
      path: '/snapshots',
      tag: 'snapshots',
      summary: 'List the snapshots',
      access: 'view',
      description: 'All of it, or with limit a page of it; next_cursor is there when more follows.',
      query: pageQuery,
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
      errors: { 404: UNKNOWN },
      example: { params: { id: SNAPSHOT_ID }, answer: SNAPSHOT },
    },
    exportSnapshot: {
      method: 'GET',
      path: '/snapshots/:id/export',
      tag: 'snapshots',
      summary: 'Export a snapshot as one stream, for another host',
      description: 'All that was in the memory of the guest is in it, keys and passwords included.',
      access: 'snapshot',
      readsGuest: true,
      params: snapshotPath,
      transport: 'stream',
      answers: [
        { status: 200, description: 'the archive', content: { 'application/zstd': { kind: 'bytes' } } },
      ],
      errors: { 404: UNKNOWN },
      example: { params: { id: SNAPSHOT_ID } },
    },
    importSnapshot: {
      method: 'POST',
      path: '/snapshots/import',
      tag: 'snapshots',
      summary: 'Import a snapshot that another host exported',
      description:
        'Devices are restored from it: import only what comes from a host that you trust. Keys of tenants may not.',
      access: 'snapshot',
      query: importSnapshotQuery,
      body: { kind: 'bytes', contentType: 'application/octet-stream', description: 'the archive' },
      answers: [{ status: 201, description: 'the snapshot', content: json(snapshot) }],
      errors: {
        400: 'it is no such archive, or cut off, or changed',
        409: 'this host has another engine, CPU or root filesystem; the difference is named',
      },
      example: { answer: SNAPSHOT },
    },
    deleteSnapshot: {
      method: 'DELETE',
      path: '/snapshots/:id',
      tag: 'snapshots',
      summary: 'Delete a snapshot',
      description: 'Its forks go on.',
      access: 'delete',
      params: snapshotPath,
      answers: [{ status: 204, description: 'it is gone' }],
      errors: { 404: UNKNOWN },
      example: { params: { id: SNAPSHOT_ID } },
    },
    forkSnapshot: {
      method: 'POST',
      path: '/snapshots/:id/fork',
      tag: 'snapshots',
      summary: 'Create sandboxes from a snapshot, all or none',
      access: 'fork',
      params: snapshotPath,
      query: forkQuery(limits),
      body: jsonBody(forkRequest(limits)),
      answers: [{ status: 201, description: 'the forks', content: json(sandboxList) }],
      errors: {
        400: 'a bad count, even in the query if that of the body wins; publish of several, or of a snapshot without a network',
        404: UNKNOWN,
        409: 'a port of the host is taken, or the snapshot was taken with another engine',
        500: 'the snapshot is damaged, or a fork could not be started',
        502: 'the guest does not answer',
      },
      example: {
        params: { id: SNAPSHOT_ID },
        body: { count: 1 },
        answer: { sandboxes: [{ ...SANDBOX, source_snapshot_id: SNAPSHOT_ID }] },
      },
    },
  } as const satisfies Record<string, Route>;
}
