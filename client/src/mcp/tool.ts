// Tools as data, and their answers.
import type { CallToolResult } from '@modelcontextprotocol/server';
import type { z } from 'zod';
import type { Scope } from './scope.ts';

export type ToolCall = {
  readonly scope: Scope;
  /** Aborts when the client cancels the call or leaves. */
  readonly signal: AbortSignal;
  /** Tells a client that asked for it how far the call is; `done` only grows. */
  progress(done: number, message: string): void;
};

export type Tool = {
  readonly name: string;
  readonly description: string;
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

/** JSON for programs, and the same as text for models. */
export function json(value: Record<string, unknown>): CallToolResult {
  return { content: [{ type: 'text', text: JSON.stringify(value) }], structuredContent: value };
}

/** Fields that the model left out; the client takes them for absent, not undefined. */
export function withoutUndefined<T extends object>(input: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined)) as never;
}
