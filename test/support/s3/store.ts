// A snapshot store over the S3 server of a test: in this process, or the one of S3=http://key:secret@host:port/bucket.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import {
  type OpenedSnapshotStore,
  openSnapshotStore,
  type StoreSettings,
} from '../../../host-agent/src/snapshot-store/index.ts';
import { TEST_CREDENTIALS } from './server.ts';

/** Files for the settings of a store, which hosts of one test share. */
export function makeStoreSettings(
  t: Pick<Test, 'teardown'>,
  url: string,
  change: Partial<StoreSettings> = {},
): StoreSettings {
  const dir = mkdtempSync(join(tmpdir(), 'store-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const [keyFile, credentialsFile] = [join(dir, 'key'), join(dir, 'credentials')];
  const { username, password, origin, pathname } = new URL(url);
  const id = username || TEST_CREDENTIALS.accessKeyId;
  const secret = password ? decodeURIComponent(password) : TEST_CREDENTIALS.secretAccessKey;
  writeFileSync(keyFile, randomBytes(32), { mode: 0o600 });
  writeFileSync(
    credentialsFile,
    `[default]\naws_access_key_id = ${id}\naws_secret_access_key = ${secret}\n`,
    { mode: 0o600 },
  );
  return {
    bucket: pathname.slice(1) || 'bucket',
    prefix: `test-${randomBytes(6).toString('hex')}`,
    endpoint: new URL(origin),
    region: 'us-east-1',
    addressing: 'path',
    ...{ keyFile, credentialsFile },
    ...change,
  };
}

export function openTestStore(t: Test, settings: StoreSettings): OpenedSnapshotStore {
  const opened = openSnapshotStore(settings);
  t.teardown(() => opened.store.close());
  t.teardown(() => opened.collector.close());
  return opened;
}

/** Of a daemon whose store has these settings. */
export function storeFlags({
  bucket,
  prefix,
  endpoint,
  keyFile,
  credentialsFile = '',
}: StoreSettings): string[] {
  return [
    ...['--snapshot-store', `s3://${bucket}/${prefix}`, '--snapshot-store-endpoint', endpoint.origin],
    ...['--snapshot-store-key-file', keyFile ?? '', '--snapshot-store-credentials-file', credentialsFile],
  ];
}
