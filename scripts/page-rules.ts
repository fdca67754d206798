// What pages and comments must look like: short lines, small table cells, the words of the field. `make check` reads
// every page and every source file by it.

export const MAX_LINE_CHARS = 120;
export const MAX_CELL_CHARS = 200;

type PrivateWord = { readonly pattern: RegExp; readonly instead: string };

/** Words that mean nothing to a reader from elsewhere. */
export const PRIVATE_WORDS: readonly PrivateWord[] = [
  { pattern: /\b(?:somebody|nobody|whoever)\b/i, instead: 'a client, tenant, user or process' },
  { pattern: /\banew\b/i, instead: 'again' },
  { pattern: /\ball the same\b/i, instead: 'nevertheless' },
  { pattern: /\bin hand\b/i, instead: 'in progress' },
  { pattern: /\bcomes? to nothing\b|\bcame to nothing\b/i, instead: 'fails' },
  {
    pattern: /\bbehind (?:the|its|an) (?:answer|response)\b/i,
    instead: 'in the background after the response',
  },
  { pattern: /\bstrangers?\b/i, instead: 'an untrusted caller' },
  { pattern: /\b(?:stands?|stood|standing) still\b|\bstandstill\b/i, instead: 'is paused' },
  { pattern: /\brooms?\b/i, instead: 'a module, or capacity' },
  { pattern: /(?<!\bthere )\b(?:is|are) none\b/i, instead: 'is not' },
  { pattern: /\b(?:told|said)\b/i, instead: 'logged, reported or returned' },
  { pattern: /\b(?:a|each|two) looks?\b/i, instead: 'a sample' },
];

/** One line for each fault: `path:line: what`. Code is exempt from the words, tables from the length of lines. */
export function findPageFaults(path: string, text: string): string[] {
  const faults: string[] = [];
  let isFenced = false;
  for (const [at, line] of text.split('\n').entries()) {
    const report = (what: string) => faults.push(`${path}:${at + 1}: ${what}`);
    if (/^\s*```/.test(line)) isFenced = !isFenced;
    if (!isFenced && line.startsWith('|')) {
      for (const cell of line.split(/(?<!\\)\|/).map((each) => each.trim()))
        if (cell.length > MAX_CELL_CHARS)
          report(`a table cell of ${cell.length} characters: ${cell.slice(0, 40)}…`);
    } else if (line.length > MAX_LINE_CHARS && !isOneWord(line)) {
      report(`a line of ${line.length} characters`);
    }
    if (isFenced || line.startsWith('    ')) continue;
    findPrivateWords(line.replace(/\]\([^)]*\)/g, ']'), report);
  }
  return faults;
}

/** The same for the comments of a TypeScript file. Code that biome cannot break may be longer. */
export function findCodeFaults(path: string, text: string): string[] {
  const faults: string[] = [];
  for (const [at, line] of text.split('\n').entries()) {
    const report = (what: string) => faults.push(`${path}:${at + 1}: ${what}`);
    const comment = /^\s*(?:\/\*\*?|\*|\/\/)\s(.*)$|\s\/\/\s(.*)$/.exec(line);
    const prose = comment?.[1] ?? comment?.[2];
    if (prose === undefined) continue;
    if (line.length > MAX_LINE_CHARS && !isOneWord(line)) report(`a comment of ${line.length} characters`);
    findPrivateWords(prose, report);
  }
  return faults;
}

/** Words that are right in a message: space of a disk, and lists that have no entry. */
const ALLOWED_IN_MESSAGES: readonly RegExp[] = [/room/i, /none/i];

/** The same for the messages of a TypeScript file: its texts of more than one word. */
export function findMessageFaults(path: string, text: string): string[] {
  const faults: string[] = [];
  for (const [at, line] of text.split('\n').entries()) {
    if (/^\s*(?:\/\/|\/?\*)/.test(line)) continue;
    const report = (what: string) => faults.push(`${path}:${at + 1}: ${what}`);
    for (const [, ...found] of line.matchAll(
      /'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`((?:[^`\\]|\\.)*)`/g,
    )) {
      const message = (found.find((each) => each !== undefined) ?? '').replace(/\$\{[^}]*\}/g, '…');
      if (!message.trim().includes(' ')) continue;
      findPrivateWords(message, (what) => {
        if (!ALLOWED_IN_MESSAGES.some((allowed) => allowed.test(what))) report(what);
      });
    }
  }
  return faults;
}

function findPrivateWords(prose: string, report: (what: string) => void): void {
  const text = prose.replace(/`[^`]*`/g, '``');
  for (const { pattern, instead } of PRIVATE_WORDS) {
    const [found] = pattern.exec(text) ?? [];
    if (found !== undefined) report(`"${found}": write ${instead}`);
  }
}

/** Such as an address, which cannot be broken. */
function isOneWord(line: string): boolean {
  return /\S{100,}/.test(line);
}
