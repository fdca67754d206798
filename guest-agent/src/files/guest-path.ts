// Absolute paths of requests as the bytes that the addon takes.
import { AgentError } from '@sandboxd/proto';

/** Throws AgentError for a path that is none. */
export function toPathBytes(path: string): string {
  if (!path.startsWith('/') || path.includes('\0'))
    throw new AgentError('invalid', `path ${JSON.stringify(path.slice(0, 120))} is not an absolute path`);
  return Buffer.from(path).toString('latin1');
}
