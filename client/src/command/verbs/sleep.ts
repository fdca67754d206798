// `sandbox pause` and `resume`.
import { ApiError } from '../../errors.ts';
import type { Sandbox } from '../../sandbox.ts';
import type { Session, Verb } from '../verb.ts';

export const pause: Verb = {
  name: 'pause',
  operands: '<sandbox…>',
  completes: ['sandbox'],
  summary: 'Pause sandboxes: save them, and free their memory and CPUs',
  details: 'What needs the guest of a paused sandbox resumes it.',
  flags: { 'disk-only': { type: 'boolean', help: 'keep only the disk; the sandbox boots again' } },
  example: 'sandbox pause $ID',
  run: ({ operands, isSet }, session) =>
    forEach(operands, session, (sandbox, signal) => sandbox.pause({ memory: !isSet('disk-only'), signal })),
};

export const resume: Verb = {
  name: 'resume',
  operands: '<sandbox…>',
  completes: ['sandbox'],
  summary: 'Resume paused sandboxes',
  flags: {},
  example: 'sandbox resume $ID',
  run: ({ operands }, session) => forEach(operands, session, (sandbox, signal) => sandbox.resume({ signal })),
};

/** Prints the id of each that was changed. */
async function forEach(
  ids: readonly string[],
  { client, terminal, signal, isJson }: Session,
  change: (sandbox: Sandbox, signal: AbortSignal) => Promise<object>,
): Promise<number> {
  const changed: object[] = [];
  const failed: { id: string; error: string; code?: string }[] = [];
  for (const id of new Set(ids)) {
    try {
      changed.push(await change(client.sandboxes.get(id), signal));
      if (!isJson) terminal.print(id);
    } catch (error) {
      signal.throwIfAborted();
      const { message } = error as Error;
      const { code } = error instanceof ApiError ? error : {};
      failed.push({ id, error: message, ...(code && { code }) });
      if (!isJson) terminal.complain(message);
    }
  }
  if (isJson) terminal.printJson({ sandboxes: changed, failed });
  return failed.length === 0 ? 0 : 1;
}
