// Opens the snapshot store that the settings name: keys and credentials come from files, or credentials of systemd.
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { AppError, firstLine } from '../lib/errors.ts';
import { KEY_FILE, readPrivateFile } from '../lib/private-file.ts';
import { Bucket, type BucketOptions } from './s3/bucket.ts';
import type { Credentials } from './s3/signature.ts';
import { SnapshotStore } from './snapshot-store.ts';
import { StoreCollector } from './store-collector.ts';
import { StoreKeys } from './store-keys.ts';

/** Names among systemd's credentials. */
const KEY_NAME = 'snapshot-store-key';
const CREDENTIALS_NAME = 'snapshot-store-credentials';

const CREDENTIALS_FILE = {
  minBytes: 1,
  maxBytes: 16 * 1024,
  advice: 'it has lines such as aws_access_key_id = … and aws_secret_access_key = …',
};
/** A changed file is read again after this time. */
const REREAD_MS = 10_000;

export type StoreSettings = {
  readonly bucket: string;
  readonly prefix: string;
  readonly endpoint: URL;
  readonly region: string;
  readonly addressing: 'path' | 'virtual';
  /** Absent: only public authorities. */
  readonly caFile?: string;
  /** Absent: credentials of systemd. */
  readonly keyFile?: string;
  readonly credentialsFile?: string;
  /** `$CREDENTIALS_DIRECTORY` of systemd. */
  readonly credentialsDir?: string;
};

export type OpenedSnapshotStore = {
  readonly store: SnapshotStore;
  readonly collector: StoreCollector;
};

/** AppError `internal` if a file cannot be used. The bucket is not asked. */
export function openSnapshotStore(
  settings: StoreSettings,
  onRequest?: BucketOptions['onRequest'],
): OpenedSnapshotStore {
  const { bucket, prefix, endpoint, region, addressing, caFile } = settings;
  const keyFile = findFile(settings, 'snapshot_store_key_file', settings.keyFile, KEY_NAME);
  const material = readPrivateFile(keyFile.path, {
    ...keyFile,
    ...KEY_FILE,
    what: 'the key of the snapshot store',
  });
  const keys = new StoreKeys(material);
  const options = {
    ...{ bucket, prefix, endpoint, region, addressing, onRequest },
    credentials: watchCredentials(settings),
    ...(caFile !== undefined && { ca: readCa(caFile) }),
  };
  const opened = new Bucket(options as BucketOptions);
  return {
    store: new SnapshotStore({ bucket: opened, keys }),
    collector: new StoreCollector({ bucket: opened, keys }),
  };
}

type FoundFile = { readonly path: string; readonly isCredential: boolean };

function findFile(
  { credentialsDir }: StoreSettings,
  setting: string,
  named: string | undefined,
  credential: string,
): FoundFile {
  if (named !== undefined) return { path: named, isCredential: false };
  const path = credentialsDir === undefined ? undefined : join(credentialsDir, credential);
  if (path !== undefined && existsSync(path)) return { path, isCredential: true };
  throw new AppError(
    'internal',
    `snapshot_store needs ${setting}, or the credential ${credential} of systemd, and has neither`,
  );
}

/** Read again when the file changed: keys are rotated while the daemon runs. */
function watchCredentials(settings: StoreSettings): () => Credentials {
  const named = settings.credentialsFile;
  const file = findFile(settings, 'snapshot_store_credentials_file', named, CREDENTIALS_NAME);
  const options = { ...CREDENTIALS_FILE, ...file, what: 'the credentials of the snapshot store' };
  let checkedAt = performance.now();
  let mtimeMs = statSync(file.path, { throwIfNoEntry: false })?.mtimeMs;
  let credentials = parseCredentials(file.path, readPrivateFile(file.path, options).toString('utf8'));
  return () => {
    if (performance.now() - checkedAt < REREAD_MS) return credentials;
    checkedAt = performance.now();
    const now = statSync(file.path, { throwIfNoEntry: false })?.mtimeMs;
    if (now === undefined || now === mtimeMs) return credentials;
    // While it is being written, the old ones may still be good.
    try {
      credentials = parseCredentials(file.path, readPrivateFile(file.path, options).toString('utf8'));
      mtimeMs = now;
    } catch {
      return credentials;
    }
    return credentials;
  };
}

/** In the form of `~/.aws/credentials`; the first section counts. AppError `internal`. */
export function parseCredentials(path: string, text: string): Credentials {
  const values = new Map<string, string>();
  let sections = 0;
  for (const line of text.split('\n').map((each) => each.trim())) {
    if (line.startsWith('[')) sections += 1;
    const [, name, value] = /^(\w+)\s*=\s*(.*)$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined && sections <= 1) values.set(name.toLowerCase(), value);
  }
  const [accessKeyId, secretAccessKey] = [
    values.get('aws_access_key_id'),
    values.get('aws_secret_access_key'),
  ];
  const sessionToken = values.get('aws_session_token');
  const isValid = (word: string | undefined) => word === undefined || /^[\x21-\x7e]{1,4096}$/.test(word);
  const all = [accessKeyId, secretAccessKey, sessionToken];
  if (!accessKeyId || !secretAccessKey || !all.every(isValid))
    throw new AppError(
      'internal',
      `the credentials of the snapshot store, ${path}, cannot be used: ${CREDENTIALS_FILE.advice}`,
    );
  return { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) };
}

function readCa(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw new AppError('internal', `snapshot_store_ca_file ${path} cannot be read: ${firstLine(cause)}`, {
      cause,
    });
  }
}
