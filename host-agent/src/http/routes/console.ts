// The console's page and files.

import { CONSOLE_PAGE, toConsoleAnswer } from '../console-files.ts';
import { type HttpContext, headerOf } from '../context.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';

export function consoleHandlers({ console: files, portLinks }: Pick<HttpServices, 'console' | 'portLinks'>) {
  const answer = (c: HttpContext, name: string): Response => {
    const { status, headers, body } = toConsoleAnswer(files, name, {
      ifNoneMatch: headerOf(c, 'if-none-match'),
      acceptEncoding: headerOf(c, 'accept-encoding'),
      frames: portLinks?.source(),
    });
    return body === null ? c.body(null, status, headers) : c.body(body, status, headers);
  };
  return {
    showConsole: (_, c) => answer(c, CONSOLE_PAGE),
    readConsoleFile: ({ params: { file } }, c) => answer(c, file),
  } satisfies Partial<Handlers>;
}
