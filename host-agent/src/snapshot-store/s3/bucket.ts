// One bucket of an S3-compatible server: a few calls on small objects, with retries and at most 16 requests at once.
import { type Agent as HttpAgent, request as httpRequest, Agent as PlainAgent } from 'node:http';
import { request as httpsRequest, Agent as TlsAgent } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import PQueue from 'p-queue';
import { backOffMs } from '../../lib/back-off.ts';
import { enqueue } from '../../lib/concurrency-limit.ts';
import {
  BucketError,
  type FailedAnswer,
  readElement,
  toAnswerError,
  toConnectionError,
} from './bucket-error.ts';
import { type Credentials, encodePath, signRequest, toQuery, type UnsignedRequest } from './signature.ts';

export const MAX_REQUESTS = 16;
const ATTEMPTS = 5;
const BACK_OFF = { firstMs: 200, mostMs: 5000, jitter: 0.25 };
/** Without a byte. */
const IDLE_TIMEOUT_MS = 20_000;
/** Of one request: objects have a few MiB. */
const REQUEST_TIMEOUT_MS = 120_000;
const MAX_ERROR_BYTES = 64 * 1024;
const MAX_LIST_BYTES = 8 * 2 ** 20;
const MAX_LIST_PAGES = 100_000;
/** S3's own limit. */
const MAX_PAGE_ENTRIES = 1000;

export type BucketOptions = {
  readonly endpoint: URL;
  readonly bucket: string;
  /** Empty, or without a slash at its ends. */
  readonly prefix: string;
  readonly region: string;
  /** `virtual`: the bucket is in the host name. */
  readonly addressing: 'path' | 'virtual';
  /** PEM of authorities beside the public ones. */
  readonly ca?: string | undefined;
  readonly credentials: () => Credentials;
  /** Called with each attempt's result, for metrics. */
  readonly onRequest?: (what: string, result: 'ok' | 'failed') => void;
};

/** `agoMs`: since its last write, both by the clock of the server. */
export type ObjectInfo = { readonly agoMs: number; readonly sizeBytes: number };

export type ListedObject = ObjectInfo & {
  /** Without the prefix of the bucket's options. */
  readonly key: string;
  readonly etag: string;
};

type Call = Omit<UnsignedRequest, 'host' | 'path'> & {
  /** Empty: the bucket. */
  readonly key: string;
  /** A longer answer fails. */
  readonly maxBytes?: number;
  readonly signal?: AbortSignal | undefined;
};

export class Bucket {
  readonly #options: BucketOptions;
  readonly #agent: HttpAgent;
  readonly #queue = new PQueue({ concurrency: MAX_REQUESTS });
  readonly #host: string;
  readonly #root: string;

  constructor(options: BucketOptions) {
    this.#options = options;
    const { endpoint, bucket, addressing, ca } = options;
    const base = endpoint.pathname.replace(/\/+$/, '');
    this.#host = addressing === 'virtual' ? `${bucket}.${endpoint.host}` : endpoint.host;
    this.#root = addressing === 'virtual' ? base : `${base}/${bucket}`;
    const settings = { keepAlive: true, maxSockets: MAX_REQUESTS, timeout: IDLE_TIMEOUT_MS };
    this.#agent =
      endpoint.protocol === 'https:'
        ? new TlsAgent({ ...settings, ...(ca !== undefined && { ca }) })
        : new PlainAgent(settings);
  }

  /** For messages and records; it has no secrets. */
  get name(): string {
    const { endpoint, bucket, prefix } = this.#options;
    return `${endpoint.origin} s3://${bucket}/${prefix}`;
  }

  close(): void {
    this.#agent.destroy();
  }

