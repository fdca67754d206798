// The id in a request's path.
import { AppError } from '../../lib/errors.ts';
import { type IdKind, isId } from '../../lib/ids.ts';
import { type HttpContext, show } from '../context.ts';
import { decodeText } from './query.ts';

/** The path's sandbox id; 400 when it cannot be one. Later log lines of the request carry it. */
export function readSandboxId(c: HttpContext): string {
  return readId(c, 'sbx', 'sandbox');
}

/** The path's snapshot id, likewise. */
export function readSnapshotId(c: HttpContext): string {
  return readId(c, 'snap', 'snapshot');
}

function readId(c: HttpContext, kind: IdKind, name: string): string {
  const id = decodeText(new URL(c.req.url).pathname.split('/', 3)[2] ?? '', `${name} id`);
  if (!isId(kind, id)) {
    throw new AppError(
      'invalid_argument',
      `${name} id ${show(id)} is malformed; expected ${kind}_ and 13 characters of 0-9 and a-v`,
    );
  }
  c.set('log', c.var.log.child({ [name]: id }));
  return id;
}
