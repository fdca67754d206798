// Networked sandboxes one after the other and many at once leave nothing on the host: 12 and 6, or 200 and 64 with SOAK=1.
import '../../support/network/own-network.ts';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { leftovers, startDaemon } from '../../support/daemon.ts';
import { openInternet } from '../../support/internet/index.ts';
import { settled } from '../../support/settled.ts';
import { scaled } from '../../support/time-scale.ts';

const IS_SOAK = process.env.SOAK === '1';
const CYCLES = IS_SOAK ? 200 : 12;
const AT_ONCE = IS_SOAK ? 64 : 6;
t.setTimeout(scaled(CYCLES * 6000 + 300_000));
const internet = await openInternet(t);
const { host, web } = internet.machines;
await internet.names.serve([`host-record=web.test,${web.address},60`]);
const OPTIONS = { memory_mib: 128, network: { enabled: true, allowlist: ['web.test'] } };
const ASK =
  'getent hosts web.test > /dev/null && ip=$(getent ahostsv4 web.test | head -n 1 | cut -d" " -f1) && echo $ip';
const state = () => host.sh('ip -br link; ip route; nft list ruleset; ls /proc/sys/net/ipv4/conf');

t.test(`${CYCLES} cycles of create, resolve and delete`, async (t) => {
  const daemon = await startDaemon(t, { flags: internet.daemonFlags });
  const { api, directories } = daemon;
  const kept = await api.create(OPTIONS);
  const before = await state();
  const FOLDERS = ['net', 'egress'];
  const there = async () =>
    (await Promise.all(FOLDERS.map((name) => readdir(join(directories.runDir, name))))).flat();
  const pins = await there();
  const seen = new Set<string | undefined>();
  let cycles = 0;
  const cycle = async (): Promise<void> => {
    cycles += 1;
    const sandbox = await api.create(OPTIONS);
    seen.add(sandbox.network?.guest_ip);
    t.equal(await api.sh(sandbox.id, ASK), web.address);
    await api.delete(sandbox.id);
  };
  for (let done = 0; done < CYCLES; done += 3) await Promise.all([cycle(), cycle(), cycle()]);
  t.ok(cycles >= CYCLES);
  t.equal(seen.size, cycles, 'no address came again at once');
  t.same(await settled(async () => ((await state()) === before ? [] : [await state()])), []);
  const left = async () => (await there()).filter((name) => !pins.includes(name));
  t.same(await settled(left), []);
  t.same(await leftovers(directories, { isRunning: true, ignore: [...FOLDERS, kept.id] }), []);
});

t.test(`${AT_ONCE} at once, each with its own`, async (t) => {
  const before = await state();
  {
    const daemon = await startDaemon(t, {
      flags: [...internet.daemonFlags, '--memory-overcommit-percent', '1000'],
    });
    const { api } = daemon;
    const all = await Promise.all(Array.from({ length: AT_ONCE }, () => api.create(OPTIONS)));
    t.equal(new Set(all.map(({ network }) => network?.guest_ip)).size, AT_ONCE);
    const answers = await Promise.all(all.map(({ id }) => api.sh(id, ASK)));
    t.same(new Set(answers), new Set([web.address]));
    await Promise.all(all.map(({ id }) => api.delete(id)));
    t.equal(await daemon.end(), 0);
  }
  t.equal(await state(), before, 'a daemon that stopped left the host as it was');
});
