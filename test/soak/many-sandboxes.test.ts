// 200 sandboxes with rules and a secret at once, in real guests: forks have the policy of their source, also after a pause
// and after a kill of their egressd or gateway, and nothing of them is left. A part of `make soak`
// (SANDBOXES=, default 200): tests of `vm` have each step for a few sandboxes. It prints what they cost.
import '../support/network/own-network.ts';
import { readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Leaves, makeAuthority } from '../../host-agent/src/network/authority/index.ts';
import { smaps } from '../bench/processes.ts';
import { median, quantile } from '../bench/stats.ts';
import type { SandboxJson } from '../support/api.ts';
import { leftovers, startDaemon } from '../support/daemon.ts';
import { openInternet } from '../support/internet/index.ts';
import { findViolations } from '../support/invariants.ts';
import { findNetworkViolations } from '../support/network/violations.ts';
import { settled } from '../support/settled.ts';
import { scaled } from '../support/time-scale.ts';
import { listVmms } from '../support/vmms.ts';

const FORKS = Number(process.env.SANDBOXES ?? 200) - 1;
const SAMPLE = 20;
const FORKS_OF_A_CALL = 10;
const AT_ONCE = 4;
/** Below it, no more forks are made. */
const KEPT_FREE_MIB = 4096;
t.setTimeout(scaled(FORKS * 60_000 + 300_000));

const internet = await openInternet(t);
const { host, web, web2 } = internet.machines;
await internet.names.serve([
  `host-record=web.test,${web.address},60`,
  `host-record=api.test,${web.address},60`,
  `host-record=evil.test,${web2.address},60`,
]);
const VALUE = 'ghp_never-in-the-guest/+0123456789abcdef';
const STARS = '*'.repeat(VALUE.length);
const world = await makeAuthority('world');
const { cert, key } = await new Leaves(world).get('api.test');
const home = t.testdir({ 'roots.pem': world.certificate });
/** What arrived: requests at the server of the secret, and connections that no rule allows. */
const seen: string[] = [];
const witness = (place: typeof web, script: string, port: number): Promise<void> => {
  const { stdout } = place.start(process.execPath, '-e', script);
  stdout?.on('data', (data) => seen.push(...String(data).trim().split('\n')));
  return place.listening('tcp', port);
};
await witness(
  web,
  `require('https').createServer(${JSON.stringify({ cert, key })}, (q, s) => {
     console.log(q.url + ' ' + q.headers.authorization);
     s.end('you sent ' + q.headers.authorization); }).listen(443);`,
  443,
);
const STRANGER = `require('net').createServer((s) => { console.log('stranger'); s.destroy(); }).listen(`;
await witness(web2, `${STRANGER}443);`, 443);
await witness(web2, `${STRANGER}8443);`, 8443);

const OPTIONS = {
  profile: 'base',
  memory_mib: 128,
  network: { enabled: true, allowlist: ['web.test'], rules: [{ host: 'api.test', paths: ['/ok/**'] }] },
  secrets: { GH: { value: VALUE, hosts: ['api.test'] } },
};
/** Few programs, as guests are emulated: what is allowed, another name there, a place that no rule has. */
const CHECK = `
ask() {
  exec 3<> /dev/tcp/$1/$3 || { echo refused; return; }
  printf 'GET / HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n' $2 >&3
  read -r _ status _ <&3 && echo $status 
}
echo $(ask web.test web.test 80) $(ask web.test evil.test 80) $(ask evil.test evil.test 80) \\
  $(ask ${web2.address} evil.test 443) $(ask ${web2.address} evil.test 8443)
`;
const ALLOWED = '200 403 refused 403 refused';
const READ = `
curl -sS -H "Authorization: Bearer $GH" https://api.test/ok/$1; echo
curl -sS -o /dev/null -w '%{http_code}' https://api.test/other
`;

