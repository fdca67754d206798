// Flags that every verb has, and the place of the verb among them.
import { HELP_FLAG, type Input, parseInput as parse, takesNext } from '@sandboxd/api/command-line';
import type { Flags, Verb } from './verb.ts';

/** Flags of every verb. */
export const GLOBAL_FLAGS: Flags = {
  host: {
    type: 'string',
    placeholder: 'url',
    help: 'address of the daemon: http://…, https://… or unix:/path',
  },
  context: {
    type: 'string',
    placeholder: 'name',
    help: 'context to use instead of the current one',
    completes: 'context',
  },
  ca: {
    type: 'string',
    placeholder: 'file',
    help: 'trusted CA certificates for https:// (PEM)',
    completes: 'path',
  },
  json: { type: 'boolean', help: 'print JSON' },
  ...HELP_FLAG,
};

/** Index of the verb: the first argument that is neither a global flag nor its value; −1 without a verb. */
export function findVerbIndex(args: readonly string[]): number {
  for (let at = 0; at < args.length; at++) {
    const word = args[at] ?? '';
    if (!word.startsWith('-')) return at;
    if (takesNext(GLOBAL_FLAGS, word)) at++;
  }
  return -1;
}

export function parseInput(verb: Verb, args: readonly string[]): Input {
  return parse(`sandbox ${verb.name}`, { ...verb, flags: { ...GLOBAL_FLAGS, ...verb.flags } }, args);
}
