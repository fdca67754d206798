// The console's page and files.

import { CONSOLE_PAGE, consolePolicy, decompress } from '../console-files.ts';
import type { HttpContext } from '../context.ts';
import { headerOf } from '../context.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';

const HEADERS = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  // A browser asks each time, so that page and script are of the same daemon; most answers are 304.
  'Cache-Control': 'no-cache',
  Vary: 'Accept-Encoding',
} as const;

export function consoleHandlers({ console: files, portLinks }: Pick<HttpServices, 'console' | 'portLinks'>) {
  const answer = (c: HttpContext, name: string): Response => {
    const file = files.get(name);
    const policy = consolePolicy(portLinks?.source());
    const headers = { ...HEADERS, 'Content-Security-Policy': policy, ETag: file.etag };
    if (matches(headerOf(c, 'if-none-match'), file.etag)) return c.body(null, 304, headers);
    const isCompressed = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(
      headerOf(c, 'accept-encoding') ?? '',
    );
    return c.body(isCompressed ? file.gzip : decompress(file), 200, {
      ...headers,
      'Content-Type': file.type,
      ...(isCompressed && { 'Content-Encoding': 'gzip' }),
    });
  };
  return {
    showConsole: (_, c) => answer(c, CONSOLE_PAGE),
    readConsoleFile: ({ params: { file } }, c) => answer(c, file),
  } satisfies Partial<Handlers>;
}

/** By the weak comparison of RFC 9110: proxies that change the encoding mark the ETag as weak. */
function matches(header: string | undefined, etag: string): boolean {
  const tags = header?.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return tags?.some((tag) => tag === '*' || tag === etag) === true;
}
