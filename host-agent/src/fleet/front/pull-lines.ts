// Progress of a pull on several hosts, as lines of which each names its host. The last one has the image or the error.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { toError } from '../../lib/errors.ts';
import type { Host } from '../catalogue.ts';
import { type JsonBody, Sending } from './body.ts';
import { answer } from './creates.ts';
import { keyRefusalOf, refusalOf } from './fan-out.ts';
import { type HostAnswer, type HostConnections, type HostRequest, toHostError } from './host-connections.ts';
import { parseJson } from './json.ts';

const LINES = 'application/x-ndjson';
const MAX_REFUSAL_BYTES = 64 * 1024;
const UPSTREAM = { code: 'upstream', status: 502 } as const;

const line = z.looseObject({
  progress: z.string().optional(),
  image: z.looseObject({}).optional(),
  error: z.string().optional(),
});

type Ended = {
  readonly host: string;
  readonly image?: object | undefined;
  /** Before its first line. */
  readonly refusal?: HostAnswer;
  readonly error?: string | undefined;
};

export type PullLinesOptions = {
  readonly response: ServerResponse;
  readonly connections: HostConnections;
  readonly signal: AbortSignal;
};

export class PullLines {
  readonly #options: PullLinesOptions;

  constructor(options: PullLinesOptions) {
    this.#options = options;
  }

  /** If all hosts refuse, the refusal of one is the client’s answer. */
  async run(hosts: readonly Host[], request: HostRequest, body: JsonBody): Promise<void> {
    const { response } = this.#options;
    const sending = new Sending(body, hosts.length);
    const ended = await Promise.all(hosts.map((host) => this.#pull(host, request, body, sending)));
    const asked = ended.map(({ refusal }) => ({ found: refusal }));
    const refused = ended.every(({ refusal }) => refusal !== undefined) ? refusalOf(asked) : undefined;
    const refusal =
      refused ?? (ended.some(({ image }) => image !== undefined) ? undefined : keyRefusalOf(asked));
    if (refusal !== undefined && !response.headersSent) return answer(response, refusal);
    const done = ended.filter(({ image }) => image !== undefined);
    const failed = ended.filter(({ image }) => image === undefined);
    const names = done.map(({ host }) => host).sort();
    const reasons = failed.map(({ host, error = 'it ended early' }) => `${host} (${error})`).sort();
    const error = `the image is pulled on ${names.join(', ') || 'no host'}, and not on ${reasons.join(', ')}`;
    this.#write(failed.length > 0 ? { error, ...UPSTREAM } : { image: { ...done[0]?.image, hosts: names } });
    response.end();
  }

  async #pull(host: Host, request: HostRequest, body: JsonBody, sending: Sending): Promise<Ended> {
    using sent = sending.begin();
    const { connections, signal } = this.#options;
    const outgoing = connections.open(host, request);
    const onAbort = (): void => void outgoing.destroy(toError(signal.reason));
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      const received = await new Promise<IncomingMessage>((resolve, reject) => {
        outgoing.once('response', resolve).on('error', reject);
        outgoing.once('finish', sent.onSent).end(body.bytes);
      });
      if (received.statusCode !== 200) {
        const refusal = { answer: received, body: await readSome(received) };
        return { host: host.name, refusal, error: toReason(refusal) };
      }
      return await this.#read(host.name, received);
    } catch (error) {
      return { host: host.name, error: toHostError(host, error).message };
    } finally {
      signal.removeEventListener('abort', onAbort);
      outgoing.destroy();
    }
  }

  async #read(host: string, received: IncomingMessage): Promise<Ended> {
    // The end of the lines says it, too.
    received.on('error', () => undefined);
    for await (const text of createInterface({ input: received, crlfDelay: Number.POSITIVE_INFINITY })) {
      const { data } = line.safeParse(parseJson(text));
      if (data?.image !== undefined || data?.error !== undefined)
        return { host, image: data.image, error: data.error };
      // A client that reads slowly misses steps, as at a host.
      if (data !== undefined && !this.#options.response.writableNeedDrain) this.#write({ ...data, host });
    }
    return { host };
  }

  #write(value: object): void {
    const { response } = this.#options;
    if (response.destroyed) return;
    if (!response.headersSent)
      response.writeHead(200, { 'content-type': LINES, 'cache-control': 'no-store' });
    response.write(`${JSON.stringify(value)}\n`);
  }
}

function toReason({ body, answer: { statusCode } }: HostAnswer): string {
  const { data } = line.safeParse(parseJson(body.toString()));
  return data?.error ?? `status ${statusCode}`;
}

async function readSome(received: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of received) {
    sizeBytes += chunk.length;
    if (sizeBytes > MAX_REFUSAL_BYTES) throw new Error('its answer is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