  /** Undefined: there is none. Rejects with BucketError, or the signal's reason, as all calls do. */
  async get(key: string, maxBytes: number, signal?: AbortSignal): Promise<Buffer | undefined> {
    return (await this.#findObject({ method: 'GET', key, maxBytes, signal }))?.body;
  }

  /** With what `replace` compares. */
  async read(
    key: string,
    maxBytes: number,
    signal?: AbortSignal,
  ): Promise<{ readonly body: Buffer; readonly etag: string; readonly agoMs: number } | undefined> {
    const answer = await this.#findObject({ method: 'GET', key, maxBytes, signal });
    if (answer === undefined) return undefined;
    const { agoMs } = toInfo(answer.headers, 0);
    return { body: answer.body, etag: String(answer.headers.etag ?? ''), agoMs };
  }

  async head(key: string, signal?: AbortSignal): Promise<ObjectInfo | undefined> {
    const answer = await this.#findObject({ method: 'HEAD', key, signal });
    return answer && toInfo(answer.headers, Number(answer.headers['content-length'] ?? 0));
  }

  async put(key: string, body: Uint8Array, signal?: AbortSignal): Promise<void> {
    await this.#send({ method: 'PUT', key, body, signal });
  }

  /** False if there is one already, which may be that of an attempt whose answer was lost. */
  async putNew(key: string, body: Uint8Array, signal?: AbortSignal): Promise<boolean> {
    return await this.#putIf({ 'if-none-match': '*' }, { method: 'PUT', key, body, signal });
  }

  /** False if it is another by now, or gone; also when the answer to the attempt that changed it was lost. */
  async replace(key: string, etag: string, body: Uint8Array, signal?: AbortSignal): Promise<boolean> {
    return await this.#putIf({ 'if-match': etag }, { method: 'PUT', key, body, signal });
  }

  async #putIf(headers: Record<string, string>, call: Call): Promise<boolean> {
    try {
      await this.#send({ ...call, headers });
      return true;
    } catch (error) {
      if (error instanceof BucketError && error.status === 412) return false;
      throw error;
    }
  }

  /** Gives an object a new age without sending it. False if there is none, or the server cannot do it. */
  async touch(key: string, signal?: AbortSignal): Promise<boolean> {
    const path = encodePath(`/${this.#options.bucket}/${this.#toKey(key)}`);
    const headers = {
      'x-amz-copy-source': path,
      'x-amz-metadata-directive': 'REPLACE',
      'x-amz-meta-touched': `${Date.now()}`,
    };
    try {
      const { body } = await this.#send({ method: 'PUT', key, headers, signal, maxBytes: MAX_ERROR_BYTES });
      // A copy may fail behind the status 200.
      return body.includes('CopyObjectResult');
    } catch (error) {
      if (error instanceof BucketError && !error.isTransient) return false;
      throw error;
    }
  }

  /** It may be gone already. */
  async remove(key: string, signal?: AbortSignal): Promise<void> {
    await this.#findObject({ method: 'DELETE', key, signal });
  }

