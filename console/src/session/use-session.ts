// The open session, for components below the shell.
import type { Client } from '@sandboxd/client';
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Session } from './session.ts';

export type OpenSession = Extract<Session, { readonly state: 'open' }>;

const context = createContext<OpenSession | undefined>(undefined);
export const SessionProvider = context.Provider;

export function useSession(): OpenSession {
  const open = useContext(context);
  if (open === undefined) throw new Error('there is no session');
  return open;
}

export function useClient(): Client {
  return useSession().client;
}
