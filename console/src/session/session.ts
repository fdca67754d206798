// The session with the daemon: the key, the client, and what the key may do.
import { ApiError, Client, UnauthorizedError } from '@sandboxd/client';
import { Store } from '../live/store.ts';
import { toVisibleLines } from '../parts/format.ts';
import type { Policy } from './policy.ts';

/** Of this tab, and only if the user asked for it. */
const STORED_KEY = 'sandboxd-key';

export type Session =
  | { readonly state: 'starting' }
  /** `problem`: why the last key was refused. */
  | { readonly state: 'keyless'; readonly problem?: string }
  | { readonly state: 'unreachable'; readonly problem: string }
  | {
      readonly state: 'open';
      readonly client: Client;
      readonly hasKey: boolean;
      /** Undefined: the caller has no restrictions. */
      readonly policy: Policy | undefined;
    };

export const session = new Store<Session>({ state: 'starting' });

/** The daemon's address: the page is at its `/console`, and a proxy may have put a path before it. */
export const daemonUrl = `${location.origin}${location.pathname.replace(/\/console$/, '')}`;

/** Connects with the key of this tab, or without one. */
export function start(): Promise<void> {
  return connect(sessionStorage.getItem(STORED_KEY) ?? undefined);
}

export async function connect(key: string | undefined, { isKept = false } = {}): Promise<void> {
  session.set({ state: 'starting' });
  const client = new Client({ host: daemonUrl, ...(key !== undefined && { apiKey: key }) });
  try {
    const caller = await client.whoami();
    if (isKept && key !== undefined) sessionStorage.setItem(STORED_KEY, key);
    const policy = caller.scoped ? caller.policy : undefined;
    session.set({ state: 'open', client, hasKey: key !== undefined, policy });
  } catch (error) {
    if (error instanceof UnauthorizedError) refuse(key === undefined ? undefined : toSentence(error));
    else session.set({ state: 'unreachable', problem: toSentence(error) });
  }
}

/** Forgets the key. */
export function leave(): void {
  refuse(undefined);
}

/** Ends the session when the daemon no longer takes its key; returns whether it did. */
export function endIfRefused(error: unknown): boolean {
  if (!(error instanceof UnauthorizedError)) return false;
  refuse(toSentence(error));
  return true;
}

function refuse(problem: string | undefined): void {
  sessionStorage.removeItem(STORED_KEY);
  session.set({ state: 'keyless', ...(problem !== undefined && { problem }) });
}

/** The sentence of an error, for people. It may quote a guest. */
export function toSentence(error: unknown): string {
  return toVisibleLines(error instanceof Error ? error.message : String(error));
}

export function requestIdOf(error: unknown): string | undefined {
  return error instanceof ApiError ? error.requestId : undefined;
}
