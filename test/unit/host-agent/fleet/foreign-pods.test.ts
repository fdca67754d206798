// Pods of others: what they ask for, their addresses, and probes of guests that answer anything.

import type { AddressInfo } from 'node:net';
import { createServer, type Socket, connect as tcp } from 'node:net';
import t from 'tap';
import { isReady } from '../../../../host-agent/src/app/open-pods.ts';
import { chooseAddress } from '../../../../host-agent/src/fleet/host/pod-addresses.ts';
import { Expansion } from '../../../../host-agent/src/fleet/kubernetes/expansion.ts';
import { readTenant } from '../../../../host-agent/src/fleet/kubernetes/foreign-pods.ts';
import { readWish, type WishSource } from '../../../../host-agent/src/fleet/kubernetes/pod-wish.ts';
import type { PortConnection } from '../../../../host-agent/src/guest/port-stream.ts';
import { parseIpv4Range } from '../../../../host-agent/src/lib/ipv4.ts';

function toPod(container: object, spec: object = {}): WishSource {
  return {
    ...{ name: 'p', labels: {}, annotations: {} },
    spec: { containers: [{ name: 'c', image: 'i', ...container }], ...spec },
  };
}

function bodyOf(container: object, spec?: object): Record<string, unknown> {
  const asked = readWish(toPod(container, spec));
  if ('refusal' in asked) throw new Error(asked.refusal);
  return asked.wish.toBody({ A: '1' }, undefined);
}

t.test('resources, users and services', (t) => {
  t.match(bodyOf({}), { vcpus: 1, memory_mib: 512, image: { oci: 'i' }, pull: 'missing' });
  t.match(bodyOf({}), { service: { restart: { policy: 'always' }, stop_grace_s: 30 } });
  t.notOk('cmd' in (bodyOf({}).service as object), 'that of the image');
  const sizes: [object, number, number][] = [
    [{ requests: { cpu: '150m', memory: '1Gi' }, limits: { cpu: '1500m', memory: '1024Mi' } }, 2, 1024],
    [{ requests: { cpu: '2', memory: '500M' } }, 2, 476],
    [{ limits: { cpu: '1', memory: '256Mi' } }, 1, 256],
  ];
  for (const [resources, vcpus, memory_mib] of sizes.slice(1))
    t.match(bodyOf({ resources }), { vcpus, memory_mib });
  t.match(readWish(toPod({ resources: sizes[0]?.[0] })), { refusal: /requests\.cpu must be 200m/ });
  t.match(readWish(toPod({ resources: { requests: { memory: '1e9' } } })), { refusal: /cannot be read/ });
  t.match(bodyOf({ command: ['a', '$(A)'], args: ['$(B)', '$$(A)'], workingDir: '/w' }), {
    service: { cmd: ['a', '1', '$(B)', '$(A)'], cwd: '/w' },
  });
  const user = { securityContext: { runAsUser: 7, runAsNonRoot: true } };
  t.match(bodyOf({}, user), { service: { user: '7' } });
  t.match(bodyOf({ securityContext: { runAsGroup: 9 } }, user), { service: { user: '7:9' } });
  t.match(readWish(toPod({ securityContext: { runAsUser: 0 } }, user)), { refusal: /runAsNonRoot/ });
  for (const spec of [undefined, null, 'x', {}, { containers: {} }, { containers: [null] }])
    t.match(readWish({ ...toPod({}), spec }), { refusal: /./ });
  const inherited = '$(__proto__) $(toString)';
  t.equal(new Expansion('it', 100).expand(inherited, { A: '1' }), inherited);
  t.end();
});

t.test('tenants and addresses', (t) => {
  t.same(readTenant('sandboxd', 'sandboxd'), { isOurs: true });
  t.same(readTenant('sandboxd', 'sandboxd-a-b'), { isOurs: true, tenant: 'a-b' });
  t.same(readTenant('sandboxd', 'sandboxdx'), { isOurs: false });
  const range = parseIpv4Range('10.0.0.0/29');
  if (range === undefined) throw new Error('no range');
  const taken = new Set<string>();
  for (let n = 0; n < 6; n++) taken.add(chooseAddress(range, `u${n}`, taken) ?? '');
  t.same(
    [...taken].sort(),
    ['1', '2', '3', '4', '5', '6'].map((last) => `10.0.0.${last}`),
  );
  t.equal(chooseAddress(range, 'more', taken), undefined);
  t.equal(chooseAddress({ ...range, prefixLength: 32 }, 'u', new Set()), undefined);
  t.end();
});

t.test('probes of guests that answer anything', async (t) => {
  const ask = async (
    answer: (socket: Socket) => void,
    path: string | undefined = '/',
    limitMs = 30_000,
  ): Promise<unknown> => {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      sockets.add(socket.on('error', () => undefined));
      answer(socket);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const connect = async () => tcp(port, '127.0.0.1') as unknown as PortConnection;
    const readiness = { port, ...(path !== undefined && { path }) };
    const result = await isReady({ ports: { connect } }, readiness, AbortSignal.timeout(limitMs)).catch(
      () => 'failed',
    );
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
    return result;
  };
  const says = (text: string) => (socket: Socket) => void socket.once('data', () => socket.write(text));
  t.equal(await ask(says('HTTP/1.1 204 OK\r\n\r\n')), true);
  t.equal(await ask(says('HTTP/1.1 503 No\r\ncontent-length: 5\r\n\r\n')), false, 'an unfinished body');
  t.equal(
    await ask(says('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n')),
    true,
    'a wrong body',
  );
  t.equal(await ask(says('no HTTP\r\n\r\n')), 'failed');
  t.equal(await ask(says(`HTTP/1.1 200 OK\r\n${'a: b\r\n'.repeat(1e5)}`)), 'failed', 'headers without end');
  t.equal(await ask(says('HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n')), 'failed');
  t.equal(await ask((socket) => void socket.once('data', () => socket.resetAndDestroy())), 'failed');
  t.equal(await ask((socket) => void socket.end()), 'failed');
  t.equal(await ask(() => undefined, '/', 200), 'failed', 'no answer');
  const endless = (socket: Socket): void => {
    socket.write('HTTP/1.1 200 OK\r\n\r\n');
    const more = (): void => {
      if (socket.destroyed) return;
      socket.write('x'.repeat(65_536));
      setImmediate(more);
    };
    more();
  };
  t.equal(await ask(endless), true, 'a body without end');
});
