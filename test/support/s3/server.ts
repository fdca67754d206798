// A small S3 server in this process: buckets in memory, real HTTP, signatures verified, lists with pages, and faults.
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { verifySignature } from './verify-signature.ts';

export const TEST_CREDENTIALS = { accessKeyId: 'AKIATEST', secretAccessKey: 'secret/of+test' };

export type StoredObject = { body: Buffer; writtenMs: number };

/** What happens to a request instead of its answer; undefined: nothing. `lost`: it is carried out before that. */
export type Fault = { readonly status: number; readonly code: string } | 'cut' | 'hang' | 'lost' | undefined;

export class S3Server {
  readonly objects: Map<string, StoredObject>;
  /** Method and key of each request. */
  readonly requests: { readonly method: string; readonly key: string }[] = [];
  fault: (method: string, key: string) => Fault | Promise<Fault> = () => undefined;
  pageSize = 1000;
  /** Whether If-None-Match and If-Match count. */
  isConditional = true;
  /** Of the server's clock. */
  skewMs = 0;
  /** Whether clients must have about the same time. */
  checksClocks = true;
  url = '';
  readonly bucket: string;

  constructor(bucket: string, objects = new Map<string, StoredObject>()) {
    this.bucket = bucket;
    this.objects = objects;
  }

  /** Requests of a method whose key matches. */
  count(method: string, key: RegExp): number {
    return this.requests.filter((each) => each.method === method && key.test(each.key)).length;
  }

  /** Ages all objects. */
  age(ms: number): void {
    for (const object of this.objects.values()) object.writtenMs -= ms;
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const url = new URL(request.url ?? '/', 'http://s3');
    // Virtual-hosted requests have the bucket in the host name.
    const [, byName] = /^(.+)\.localhost(?::\d+)?$/.exec(request.headers.host ?? '') ?? [];
    const [, bucket = '', ...rest] = `${byName ? `/${byName}` : ''}${url.pathname}`.split('/');
    const key = decodeURIComponent(rest.join('/'));
    const method = request.method ?? '';
    this.requests.push({ method, key });
    const refuse = (status: number, code: string) => {
      response.writeHead(status, { date: this.#now().toUTCString(), 'content-type': 'application/xml' });
      response.end(method === 'HEAD' ? undefined : `<Error><Code>${code}</Code><Message>m</Message></Error>`);
    };
    const fault = await this.fault(method, key);
    if (fault === 'hang') return void (await sleep(3_600_000, undefined, { ref: false }));
    if (fault === 'cut') return void request.socket.destroy();
    if (fault === 'lost') response.end = () => request.socket.destroy() && response;
    else if (fault !== undefined) return refuse(fault.status, fault.code);
    const at = this.checksClocks ? this.#now() : timeOf(request);
    const problem = verifySignature(request, body, TEST_CREDENTIALS, at);
    if (problem !== undefined) return refuse(403, problem);
    if (bucket !== this.bucket) return refuse(404, 'NoSuchBucket');
    if (key === '') return this.#list(url.searchParams, response);
    this.#object(method, key, { request, body, response, refuse });
  }

  #object(
    method: string,
    key: string,
    {
      request,
      body,
      response,
      refuse,
    }: {
      request: IncomingMessage;
      body: Buffer;
      response: ServerResponse;
      refuse: (status: number, code: string) => void;
    },
  ): void {
    const object = this.objects.get(key);
    const headers = { date: this.#now().toUTCString() };
    if (method === 'PUT') {
      const source = request.headers['x-amz-copy-source'];
      const { 'if-none-match': not, 'if-match': known } = request.headers;
      const isRefused = not === '*' ? object : known && (!object || known !== etagOf(object));
      if (this.isConditional && isRefused) {
        refuse(412, 'PreconditionFailed');
        return;
      }
      const from =
        source === undefined
          ? undefined
          : this.objects.get(decodeURIComponent(String(source)).replace(`/${this.bucket}/`, ''));
      if (source !== undefined && from === undefined) {
        refuse(404, 'NoSuchKey');
        return;
      }
      this.objects.set(key, { body: from?.body ?? body, writtenMs: this.#now().getTime() });
      response.writeHead(200, headers);
      response.end(source === undefined ? '' : '<CopyObjectResult></CopyObjectResult>');
      return;
    }
    if (method === 'DELETE') {
      this.objects.delete(key);
      response.writeHead(204, headers).end();
      return;
    }
    if (object === undefined) {
      refuse(404, 'NoSuchKey');
      return;
    }
    response.writeHead(200, {
      ...headers,
      etag: etagOf(object),
      'last-modified': new Date(object.writtenMs).toUTCString(),
      'content-length': object.body.length,
    });
    response.end(method === 'HEAD' ? undefined : object.body);
  }

  #list(query: URLSearchParams, response: ServerResponse): void {
    const prefix = query.get('prefix') ?? '';
    const after = query.get('continuation-token') ?? '';
    const keys = [...this.objects.keys()].filter((key) => key.startsWith(prefix) && key > after).sort();
    const page = keys.slice(0, this.pageSize);
    const isTruncated = keys.length > page.length;
    const entries = page.map((key) => {
      const object = this.objects.get(key);
      const etag = createHash('md5')
        .update(object?.body ?? '')
        .digest('hex');
      const at = new Date(object?.writtenMs ?? 0).toISOString();
      const size = object?.body.length ?? 0;
      return `<Contents><Key>${key}</Key><LastModified>${at}</LastModified><ETag>&quot;${etag}&quot;</ETag><Size>${size}</Size></Contents>`;
    });
    const next = isTruncated ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : '';
    response.writeHead(200, { date: this.#now().toUTCString(), 'content-type': 'application/xml' });
    response.end(
      `<?xml version="1.0"?><ListBucketResult><IsTruncated>${isTruncated}</IsTruncated>${next}${entries.join('')}</ListBucketResult>`,
    );
  }

  #now(): Date {
    return new Date(Date.now() + this.skewMs);
  }
}

function timeOf({ headers }: IncomingMessage): Date {
  const [, year, month, day, ...time] =
    /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(String(headers['x-amz-date'])) ?? [];
  return new Date(`${year}-${month}-${day}T${time.join(':')}Z`);
}

function etagOf({ body }: StoredObject): string {
  return `"${createHash('md5').update(body).digest('hex')}"`;
}

export type S3Options = {
  readonly bucket?: string;
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer };
  /** Where it keeps them. */
  readonly objects?: Map<string, StoredObject>;
};

export async function startS3(
  t: Pick<Test, 'teardown'>,
  { bucket = 'bucket', tls, objects }: S3Options = {},
): Promise<S3Server> {
  const s3 = new S3Server(bucket, objects);
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    s3.handle(request, response).catch(() => response.destroy());
  };
  const server = tls === undefined ? createServer(answer) : createTlsServer(tls, answer);
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  t.teardown(async () => {
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
  });
  s3.url = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return s3;
}
