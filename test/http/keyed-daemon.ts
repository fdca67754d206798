// A daemon with keys whose sandboxes are in memory: the real manager, registry and files.
import type { Test } from 'tap';
import type { NewKey } from '../../host-agent/src/keys/index.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { openKeyring } from './keyed.ts';
import { makeApp } from './support.ts';

const GIB = 2 ** 30;

export async function startKeyed(t: Test) {
  const keyring = await openKeyring(t);
  const daemon = await startMemoryDaemon(t, {
    quotaOf: (tenant) => keyring.registry.quotaOf(tenant),
  });
  const { app } = makeApp({
    sandboxes: daemon.manager,
    logs: daemon.logs,
    authenticator: keyring.authenticator,
    limits: { vcpus: 4, memoryMib: 4096, diskBytes: GIB, sandboxes: 100, fork: 64 },
  });
  /** One who has a key. */
  const as = async (wanted: Partial<NewKey> = {}) => {
    const key = await keyring.make(wanted);
    return async (method: string, path: string, body?: unknown) => {
      const response = await app.request(path, {
        method,
        headers: { authorization: `Bearer ${key}` },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      const isJson = text.startsWith('{');
      return { status: response.status, ...(isJson ? JSON.parse(text) : {}), text };
    };
  };
  const root = await as();
  const snapshotOf = async (options: object): Promise<string> => {
    const { id } = await root('POST', '/sandboxes', options);
    const snapshot = await root('POST', `/sandboxes/${id}/snapshot`);
    return snapshot.id;
  };
  return { keyring, daemon, as, root, snapshotOf };
}
