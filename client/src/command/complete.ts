// Shell completion: candidates for verbs, flags, flag values, and the daemon's resources.

import { takesNext } from '@sandboxd/api/command-line';
import type { Client } from '../client.ts';
import { GLOBAL_FLAGS } from './args.ts';
import { readContexts, resolveContext, toClient } from './context.ts';
import type { Flags, OperandKind, Verb } from './verb.ts';

type Candidate = { readonly name: string; readonly help?: string };

export type Completion = { readonly candidates: readonly Candidate[]; readonly hasFiles: boolean };

/** Lists names of one kind, as far as they are available. */
type Lister = (kind: string, flags: Readonly<Record<string, string>>) => Promise<readonly Candidate[]>;

/** A person is waiting, so a slow daemon yields no candidates. */
const LIST_TIMEOUT_MS = 3000;
const NONE: Completion = { candidates: [], hasFiles: false };

/** Returns the candidates for the last word, which is incomplete. */
export async function complete(
  words: readonly string[],
  verbs: readonly Verb[],
  list: Lister = listFromDaemon,
): Promise<Completion> {
  const current = words.at(-1) ?? '';
  const { verb, operands, flags, open, isCommand } = read(words.slice(0, -1), verbs);
  const known: Flags = { ...verb?.flags, ...GLOBAL_FLAGS };
  const begins = ({ candidates, hasFiles }: Completion): Completion => ({
    candidates: candidates.filter(({ name }) => name.startsWith(current)),
    hasFiles,
  });
  const namesOf = async (kind: OperandKind | undefined): Promise<Completion> => {
    if (kind === undefined) return NONE;
    if (typeof kind !== 'string') return { candidates: kind.map((name) => ({ name })), hasFiles: false };
    const hasFiles = kind === 'path' || kind === 'place';
    return { candidates: kind === 'path' ? [] : await list(kind, flags), hasFiles };
  };
  if (open !== undefined) return begins(await namesOf(known[open]?.values ?? known[open]?.completes));
  if (isCommand) return { candidates: [], hasFiles: true };
  if (current.startsWith('-')) return begins({ candidates: describe(known), hasFiles: false });
  if (verb === undefined)
    return operands > 0
      ? NONE
      : begins({ candidates: verbs.map(({ name, summary }) => ({ name, help: summary })), hasFiles: false });
  const kinds = verb.completes ?? [];
  return begins(await namesOf(kinds[Math.min(operands, kinds.length - 1)]));
}

/** Parses the words before the cursor: the verb, its number of operands, flag values, and a flag without its value. */
function read(words: readonly string[], verbs: readonly Verb[]) {
  let verb: Verb | undefined;
  let operands = 0;
  let open: string | undefined;
  let isCommand = false;
  const flags: Record<string, string> = {};
  for (const word of words) {
    const known: Flags = { ...verb?.flags, ...GLOBAL_FLAGS };
    if (open !== undefined) {
      flags[open] = word;
      open = undefined;
    } else if (isCommand) continue;
    else if (word === '--') isCommand = verb?.commandFrom !== undefined;
    else if (word.startsWith('-') && word !== '-') {
      const [, name = '', value] = /^--([^=]+)(?:=(.*))?$/s.exec(word) ?? [];
      if (value !== undefined) flags[name] = value;
      else if (takesNext(known, word)) open = name || findByLetter(known, word.at(-1) ?? '');
    } else if (verb === undefined) {
      verb = verbs.find(({ name }) => name === word);
      if (verb === undefined) operands++;
    } else {
      operands++;
      // Flags after this word belong to the command in the sandbox.
      isCommand = verb.commandFrom !== undefined && operands > verb.commandFrom;
    }
  }
  return { verb, operands, flags, open, isCommand };
}

function findByLetter(flags: Flags, letter: string): string | undefined {
  return Object.keys(flags).find((name) => flags[name]?.short === letter);
}

function describe(flags: Flags): Candidate[] {
  return Object.entries(flags).flatMap(([name, { short, help }]) => [
    { name: `--${name}`, help },
    ...(short === undefined ? [] : [{ name: `-${short}`, help }]),
  ]);
}

/** Errors yield no candidates, because a message would disturb the prompt. */
async function listFromDaemon(
  kind: string,
  flags: Readonly<Record<string, string>>,
): Promise<readonly Candidate[]> {
  try {
    if (kind === 'context')
      return Object.entries(readContexts().contexts).map(([name, { host }]) => ({ name, help: host }));
    return await toNames(kind, toClient(resolveContext(flags)));
  } catch {
    return [];
  }
}

async function toNames(kind: string, client: Client): Promise<readonly Candidate[]> {
  const options = { timeoutMs: LIST_TIMEOUT_MS };
  const sandboxes = async () =>
    (await client.sandboxes.list(options)).flatMap(({ id, name, profile = 'image' }) => [
      { name: id, help: profile },
      ...(name === undefined ? [] : [{ name, help: id }]),
    ]);
  const snapshots = async () =>
    (await client.snapshots.list(options)).map(({ id, source_id }) => ({
      name: id,
      help: `of ${source_id}`,
    }));
  const images = async () => {
    const found = await client.images.list(options).catch(() => []);
    return found.flatMap(({ refs, digest }) => (refs ?? [digest]).map((name) => ({ name, help: 'image' })));
  };
  const profiles = async () =>
    (await client.profiles(options)).profiles.map((name) => ({ name, help: 'profile' }));
  switch (kind) {
    case 'sandbox':
      return sandboxes();
    case 'snapshot':
      return snapshots();
    case 'id':
      return (await Promise.all([sandboxes(), snapshots()])).flat();
    case 'place':
      return (await sandboxes()).map(({ name, help }) => ({ name: `${name}:`, help }));
    case 'image':
      return images();
    case 'source':
      return (await Promise.all([profiles(), images()])).flat();
    default:
      return profiles();
  }
}
