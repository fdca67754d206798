// Settings of the snapshot store.
import { z } from 'zod';
import { choice, path, refuse, type Setting, text } from './values.ts';

/** The names that every S3 server takes. */
const LOCATION =
  /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/([A-Za-z0-9][\w.-]{0,127}(?:\/[A-Za-z0-9][\w.-]{0,127}){0,3}))?\/?$/;

export type StoreLocation = { readonly bucket: string; readonly prefix: string };

const endpoint: Setting<string> = {
  schema: z.string().transform((value, context) => parseEndpoint(value)?.href ?? refuse(context)),
  expected: 'an address such as https://s3.example:9000',
  placeholder: 'https://host:port',
  help: 'S3 server of the snapshot store; default: that of Amazon in the region',
  fromText: (value) => value,
};

export const SNAPSHOT_STORE_SETTINGS = {
  snapshot_store: text({
    pattern: LOCATION,
    expected: 's3://bucket or s3://bucket/prefix',
    placeholder: 's3://bucket/prefix',
    help: 'keep snapshots in this S3 bucket, too, for all hosts that name it',
  }),
  snapshot_store_endpoint: endpoint,
  snapshot_store_region: text({
    fallback: 'us-east-1',
    pattern: /^[a-z0-9-]{1,64}$/,
    expected: 'a region such as eu-central-1',
    placeholder: 'region',
    help: 'region of the snapshot store, as its server names it',
  }),
  snapshot_store_addressing: choice(['path', 'virtual'], {
    fallback: 'path',
    help: 'where requests name the bucket of the snapshot store: in the path or in the host name',
  }),
  snapshot_store_credentials_file: path({
    help: 'file with aws_access_key_id and aws_secret_access_key; read again when it changes; default: the credential snapshot-store-credentials of systemd',
  }),
  snapshot_store_key_file: path({
    help: 'file with the key that encrypts snapshots in the store, at least 32 bytes, the same on all hosts; default: the credential snapshot-store-key of systemd',
  }),
  snapshot_store_ca_file: path({
    help: 'certificates (PEM) that vouch for the server of the snapshot store, instead of the public ones',
  }),
};

/** Settings without a default value. */
export type OptionalStoreKey =
  | 'snapshot_store'
  | 'snapshot_store_endpoint'
  | 'snapshot_store_credentials_file'
  | 'snapshot_store_key_file'
  | 'snapshot_store_ca_file';

/** Of a valid setting. */
export function parseLocation(value: string): StoreLocation {
  const [, bucket = '', prefix = ''] = LOCATION.exec(value) ?? [];
  return { bucket, prefix };
}

function parseEndpoint(value: string): URL | undefined {
  const url = URL.parse(value);
  const isPlain = url?.username === '' && url.password === '' && url.search === '' && url.hash === '';
  return isPlain && ['http:', 'https:'].includes(url.protocol) ? url : undefined;
}
