// Converts absolute paths of requests to the byte strings that the addon takes.
import { AgentError } from '@sandboxd/proto';

/** Throws AgentError for an invalid path. */
export function toPathBytes(path: string): string {
  if (!path.startsWith('/') || path.includes('\0'))
    throw new AgentError('invalid', `path ${JSON.stringify(path.slice(0, 120))} is not an absolute path`);
  return Buffer.from(path).toString('latin1');
}