const state = () => host.sh('ip -br link; ip route; nft list ruleset; ls /proc/sys/net/ipv4/conf');
const availableMib = (): number =>
  Number(/^MemAvailable:\s+(\d+)/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1]) / 1024;
const report = (line: string): void =>
  console.error(`${line} (load ${readFileSync('/proc/loadavg', 'utf8').split(' ')[0]})`);
const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
};
const seconds = (times: readonly number[]): string =>
  `median ${(median(times) / 1000).toFixed(2)} s, p95 ${(quantile(times, 0.95) / 1000).toFixed(2)} s`;
const mib = (values: readonly number[]): string =>
  `${values.length}: median ${median(values).toFixed(2)} MiB, all ${values.reduce((a, b) => a + b, 0).toFixed(0)} MiB`;

t.test(`${FORKS + 1} sandboxes with rules, forked and woken`, async (t) => {
  const daemon = await startDaemon(t, {
    flags: [
      ...internet.daemonFlags,
      ...['--egress-ca-file', join(home, 'roots.pem'), '--memory-overcommit-percent', '1000'],
    ],
  });
  const { api, directories } = daemon;
  const kept = await api.create({ memory_mib: 128, network: { enabled: true, allowlist: ['web.test'] } });
  const before = await state();

  const check = ({ id }: SandboxJson): Promise<string> => {
    return api.exec(id, ['bash', '-c', CHECK]).then(({ stdout }) => stdout.trim());
  };
  const read = async ({ id }: SandboxJson): Promise<string> => {
    const { stdout, stderr } = await api.exec(id, ['sh', '-c', READ, 'sh', id]);
    return `${stdout.trim()}${stderr}`;
  };
  const WHAT_IS_READ = `you sent Bearer ${STARS}\n403`;
  /** So many at a time; the time of each. */
  const each = async (of: readonly SandboxJson[], work: (one: SandboxJson) => Promise<unknown>) => {
    const [left, times] = [[...of], [] as number[]];
    const next = async (): Promise<void> => {
      for (let one = left.shift(); one !== undefined; one = left.shift()) {
        const now = one;
        times.push(await timed(() => work(now)));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, next));
    return times;
  };
  const links = async (): Promise<ReadonlyMap<string, string>> => {
    const routes = JSON.parse(await host.run('ip', '-j', 'route')) as { dst: string; dev: string }[];
    return new Map(routes.map(({ dst, dev }) => [dst, dev]));
  };
  /** Of the process that a record names; its pid, or undefined. */
  const pidOf = async ({ network }: SandboxJson, suffix = ''): Promise<number | undefined> => {
    const name = (await links()).get(network?.guest_ip ?? '');
    const text = readFileSync(join(directories.runDir, 'egress', `${name}${suffix}`), 'utf8');
    return (JSON.parse(text.split('\n')[1] || '{}') as { pid?: number }).pid;
  };
  const memoryOf = async (pids: readonly (number | undefined)[]): Promise<number[]> =>
    (await Promise.all(pids.flatMap((pid) => (pid === undefined ? [] : [smaps(pid)])))).map(
      ({ pssMib }) => pssMib,
    );

  const source = await api.create(OPTIONS);
  const snapshot = await api.ask('takeSnapshot', { params: { id: source.id } });
  const free = availableMib();
  const all = [source];
  const forking: number[] = [];
  while (all.length <= FORKS && availableMib() > KEPT_FREE_MIB) {
    const count = Math.min(FORKS_OF_A_CALL, FORKS + 1 - all.length);
    const took = await timed(async () => {
      const params = { id: snapshot.id };
      all.push(...(await api.ask('forkSnapshot', { params, body: { count } })).sandboxes);
    });
    forking.push(took / count);
  }
  report(`${all.length} run; forked by ${FORKS_OF_A_CALL}, each ${seconds(forking)}`);
  if (availableMib() > KEPT_FREE_MIB) t.equal(all.length, FORKS + 1);
  t.same(await findNetworkViolations(daemon, []), []);

  const failures: string[] = [];
  const expect = async (what: string, one: SandboxJson, ask: typeof check, wanted: string) => {
    const got = await ask(one).catch(String);
    if (got !== wanted) failures.push(`${what} ${one.id}: ${got}`);
  };
  const checks = await each(all, (one) => expect('policy', one, check, ALLOWED));
  report(`policy in force in all: each ${seconds(checks)}`);
  const sample = all.filter((_, at) => at % Math.ceil(all.length / SAMPLE) === 0);
  const gateways: number[] = [];
  const reads = await each(sample, async (one) => {
    await expect('secret', one, read, WHAT_IS_READ);
    gateways.push(...(await memoryOf([await pidOf(one, '.gateway')])));
  });
  report(`a secret used by ${sample.length}: each ${seconds(reads)}`);
  t.same(
    seen.toSorted(),
    sample.map(({ id }) => `/ok/${id} Bearer ${VALUE}`).toSorted(),
    'the servers have seen this and nothing else',
  );

  const egress = await Promise.all(all.map((one) => pidOf(one)));
  report(`egressd ${mib(await memoryOf(egress))}; gateways ${mib(gateways)}`);
  const vmms = (await listVmms()).filter(({ socketPath }) => socketPath.startsWith(directories.runDir));
  report(
    `VMM ${mib(await memoryOf(vmms.map(({ pid }) => pid)))}; daemon ${mib(await memoryOf([daemon.pid]))}`,
  );
  report(`memory that the host has less: ${(free - availableMib()).toFixed(0)} MiB`);

  const pauses = await each(sample, ({ id }) => api.ask('pauseSandbox', { params: { id } }));
  const wakes = await each(sample, (one) => expect('woken', one, check, ALLOWED));
  report(
    `${sample.length} paused: each ${seconds(pauses)}; woken by use, with a check: each ${seconds(wakes)}`,
  );
  seen.length = 0;
  await each(sample, (one) => expect('secret, woken', one, read, WHAT_IS_READ));
  t.equal(seen.length, sample.length);

  const [first = source, second = source] = sample.toReversed();
  const killed = async (one: SandboxJson, suffix: string, ask: typeof check, wanted: string) => {
    // One that is idle has ended.
    await ask(one);
    const pid = await pidOf(one, suffix);
    if (pid === undefined) throw new Error(`there is no process${suffix}`);
    process.kill(pid, 'SIGKILL');
    const startedAt = performance.now();
    for (let got = await ask(one); got !== wanted; got = await ask(one)) {
      if (performance.now() - startedAt > scaled(60_000)) throw new Error(`no recovery${suffix}: ${got}`);
      await sleep(100);
    }
    report(`killed process${suffix}: works again after ${seconds([performance.now() - startedAt])}`);
    t.not(await pidOf(one, suffix), pid, 'another process');
  };
  await killed(first, '', check, ALLOWED);
  await killed(second, '.gateway', read, WHAT_IS_READ);
  t.notOk(seen.includes('stranger'), 'nothing was open meanwhile');
  t.same(failures, []);
  t.same(await findViolations(daemon), []);
  t.same(await findNetworkViolations(daemon, []), []);

  const deletions = await each(all, ({ id }) => api.delete(id));
  report(`deleted: each ${seconds(deletions)}`);
  await api.ask('deleteSnapshot', { params: { id: snapshot.id } });
  t.same(await settled(async () => ((await state()) === before ? [] : [await state()])), []);
  const FOLDERS = ['net', 'egress'];
  t.same(await leftovers(directories, { isRunning: true, ignore: [...FOLDERS, kept.id] }), []);
  const names = (await readdir(join(directories.runDir, 'net'))).length;
  t.equal(names, 1, 'one namespace, that of the other sandbox');
  t.same(await findNetworkViolations(daemon, []), []);
});
