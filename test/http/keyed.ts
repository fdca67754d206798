// A daemon with keys, without a guest: the real registry of keys, on disk.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Operation, type Policy, ROUTES, type Route, type RouteName } from '@sandboxd/api';
import { pino } from 'pino';
import type { Test } from 'tap';
import { Authenticator } from '../../host-agent/src/http/index.ts';
import { Attempts, KeyRegistry, type NewKey } from '../../host-agent/src/keys/index.ts';
import { Store } from '../../host-agent/src/store/store.ts';
import { UNKNOWN_ID } from './support.ts';

export type Keyring = {
  readonly registry: KeyRegistry;
  readonly store: Store;
  readonly authenticator: Authenticator;
  /** The text of a new key. */
  make(wanted?: Partial<NewKey>): Promise<string>;
};

/** Wrong keys that cost no time: a table has many. */
class Patient extends Attempts {
  override failed(): ReturnType<Attempts['failed']> {
    return { delayMs: 0, done: () => undefined };
  }
}

export async function openKeyring(t: Test, attempts: Attempts = new Patient()): Promise<Keyring> {
  const dir = await mkdtemp(join(tmpdir(), 'keys-'));
  const store = await Store.open(join(dir, 'state.lmdb'));
  t.teardown(async () => {
    await store.close();
    await rm(dir, { recursive: true });
  });
  const registry = new KeyRegistry(store);
  let count = 0;
  return {
    registry,
    store,
    authenticator: new Authenticator(registry, pino({ level: 'silent' }), attempts),
    make: async (wanted = {}) => (await registry.create({ name: `key-${count++}`, ...wanted })).text,
  };
}

export const READ_ONLY: Policy = { operations: ['read'] };

/** A request of a route that makes sense, but for its body, which never comes. */
export type Sample = {
  readonly name: RouteName;
  readonly route: Route;
  /** What kind of request it is. */
  readonly transport: string;
  /** The request with further headers, each with its line end. */
  readonly bytes: (headers: string) => string;
  /** Whether a browser can give it no other header than Sec-WebSocket-Protocol. */
  readonly isWebSocket: boolean;
};

const UPGRADE =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';

/** Every route of the table in every form that it can come in. */
export function allSamples(id = UNKNOWN_ID): readonly Sample[] {
  return Object.entries<Route>(ROUTES).flatMap(([key, route]) => {
    const name = key as RouteName;
    const parameters: Readonly<Record<string, string>> = {
      ref: 'nginx%3Aalpine',
      id: route.path.startsWith('/snapshots') ? 'snap_0123456789abc' : id,
      cid: 'cmd_0123456789abc',
      port: '3000',
      host_port: '8080',
      link: 'link_0123456789abc',
      name: 'no-such-secret',
      file: 'console.js',
    };
    const path = route.path.replace(/:(\w+)(?:\{.+\})?/g, (_, parameter) => parameters[parameter] ?? '');
    const target = path.endsWith('/files') ? `${path}?path=/tmp` : path;
    const sample = (transport: string, method: string, at: string, extra = ''): Sample => ({
      name,
      route,
      transport,
      bytes: (headers) => `${method} ${at} HTTP/1.1\r\nHost: x\r\n${extra}${headers}\r\n`,
      isWebSocket: extra.includes('Upgrade'),
    });
    const body = route.body === undefined ? '' : 'Content-Length: 5\r\n';
    const common =
      route.transport === 'websocket'
        ? [sample('websocket', 'GET', target, UPGRADE), sample('no upgrade', 'GET', target)]
        : [
            sample('plain', route.method, target, body),
            sample('absolute', route.method, `http://x${target}`, body),
          ];
    return [
      ...common,
      ...(route.method === 'GET' && route.transport !== 'websocket' ? [sample('head', 'HEAD', target)] : []),
      ...(body === '' || route.transport === 'websocket'
        ? []
        : [sample('expect', route.method, target, `${body}Expect: 100-continue\r\n`)]),
      ...(route.transport === 'duplex'
        ? [sample('taken over', route.method, `${target}?stdin=1`, body)]
        : []),
    ];
  });
}

/** What the narrow operations open: each is named here, since who may view must see nothing of what is in a guest. */
export const NARROW: Partial<Record<Operation, readonly RouteName[]>> = {
  metrics: ['checkHost', 'listHosts', 'readMetrics'],
  view: [
    'checkNetwork',
    'followEvents',
    'getImage',
    'getNetwork',
    'getSandbox',
    'getSnapshot',
    'listImages',
    'listLinks',
    'listNetworkPresets',
    'listPorts',
    'listProfiles',
    'listSandboxes',
    'listSnapshots',
    'readStats',
    'showSnapshotTree',
  ],
  images: ['changeImage', 'deleteImage', 'importImage', 'pullImage'],
  network: ['replaceNetwork', 'updateNetwork'],
  secrets: ['deleteSecret', 'getSecret', 'listSecrets', 'putSecret'],
  connect: ['closePort', 'connectPort', 'connectPortWebSocket', 'deleteLink', 'makeLink', 'openPort'],
};
