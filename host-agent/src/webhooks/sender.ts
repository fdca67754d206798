// One delivery attempt: signed as https://www.standardwebhooks.com defines, with a timeout, and only to the configured
// URL.
import { createHmac } from 'node:crypto';
import { request } from 'node:http';
import { request as tlsRequest } from 'node:https';
import { errnoOf, toError } from '../lib/errors.ts';

/** From the first byte to the head of the response. The body is not read. */
const TIMEOUT_MS = 10_000;

export type Message = {
  readonly url: string;
  readonly secret: string;
  readonly id: string;
  readonly body: string;
};

/** Undefined if it was accepted (2xx), else the reason, as a phrase that contains no text of the receiver. */
export async function send(
  { url, secret, id, body }: Message,
  signal?: AbortSignal,
  timeoutMs = TIMEOUT_MS,
): Promise<string | undefined> {
  const timestamp = Math.floor(Date.now() / 1000);
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'user-agent': 'sandboxd',
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': sign(secret, id, timestamp, body),
  };
  const limit = AbortSignal.timeout(timeoutMs);
  const either = signal === undefined ? limit : AbortSignal.any([signal, limit]);
  try {
    const status = await new Promise<number>((resolve, reject) => {
      // Neither follows redirects nor uses proxies of the environment (SSRF).
      const open = url.startsWith('https:') ? tlsRequest : request;
      // No keep-alive: each request has its own connection.
      const outgoing = open(url, { method: 'POST', headers, agent: false, signal: either });
      outgoing.once('error', reject);
      outgoing.once('response', (incoming) => {
        resolve(incoming.statusCode ?? 0);
        incoming.on('error', () => undefined);
        incoming.destroy();
      });
      // Without this handler, an upgrade response would end neither with a status nor with an error.
      outgoing.once('upgrade', (incoming, socket) => {
        socket.destroy();
        resolve(incoming.statusCode ?? 0);
      });
      outgoing.end(body);
    });
    if (status >= 200 && status < 300) return undefined;
    return status >= 300 && status < 400
      ? `status ${status}: redirects are not followed`
      : `status ${status}`;
  } catch (error) {
    if (limit.aborted) return `no answer within ${timeoutMs / 1000} s`;
    return errnoOf(error) ?? toError(error).name;
  }
}

/** `v1,` and a base64 HMAC-SHA256 of id, time and body. */
export function sign(secret: string, id: string, timestampS: number, body: string): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  return `v1,${createHmac('sha256', key).update(`${id}.${timestampS}.${body}`).digest('base64')}`;
}
