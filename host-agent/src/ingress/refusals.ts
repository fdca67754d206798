// Answers of the ingress itself: a small page for browsers, JSON for programs.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { toErrorAnswer } from '../http/errors.ts';
import { REQUEST_ID_HEADER } from '../http/middleware.ts';

const TITLES: Readonly<Record<number, string>> = {
  400: 'Invalid request',
  401: 'Invalid key or link',
  403: 'Not allowed',
  404: 'Nothing here',
  408: 'Too slow',
  409: 'The sandbox is paused',
  429: 'Too many connections',
  431: 'Too many headers',
  502: 'Nothing answers on this port',
  503: 'Busy',
  504: 'The sandbox does not answer',
};

/** Does nothing but close the connection if an answer has begun. */
export function refuse(
  request: IncomingMessage,
  response: ServerResponse,
  error: unknown,
  requestId: string,
): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const { status, headers, body } = toErrorAnswer(error, requestId);
  const isPage = /\btext\/html\b/.test(request.headers.accept ?? '');
  const text = isPage ? toPage(status, body.error, requestId) : JSON.stringify(body);
  for (const name of response.getHeaderNames()) response.removeHeader(name);
  if (request.httpVersionMajor === 1 && !request.complete) response.shouldKeepAlive = false;
  response.writeHead(status, {
    ...headers,
    [REQUEST_ID_HEADER.toLowerCase()]: requestId,
    'content-type': isPage ? 'text/html; charset=utf-8' : 'application/json',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...(isPage && {
      'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    }),
  });
  response.end(request.method === 'HEAD' ? undefined : text);
}

function toPage(status: number, message: string, requestId: string): string {
  const title = TITLES[status] ?? 'Error';
  const sentence = message.charAt(0).toUpperCase() + message.slice(1);
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${title}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:15vh auto;padding:0 1em}small{color:#777}</style>
<h1>${title}</h1>
<p>${escapeHtml(sentence)}.</p>
<p><small>${status} · ${escapeHtml(requestId)} · sandboxd</small></p>
</html>
`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
