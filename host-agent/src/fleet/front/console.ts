// The console at a gateway: the page of this program, over the interface that the gateway serves.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { CONSOLE_PAGE, type ConsoleFiles, toConsoleAnswer, toConsoleEntrance } from '../../http/index.ts';

export type ServedConsole = {
  readonly console: ConsoleFiles;
  /** Sources of pages of guests that it may show; absent: none. */
  readonly frames?: string | undefined;
};

/** Leads a person to the page; returns whether it did. */
export function leadToConsole(
  files: ConsoleFiles,
  { method = 'GET', headers: { accept = '' } }: IncomingMessage,
  response: ServerResponse,
  path: string,
): boolean {
  const target = toConsoleEntrance(files, { method, path, accept });
  if (target === undefined) return false;
  response.writeHead(302, { Location: target, Vary: 'Accept', 'Content-Length': 0 }).end();
  return true;
}

/** `path`: of the page, or of one of its files. AppError unsupported, not_found. */
export function serveConsole(
  { console: files, frames }: ServedConsole,
  { method, headers: sent }: IncomingMessage,
  response: ServerResponse,
  path: string,
): void {
  const name = path === '/console' ? CONSOLE_PAGE : path.slice('/console/'.length);
  const { status, headers, body } = toConsoleAnswer(files, name, {
    ifNoneMatch: sent['if-none-match'],
    acceptEncoding: [sent['accept-encoding']].flat().join(', '),
    frames,
  });
  response.writeHead(status, { ...headers, ...(body && { 'Content-Length': body.length }) });
  response.end(method === 'HEAD' || body === null ? undefined : body);
}
