// A daemon with keys whose sandboxes are in memory: the real manager, registry and files.
import { pino } from 'pino';
import type { Test } from 'tap';
import { AnswerRecords } from '../../host-agent/src/idempotency/index.ts';
import type { NewKey } from '../../host-agent/src/keys/index.ts';
import { type MemoryDaemonOptions, startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { openKeyring } from './keyed.ts';
import { makeApp } from './support.ts';

const GIB = 2 ** 30;

export async function startKeyed(t: Test, options: MemoryDaemonOptions = {}) {
  const keyring = await openKeyring(t);
  const daemon = await startMemoryDaemon(t, {
    quotaOf: (tenant) => keyring.registry.quotaOf(tenant),
    policyOfOwner: (owner) => keyring.registry.policyOfOwner(owner),
    ...options,
  });
  const answers = new AnswerRecords(daemon.store, pino({ level: 'silent' }));
  const { app } = makeApp({
    sandboxes: daemon.manager,
    logs: daemon.logs,
    egressLog: daemon.egressLog,
    secrets: daemon.secrets.secretStore,
    digestSecrets: (text) => daemon.secrets.sandboxSecrets.digest(text),
    answers,
    authenticator: keyring.authenticator,
    limits: { vcpus: 4, memoryMib: 4096, diskBytes: GIB, sandboxes: 100, fork: 64 },
  });
  /** One who has a key. */
  const as = async (wanted: Partial<NewKey> = {}) => {
    const key = await keyring.make(wanted);
    return async (
      method: string,
      path: string,
      body?: unknown,
      headers: Readonly<Record<string, string>> = {},
    ) => {
      const isRaw = body instanceof Uint8Array || typeof body === 'string';
      const response = await app.request(path, {
        method,
        headers: { authorization: `Bearer ${key}`, ...headers },
        ...(body !== undefined && { body: isRaw ? body : JSON.stringify(body) }),
      } as RequestInit);
      const text = await response.text();
      const isJson = text.startsWith('{');
      const replayed = response.headers.get('idempotent-replayed');
      return { status: response.status, ...(isJson ? JSON.parse(text) : {}), text, replayed };
    };
  };
  const root = await as();
  const snapshotOf = async (options: object): Promise<string> => {
    const { id } = await root('POST', '/sandboxes', options);
    const snapshot = await root('POST', `/sandboxes/${id}/snapshot`);
    return snapshot.id;
  };
  return { keyring, daemon, app, answers, as, root, snapshotOf };
}
