// A trail on disk, and lines for it.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import type { Test } from 'tap';
import {
  ANCHOR_TABLE,
  type AuditEntry,
  AuditTrail,
  type Link,
  verifyTrail,
} from '../../../../host-agent/src/audit/index.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';

export const log = pino({ level: 'silent' });
export const entry = (n: number, more: Partial<AuditEntry> = {}): AuditEntry =>
  ({
    event: 'request',
    request: `req_${n}`,
    address: '192.0.2.1',
    key: 'ci',
    key_id: 'c1',
    route: 'exec',
    operation: 'exec',
    decision: 'allowed',
    status: 200,
    ms: n,
    ...more,
  }) as AuditEntry;

export async function open(t: Test, maxBytes = 2 ** 30) {
  const root = mkdtempSync(join(tmpdir(), 'audit-'));
  const store = await Store.open(join(root, 'state.lmdb'));
  t.teardown(async () => {
    await store.close();
    rmSync(root, { recursive: true });
  });
  const anchors = store.table<Link>(ANCHOR_TABLE);
  const dir = join(root, 'audit');
  const start = () => new AuditTrail({ dir, maxBytes, anchors, log });
  const files = () =>
    readdirSync(dir)
      .sort()
      .map((name) => join(dir, name));
  const lines = () => files().flatMap((path) => readFileSync(path, 'utf8').split('\n').slice(0, -1));
  return { dir, anchors, start, files, lines, store, verify: () => verifyTrail(dir, anchors) };
}
