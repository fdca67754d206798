// MCP over HTTP, without sessions: each message has a server of its own.
import { createMcpHandler } from '@modelcontextprotocol/server';
import { Client } from '../client.ts';
import type { Transport } from '../connection/transport.ts';
import { type Admission, type Bounds, Scope } from './scope.ts';
import { makeServer, type ServerOptions } from './server.ts';

export type Exchange = Pick<ServerOptions, 'version' | 'tools'> & {
  /** Its body is `message`. Calls in flight end when its signal aborts. */
  readonly request: Request;
  readonly message: unknown;
  readonly bounds: Bounds;
  /** Of all messages with the same labels. */
  readonly admission: Admission;
  /** Leads to the daemon. */
  readonly transport: Transport;
};

/** The answer to one message: JSON, or a stream of events. */
export function answerMessage({ request, message, bounds, admission, transport, ...options }: Exchange) {
  const client = new Client({ transport });
  const scope = new Scope(client, bounds, admission);
  const handler = createMcpHandler(() => makeServer({ ...options, scope, running: new Set() }));
  return handler.fetch(request, { parsedBody: message });
}
