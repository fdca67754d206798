// The front for clients of E2B before an app of the REST interface, over a socket.

import { pino } from 'pino';
import type { Test } from 'tap';
import {
  Builder,
  E2bFront,
  type E2bFrontOptions,
  forgetDeleted,
  OperatorNames,
  PortAccess,
  Rest,
  refuseAs,
  SandboxRecords,
  SharedTemplates,
  TemplateRecords,
  TOKEN_HEADERS,
} from '../../host-agent/src/e2b/index.ts';
import { CLIENT_HEADER } from '../../host-agent/src/fleet/index.ts';
import { ANY_PLACE, Cors, type HttpApp, type Placement } from '../../host-agent/src/http/index.ts';
import {
  Addresses,
  Gateway,
  IngressServer,
  type PortHost,
  RateLimits,
} from '../../host-agent/src/ingress/index.ts';
import type { Principal } from '../../host-agent/src/keys/index.ts';
import type { SandboxHost } from '../../host-agent/src/sandboxes/interface.ts';
import { readSnapshotFacts } from '../../host-agent/src/sandboxes/stored/snapshot-facts.ts';
import type { SnapshotStore } from '../../host-agent/src/snapshot-store/index.ts';
import type { MemoryDaemon } from '../support/memory-host/daemon.ts';
import type { Keyring } from './keyed.ts';

// biome-ignore lint/suspicious/noExplicitAny: tests compare what it should be.
export type Json = any;

export type Asked = {
  readonly key?: string | undefined;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
};
export type Answered = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly json: Json;
};

export type E2b = {
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
  readonly records: SandboxRecords;
  readonly names: OperatorNames;
  readonly templates: TemplateRecords;
  readonly builder: Builder;
  readonly dataDir: string;
  /** Audit records of refusals. */
  readonly audited: Record<string, unknown>[];
  ask(method: string, path: string, asked?: Asked): Promise<Answered>;
  /** A unary call of envd. */
  call(method: string, message: object, sandbox: Created): Promise<Answered>;
  /** A call that is answered by a stream: all its messages. */
  stream(
    method: string,
    message: object,
    sandbox: Created,
    headers?: Readonly<Record<string, string>>,
  ): Promise<readonly { readonly flags: number; readonly message: Json }[]>;
};

export type Created = { readonly sandboxID: string; readonly envdAccessToken: string };

