// Tools as data, and their answers.
import { stripVTControlCharacters } from 'node:util';
import type { CallToolResult } from '@modelcontextprotocol/server';
import type { z } from 'zod';
import { Excerpt } from './excerpt.ts';
import type { Scope } from './scope.ts';

/** Of the text of an answer; clients cut or refuse longer ones. */
const MAX_ANSWER_CHARS = 48_000;
/** Of the entries of a list, which is JSON and must not be cut in its middle. */
const MAX_LIST_CHARS = 40_000;
const MAX_ERROR_CHARS = 2000;

export type ToolCall = {
  readonly scope: Scope;
  /** Aborts when the client cancels the call or leaves. */
  readonly signal: AbortSignal;
  /** Tells a client that asked for it how far the call is. */
  progress(message: string): void;
};

export type Tool = {
  readonly name: string;
  readonly description: string;
  /** Strict, so that a misspelt argument is refused. */
  readonly input: z.ZodObject;
  /** What it does to the world, for clients that ask their users before some calls. */
  readonly effect: 'reads' | 'writes' | 'deletes';
  run(input: never, call: ToolCall): Promise<CallToolResult>;
};

/** Keeps the type of the input between its schema and `run`. */
export function tool<S extends z.ZodObject>(
  definition: Omit<Tool, 'input' | 'run'> & {
    readonly input: S;
    run(input: z.output<S>, call: ToolCall): Promise<CallToolResult>;
  },
): Tool {
  return definition;
}

export function text(words: string): CallToolResult {
  return { content: [{ type: 'text', text: words }] };
}

/** Only as text: some clients show models nothing else beside structured content, and others both. */
export function json(value: Record<string, unknown>): CallToolResult {
  return text(JSON.stringify(value));
}

export function failure(error: unknown): CallToolResult {
  const message = error instanceof Error ? error.message : String(error);
  return { ...text(toCut(message, MAX_ERROR_CHARS)), isError: true };
}

/** The answer as it is sent: nothing that a guest or a daemon says fills a model's context. */
export function toBounded({ content, ...rest }: CallToolResult): CallToolResult {
  const bounded = content.map((part) => {
    if (part.type !== 'text' || part.text.length <= MAX_ANSWER_CHARS) return part;
    const excerpt = new Excerpt(MAX_ANSWER_CHARS / 2, MAX_ANSWER_CHARS / 2);
    excerpt.push(part.text);
    return { ...part, text: `${excerpt}` };
  });
  return { ...rest, content: bounded };
}

/** As many entries as an answer can have, under `name`, and how many are left out. */
export function listed(name: string, entries: readonly unknown[]): Record<string, unknown> {
  let chars = 0;
  const over = entries.findIndex((entry) => {
    chars += JSON.stringify(entry).length + 1;
    return chars > MAX_LIST_CHARS;
  });
  if (over < 0) return { [name]: entries };
  return { [name]: entries.slice(0, over), left_out: entries.length - over };
}

export function toCut(words: string, maxChars: number): string {
  return words.length <= maxChars ? words : `${words.slice(0, maxChars)}…`;
}

/** A file name on a line of its own: one with a line break or an invisible character is quoted, so it is one entry. */
export function toShownName(name: string): string {
  return /[\p{C}\p{Zl}\p{Zp}]|^"/u.test(name) ? JSON.stringify(name) : name;
}

/** Output as a terminal shows it in the end: without colours, and without what `\r` has drawn over. */
export function toPlain(output: string): string {
  const lines = stripVTControlCharacters(output).split('\n');
  return lines.map((line) => line.slice(line.lastIndexOf('\r', line.length - 2) + 1)).join('\n');
}

/** Fields that the model left out; the client takes them for absent, not undefined. */
export function withoutUndefined<T extends object>(input: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined)) as never;
}
