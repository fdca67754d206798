// A question of gateways: which sandbox is meant by a signed URL of a file, or by an access token, that names none. No
// client may ask it.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { EnvdAccess } from './envd/access.ts';

const OWNER_PATH = '/sandboxd/owner';
const METHOD = 'sandboxd-method';
const TOKEN = 'x-access-token';

/** The request of a gateway for a request of a client. */
export function toOwnerRequest({ method = 'GET', headers, url = '' }: IncomingMessage) {
  const query = url.split('?')[1] ?? '';
  const token = headers[TOKEN];
  return {
    path: `${OWNER_PATH}?${query}`,
    headers: [METHOD, method, ...(typeof token === 'string' ? [TOKEN, token] : [])],
  };
}

export function isOwnerRequest({ url = '' }: IncomingMessage): boolean {
  return url.split('?', 1)[0] === OWNER_PATH;
}

/** `{"id"}`, or 404. */
export async function answerOwner(
  access: EnvdAccess,
  { headers, url = '' }: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { [METHOD]: method, [TOKEN]: token } = headers;
  const query = Object.fromEntries(new URLSearchParams(url.split('?')[1]));
  const found =
    typeof token === 'string' ? await access.find(token) : await access.findSigner(String(method), query);
  response.writeHead(found === undefined ? 404 : 200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ id: found?.id }));
}
