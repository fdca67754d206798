// A command that talks: `cat` behind the fake sandboxes, and what a client says to it.
import { EXEC_FRAME, encodeExecFrame } from '@sandboxd/api';
import type { Test } from 'tap';
import type { FakeExec } from './fake-sandboxes.ts';
import { type Served, serve } from './support.ts';

/** An exec request. */
export const BODY = '{"cmd":["cat"]}';

export const stdin = (text: string) => encodeExecFrame(EXEC_FRAME.stdin, Buffer.from(text));
export const stdinClose = encodeExecFrame(EXEC_FRAME.stdinClose, Buffer.alloc(0));

/** A guest's `cat`: echoes stdin, exits when that is closed. */
function cat(exec: FakeExec): void {
  exec.events.started?.(1);
  let echoed = 0;
  const echo = () => {
    for (; echoed < exec.stdin.length; echoed++) exec.output('stdout', exec.stdin[echoed]!);
  };
  exec.on('stdin', echo);
  echo();
  exec.on('closeStdin', () => exec.exit({ exitCode: 4 }));
  if (exec.calls.includes('closeStdin')) exec.exit({ exitCode: 4 });
  exec.on('cancel', () => exec.exit({ exitCode: -1, signal: 'SIGKILL' }));
}

export async function serveCat(t: Test, changes = {}): Promise<Served & { id: string }> {
  const served = await serve(t, changes);
  served.sandboxes.script = cat;
  return { ...served, id: served.sandboxes.add().id };
}

/** The head of a request for the whole connection. */
export function head(id: string, more = `Content-Length: ${BODY.length}\r\n`): string {
  return `POST /sandboxes/${id}/exec?stdin=1 HTTP/1.1\r\nHost: x\r\n${more}\r\n`;
}
