// AWS Signature Version 4, in the headers of a request.
import { createHash, createHmac } from 'node:crypto';

export type Credentials = {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Of temporary credentials. */
  readonly sessionToken?: string;
};

export type UnsignedRequest = {
  readonly method: string;
  /** As the header Host has it. */
  readonly host: string;
  /** Encoded by `encodePath`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Further headers, with names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
};

const ALGORITHM = 'AWS4-HMAC-SHA256';
const SERVICE = 's3';

/** All headers of the signed request. */
export function signRequest(
  { method, host, path, query = {}, headers = {}, body }: UnsignedRequest,
  { accessKeyId, secretAccessKey, sessionToken }: Credentials,
  region: string,
  now: Date,
): Record<string, string> {
  const time = now.toISOString().replaceAll(/[-:]|\.\d{3}/g, '');
  const day = time.slice(0, 8);
  const payload = createHash('sha256')
    .update(body ?? '')
    .digest('hex');
  const signed: Record<string, string> = {
    ...headers,
    host,
    'x-amz-content-sha256': payload,
    'x-amz-date': time,
    ...(sessionToken !== undefined && { 'x-amz-security-token': sessionToken }),
  };
  const names = Object.keys(signed).sort();
  const canonical = [
    method,
    path,
    toQuery(query),
    ...names.map((name) => `${name}:${signed[name]?.trim().replaceAll(/ +/g, ' ')}`),
    '',
    names.join(';'),
    payload,
  ].join('\n');
  const scope = `${day}/${region}/${SERVICE}/aws4_request`;
  const text = [ALGORITHM, time, scope, createHash('sha256').update(canonical).digest('hex')].join('\n');
  const key = [day, region, SERVICE, 'aws4_request'].reduce<Buffer | string>(
    (previous, part) => createHmac('sha256', previous).update(part).digest(),
    `AWS4${secretAccessKey}`,
  );
  const signature = createHmac('sha256', key).update(text).digest('hex');
  const authorization = `${ALGORITHM} Credential=${accessKeyId}/${scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`;
  return { ...signed, authorization };
}

/** Sorted and encoded, for the request line as well. */
export function toQuery(query: Readonly<Record<string, string>>): string {
  return Object.keys(query)
    .sort()
    .map((name) => `${encode(name)}=${encode(query[name] ?? '')}`)
    .join('&');
}

/** The path of an object's key: slashes stay. */
export function encodePath(path: string): string {
  return path.split('/').map(encode).join('/');
}

/** As RFC 3986 demands; encodeURIComponent leaves five characters more. */
function encode(text: string): string {
  const toHex = (char: string) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`;
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, toHex);
}
