// What an operator says about networks, at the command line: what keys may have at most, ranges of addresses, ranges that names may
// lead to, and two daemons on a host.
import '../../support/network/own-network.ts';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import type { SandboxJson } from '../../support/api.ts';
import { makeDirectories, removeDirectories, spawnDaemon, startDaemon } from '../../support/daemon.ts';
import { openInternet } from '../../support/internet/index.ts';
import { DAEMON_PROGRAM } from '../../support/leftovers.ts';
import { scaled } from '../../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const internet = await openInternet(t);
const { host, web, inside } = internet.machines;
await internet.names.serve([
  `host-record=web.test,${web.address},60`,
  `host-record=inside.test,${inside.address},60`,
  `host-record=other.inside.test,${inside.addresses[1]},60`,
]);
const OPTIONS = { memory_mib: 128 };
const WEB = { enabled: true, allowlist: ['web.test'] };

t.test('a key has no more names than net_allow_max, by a create and by a fork', async (t) => {
  // Its keys are meant to stay.
  const directories = await makeDirectories();
  const daemon = await startDaemon(t, { directories, flags: internet.daemonFlags });
  const { dataDir } = directories;
  const wide = await daemon.api.create({
    ...OPTIONS,
    network: { enabled: true, allowlist: ['web.test', 'inside.test'] },
  });
  const narrow = await daemon.api.create({ ...OPTIONS, network: WEB });
  const [wideSnapshot, narrowSnapshot] = await Promise.all(
    [wide, narrow].map(
      async ({ id }) => (await daemon.api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`)).id,
    ),
  );
  const makeKey = async (name: string, ...flags: string[]): Promise<string> => {
    const args = ['keys', 'create', name, '--data-dir', dataDir, '--json', ...flags];
    const { stdout } = await promisify(execFile)(DAEMON_PROGRAM, args);
    return /sbk_[\w-]+/.exec(stdout)?.[0] ?? '';
  };
  const ask = async (key: string, method: string, path: string, body?: object) => {
    const headers = { authorization: `Bearer ${key}` };
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const response = await daemon.api.fetch(path, init);
    return { status: response.status, text: await response.text() };
  };
  const [some, none, any] = [
    await makeKey('some', '--all-tenants', '--net-allow-max', 'web.test'),
    await makeKey('none', '--all-tenants', '--net-allow-max', ''),
    await makeKey('any'),
  ];
  const beyond = { ...OPTIONS, network: { enabled: true, allowlist: ['web.test', 'inside.test'] } };
  const publish = [{ host_port: 8088, guest_port: 80 }];
  t.match(await ask(some, 'POST', '/sandboxes', beyond), { status: 403, text: /net_allow_max web\.test/ });
  t.match(await ask(some, 'POST', `/snapshots/${wideSnapshot}/fork?count=1`), { status: 403 });
  t.match(await ask(none, 'POST', '/sandboxes', { ...OPTIONS, network: WEB }), { status: 403 });
  t.match(await ask(none, 'POST', '/sandboxes', { ...OPTIONS, publish }), { status: 403 });
  t.match(await ask(none, 'POST', `/snapshots/${narrowSnapshot}/fork?count=1`), { status: 403 });
  const made = await ask(some, 'POST', '/sandboxes', { ...OPTIONS, network: WEB });
  t.equal(made.status, 201);
  const forked = await ask(some, 'POST', `/snapshots/${narrowSnapshot}/fork?count=1`);
  t.equal(forked.status, 201);
  t.equal((await ask(none, 'POST', '/sandboxes', OPTIONS)).status, 201, 'without a network');
  const ids = [...`${made.text} ${forked.text}`.matchAll(/sbx_\w+/g)].map(([id]) => id);
  for (const id of new Set(ids)) {
    const said = await ask(any, 'POST', `/sandboxes/${id}/exec`, {
      cmd: ['sh', '-c', 'getent ahostsv4 web.test; getent ahostsv4 inside.test || echo none'],
    });
    t.match(said.text, web.address);
    t.match(said.text, /none/);
  }
  t.equal(await daemon.end(), 0);
  await removeDirectories(directories);
});

t.test('a range of addresses that the host has a route to is refused at the start', async (t) => {
  const directories = await makeDirectories();
  t.teardown(() => removeDirectories(directories));
  await host.sh('ip route add 10.99.4.0/24 dev eth0');
  await t.rejects(
    spawnDaemon(directories, { flags: ['--network-subnet', '10.99.0.0/16'] }),
    /ended with [1-9][\s\S]*network_subnet 10\.99\.0\.0\/16 overlaps the route to 10\.99\.4\.0\/24 by eth0; choose another range/,
  );
  await host.sh('ip route delete 10.99.4.0/24 dev eth0');
});

t.test('two daemons on a host have ranges of their own, and their guests never meet', async (t) => {
  const flags = [...internet.daemonFlags, '--network-allow-range', '10.20.0.0/16'];
  const [first, second] = [
    await startDaemon(t, { flags: [...flags, '--network-subnet', '10.99.0.0/24'] }),
    await startDaemon(t, { flags }),
  ];
  const options = {
    ...OPTIONS,
    network: { enabled: true, allowlist: ['web.test', 'inside.test', '*.inside.test'] },
  };
  const [one, two] = [await first.api.create(options), await second.api.create(options)];
  t.match(one.network?.guest_ip, /^10\.99\.0\./);
  t.notMatch(two.network?.guest_ip, /^10\.99\./);
  // Both can be reached by their daemons, what the one range allows is open, and the other private one is not.
  const resolve = (name: string) => `getent ahostsv4 ${name} | cut -d' ' -f1 | head -n 1`;
  for (const [{ api }, { id }] of [
    [first, one],
    [second, two],
  ] as const) {
    t.equal(await api.sh(id, resolve('inside.test')), inside.address);
    t.equal(await api.sh(id, resolve('other.inside.test')), '', 'not in the range that was allowed');
  }
  const knock = (to: SandboxJson) => `exec 3<> /dev/tcp/${to.network?.guest_ip}/22`;
  for (const [{ api }, from, to] of [
    [first, one, two],
    [second, two, one],
  ] as const) {
    const { result, stderr } = await api.exec(from.id, ['bash', '-c', knock(to)]);
    t.not(result.exit_code, 0);
    t.match(stderr, /refused/i);
  }
  await first.api.delete(one.id);
  t.equal(await second.api.sh(two.id, resolve('web.test')), web.address, 'the other one goes on');
});