  /** All objects below a path, in pages. */
  async *list(path: string, signal?: AbortSignal): AsyncGenerator<readonly ListedObject[]> {
    let token: string | undefined;
    for (let page = 0; page < MAX_LIST_PAGES; page++) {
      const query = {
        'list-type': '2',
        prefix: this.#toKey(path),
        ...(token !== undefined && { 'continuation-token': token }),
      };
      const { body, headers } = await this.#send({
        ...{ method: 'GET', key: '', query, maxBytes: MAX_LIST_BYTES, signal },
      });
      const xml = body.toString('utf8');
      if (!xml.includes('<ListBucketResult'))
        throw new BucketError(`${this.name} did not answer a list as S3 does`, { isTransient: false });
      yield this.#readPage(xml, headers);
      const next =
        readElement(xml, 'IsTruncated') === 'true' ? readElement(xml, 'NextContinuationToken') : undefined;
      if (next === undefined || next === token) return;
      token = next;
    }
    throw new BucketError(`${this.name} has too many objects below ${path}`, { isTransient: false });
  }

  #readPage(xml: string, headers: FailedAnswer['headers']): ListedObject[] {
    const nowMs = Date.parse(String(headers.date)) || Date.now();
    const own = this.#toKey('');
    const entries = readEntries(xml);
    if (entries === undefined)
      throw new BucketError(`${this.name} sent more than ${MAX_PAGE_ENTRIES} objects in a page`, {
        isTransient: false,
      });
    return entries.flatMap((entry) => {
      const key = readElement(entry, 'Key') ?? '';
      const writtenMs = Date.parse(readElement(entry, 'LastModified') ?? '');
      if (!key.startsWith(own) || Number.isNaN(writtenMs)) return [];
      return {
        key: key.slice(own.length),
        etag: readElement(entry, 'ETag') ?? '',
        sizeBytes: Number(readElement(entry, 'Size') ?? 0),
        agoMs: nowMs - writtenMs,
      };
    });
  }

  #toKey(path: string): string {
    const { prefix } = this.#options;
    return prefix === '' ? path : `${prefix}/${path}`;
  }

  async #findObject(call: Call): Promise<FailedAnswer | undefined> {
    try {
      return await this.#send(call);
    } catch (error) {
      if (!(error instanceof NoSuchKey)) throw error;
      return undefined;
    }
  }

  async #send(call: Call): Promise<FailedAnswer> {
    const what = call.headers?.['x-amz-copy-source'] ? 'COPY' : call.key === '' ? 'LIST' : call.method;
    for (let failures = 1; ; failures++) {
      try {
        const answer = await enqueue(this.#queue, () => this.#attempt(call), call.signal);
        this.#options.onRequest?.(what, 'ok');
        return answer;
      } catch (error) {
        call.signal?.throwIfAborted();
        this.#options.onRequest?.(what, error instanceof NoSuchKey ? 'ok' : 'failed');
        const isTransient = error instanceof BucketError && error.isTransient;
        if (!isTransient || failures >= ATTEMPTS) throw error;
        await sleep(backOffMs(failures, BACK_OFF), undefined, call.signal && { signal: call.signal });
      }
    }
  }

  async #attempt(call: Call): Promise<FailedAnswer> {
    const { bucket, endpoint } = this.#options;
    const place = { bucket, endpoint: endpoint.origin };
    const answer = await this.#exchange(call).catch((error) => {
      throw error instanceof BucketError ? error : toConnectionError(error, place);
    });
    if (answer.status >= 200 && answer.status < 300) return answer;
    const code = readElement(answer.body.toString('utf8'), 'Code');
    // An answer to HEAD has no body that would tell whether the bucket is missing.
    const isObject = code === undefined || code === 'NoSuchKey' || call.method !== 'GET';
    if (answer.status === 404 && call.key !== '' && call.method !== 'PUT' && isObject)
      throw new NoSuchKey(call.key);
    throw toAnswerError(answer, place, Date.now());
  }

  #exchange({ method, key, query, headers, body, maxBytes = 0, signal }: Call): Promise<FailedAnswer> {
    const { endpoint, region, credentials } = this.#options;
    const path = `${this.#root}${key === '' ? (this.#root === '' ? '/' : '') : `/${encodePath(this.#toKey(key))}`}`;
    const unsigned = { method, host: this.#host, path, query, headers, body } as UnsignedRequest;
    const signed = signRequest(unsigned, credentials(), region, new Date());
    const { promise, resolve, reject } = Promise.withResolvers<FailedAnswer>();
    const isTls = endpoint.protocol === 'https:';
    const [hostname = ''] = this.#host.split(/:\d+$/);
    const request = (isTls ? httpsRequest : httpRequest)(
      {
        ...{
          method,
          agent: this.#agent,
          hostname: hostname.replace(/^\[|\]$/g, ''),
          port: endpoint.port || undefined,
        },
        path: query === undefined ? path : `${path}?${toQuery(query)}`,
        headers: { ...signed, ...(method === 'PUT' && { 'content-length': body?.length ?? 0 }) },
        timeout: IDLE_TIMEOUT_MS,
        signal: AbortSignal.any([AbortSignal.timeout(REQUEST_TIMEOUT_MS), ...(signal ? [signal] : [])]),
      },
      (response) => {
        const { statusCode: status = 0, headers: answered } = response;
        const limit = status >= 200 && status < 300 ? maxBytes : MAX_ERROR_BYTES;
        const chunks: Buffer[] = [];
        let length = 0;
        response.on('data', (chunk: Buffer) => {
          length += chunk.length;
          if (length > limit) {
            const message = `${this.name} sent more than ${limit} bytes of ${key}`;
            reject(new BucketError(message, { isTransient: false, status, code: 'internal' }));
            request.destroy();
          } else chunks.push(chunk);
        });
        response.on('error', reject);
        response.on('end', () => {
          if (!response.complete) return reject(new Error('the answer was cut off'));
          resolve({ status, headers: answered, body: Buffer.concat(chunks) });
        });
      },
    );
    request.on('timeout', () => request.destroy(new Error(`no answer for ${IDLE_TIMEOUT_MS / 1000} s`)));
    request.on('error', reject);
    request.end(body);
    return promise;
  }
}

/** Undefined: they are too many. Not a regular expression: one would search for each missing end again. */
function readEntries(xml: string): string[] | undefined {
  const [open, close] = ['<Contents>', '</Contents>'];
  const entries: string[] = [];
  for (let from = 0; ; ) {
    const start = xml.indexOf(open, from);
    const end = start < 0 ? -1 : xml.indexOf(close, start);
    if (end < 0) return entries;
    if (entries.length >= MAX_PAGE_ENTRIES) return undefined;
    entries.push(xml.slice(start + open.length, end));
    from = end + close.length;
  }
}

class NoSuchKey extends Error {}

function toInfo(headers: FailedAnswer['headers'], sizeBytes: number): ObjectInfo {
  const nowMs = Date.parse(String(headers.date)) || Date.now();
  const writtenMs = Date.parse(String(headers['last-modified']));
  return { agoMs: Number.isNaN(writtenMs) ? Number.POSITIVE_INFINITY : nowMs - writtenMs, sizeBytes };
}