export async function serveE2b(
  t: Test,
  {
    app,
    sandboxes,
    keyring,
    portHost = { find: () => undefined },
    daemon,
    clientOf,
    isQuestion,
    placement = ANY_PLACE,
    templateStore,
  }: {
    readonly app: HttpApp;
    readonly sandboxes: SandboxHost;
    readonly keyring: Keyring;
    readonly portHost?: PortHost;
    /** Whose snapshots have owners and ends. */
    readonly daemon?: Pick<MemoryDaemon, 'manager' | 'events' | 'engines'>;
    /** Of a host in a fleet. */
    readonly clientOf?: E2bFrontOptions['clientOf'];
    readonly isQuestion?: E2bFrontOptions['isQuestion'];
    readonly placement?: Placement;
    /** With a daemon. */
    readonly templateStore?: Pick<SnapshotStore, 'templates' | 'isDeleted'> | undefined;
  },
): Promise<E2b> {
  const log = pino({ level: 'silent' });
  const records = await SandboxRecords.open(keyring.store, keyring.registry);
  const audited: Record<string, unknown>[] = [];
  const addresses = new Addresses({ scheme: 'http', domain: 'box.example', aliases: ['gate.example'] });
  const ports = new Gateway({
    addresses,
    access: new PortAccess(portHost, records),
    log,
    rateLimits: new RateLimits({ clientPerS: 0, sandboxPerS: 0 }),
    logsAccess: false,
    onEnd: () => undefined,
    refuse: refuseAs(addresses),
    ownHeaders: [...TOKEN_HEADERS, CLIENT_HEADER],
    ...(clientOf && { clientOf }),
    checkMs: 20,
  });
  const dataDir = t.testdir();
  const names = new OperatorNames(keyring.store);
  const ownTemplates = new TemplateRecords(keyring.store, (principal) => sandboxes.as(principal).isVisible);
  const shared =
    templateStore &&
    daemon &&
    new SharedTemplates({
      ...{ records: ownTemplates, events: daemon.events, log, store: templateStore.templates },
      factsOf: (id) =>
        readSnapshotFacts({ snapshots: daemon.manager.snapshots, engines: daemon.engines }, id),
      isDeleted: (id, signal) => templateStore.isDeleted(id, signal),
    });
  const catalogue = {
    records: ownTemplates,
    shared,
    names,
    ownerOfSnapshot: (id: string) => daemon?.manager.snapshots.findOwner(id),
  };
  const isValid = (principal: Principal): boolean => records.isValid(principal);
  const isDraining = (): boolean => daemon?.manager.moves.drain.isOn === true;
  const builder = new Builder({
    store: keyring.store,
    dataDir,
    catalogue,
    isValid,
    isDraining,
    placement,
    log,
  });
  if (daemon !== undefined) forgetDeleted(daemon.events, { records, templates: catalogue.records, log });
  const rest = new Rest(app);
  await builder.start(rest);
  shared?.start({
    removeSnapshots: (ids) => builder.deleteSnapshots(ids),
    removeSuperseded: (id) => builder.removeSuperseded(id),
  });
  const front = new E2bFront({
    rest,
    sandboxes,
    authenticator: keyring.authenticator,
    audit: { write: (entry) => void audited.push({ ...entry }) },
    records,
    catalogue,
    builder,
    addresses,
    ports,
    ...(clientOf && { clientOf }),
    ...(isQuestion && { isQuestion }),
    domain: () => 'box.example',
    allowedHosts: [{ scheme: 'http', at: { host: 'gate.example', port: undefined } }],
    cors: new Cors(['https://app.example']),
    log,
    ending: new AbortController().signal,
  });
  const server = new IngressServer({ gateway: front, log, certificate: undefined, protocols: ['http/1.1'] });
  t.teardown(() => server.close());
  t.teardown(() => builder.stop());
  t.teardown(() => shared?.stop());
  const address = await server.listen({ host: '127.0.0.1', port: 0 });
  const port = 'port' in address ? address.port : 0;
  const url = `http://127.0.0.1:${port}`;
  const ask: E2b['ask'] = async (method, path, { key, body, headers = {} } = {}) => {
    const isRaw = body instanceof Uint8Array || typeof body === 'string' || body instanceof FormData;
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { ...(key !== undefined && { 'x-api-key': key }), ...headers },
      ...(body !== undefined && { body: isRaw ? body : JSON.stringify(body) }),
    } as RequestInit);
    const text = await response.text();
    const json = /^[[{]/.test(text) ? JSON.parse(text) : undefined;
    return { status: response.status, headers: response.headers, text, json };
  };
  const toHeaders = ({ sandboxID, envdAccessToken }: Created) => ({
    'x-access-token': envdAccessToken,
    'e2b-sandbox-id': sandboxID,
    'e2b-sandbox-port': '49983',
    'connect-protocol-version': '1',
  });
  return {
    url,
    port,
    close: async () => {
      await shared?.stop();
      await server.close();
    },
    records,
    names,
    templates: catalogue.records,
    builder,
    dataDir,
    audited,
    ask,
    call: (method, message, sandbox) =>
      ask('POST', `/${method}`, {
        body: message,
        headers: { ...toHeaders(sandbox), 'content-type': 'application/json' },
      }),
    stream: async (method, message, sandbox, headers = {}) => {
      const response = await fetch(`${url}/${method}`, {
        method: 'POST',
        headers: { ...toHeaders(sandbox), 'content-type': 'application/connect+json', ...headers },
        body: new Uint8Array(envelope(message)),
      });
      return decode(Buffer.from(await response.arrayBuffer()));
    },
  };
}

export function envelope(message: object, flags = 0): Buffer {
  const body = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}

export function decode(bytes: Buffer): { flags: number; message: Json }[] {
  const all: { flags: number; message: unknown }[] = [];
  for (let at = 0; at < bytes.length; ) {
    const size = bytes.readUInt32BE(at + 1);
    const message: unknown = JSON.parse(bytes.subarray(at + 5, at + 5 + size).toString());
    all.push({ flags: bytes[at] ?? 0, message });
    at += 5 + size;
  }
  return all;
}
