// What a hostile guest may do to the changes of its policy: many addresses, names and connections, and expiries at each
// moment. The kernel and its helper are a model that has the limits of the real ones. The numbers are those of the attack
// list (docs/network.md).
import t from 'tap';
import { Egress } from '../../../../host-agent/src/network/egress.ts';
import { Flows } from '../../../../host-agent/src/network/flows.ts';
import type { NetHelper } from '../../../../host-agent/src/network/helper.ts';
import {
  EgressPolicy,
  type NetworkPolicy,
  type NetworkSlot,
} from '../../../../host-agent/src/network/index.ts';
import { GUEST_TABLE } from '../../../../host-agent/src/network/rules/table.ts';

const GATEWAY = '10.0.0.1';
const MAX_BODY = 2 ** 20;
const WEB = { host: '*.x.test', protocol: 'tcp', ports: [443] } as const;
const ESTABLISHED = 3;
const TIME_WAIT = 7;

const policyOf = (parts: Partial<NetworkPolicy>) => new EgressPolicy({ allowlist: [], ...parts });
const addressOf = (at: number) => `1.${(at >> 16) & 255}.${(at >> 8) & 255}.${at & 255}`;

/** One connection as netd lists it. */
function flow(address: string, port: number, { state = ESTABLISHED, from = 1, protocol = 6 } = {}): string {
  const hex = (value: number, digits: number) => value.toString(16).padStart(digits, '0');
  const number = address.split('.').reduce((sum, octet) => sum * 256 + Number(octet), 0);
  return `${hex(protocol, 2)}${hex(state, 2)}${hex(from, 4)}${hex(port, 4)}${hex(number, 8)}`;
}

function start(parts: Partial<NetworkPolicy>) {
  const sets = new Map<string, Map<string, number>>([
    ['allowed', new Map()],
    ['used', new Map()],
  ]);
  const kernel = {
    sets,
    flows: new Set<string>(),
    told: 0,
    bodies: [] as number[],
    onList: () => {},
    onDropped: (_flows: readonly string[]) => {},
  };
  const setOf = (name: string) => {
    const set = sets.get(name) ?? new Map<string, number>();
    sets.set(name, set);
    return set;
  };
  const add = (name: string, list: string) => {
    for (const [, address = '', ttl = ''] of list.matchAll(/([\d.]+) timeout (\d+)s/g))
      setOf(name).set(address, Number(ttl));
    const max = name === 'allowed' || name === 'used' ? 8192 : 1024;
    if (setOf(name).size > max) throw new Error(`cannot add to ${name}: Too many open files in system`);
  };
  const nft = async (commands: string): Promise<string> => {
    if (commands.startsWith('list')) {
      kernel.onList();
      const all = [...sets].map(([name, elements]) => ({
        set: { name, elem: [...elements].map(([val, expires]) => ({ elem: { val, expires } })) },
      }));
      return JSON.stringify({ nftables: all });
    }
    if (Buffer.byteLength(commands) > MAX_BODY) throw new Error('too long');
    for (const line of commands.split('\n')) {
      const [verb, kind, , , name = ''] = line.trim().split(' ');
      if (kind !== 'set' && kind !== 'element') continue;
      if (verb === 'flush') setOf(name).clear();
      if (verb === 'delete' && kind === 'set') sets.delete(name);
      if (verb === 'add') add(name, line.slice(line.indexOf('{')));
    }
    return '';
  };
  const request = async ([verb]: readonly string[], body = ''): Promise<string> => {
    kernel.bodies.push(Buffer.byteLength(body));
    if (body.length > MAX_BODY) throw new Error('a request to the program for networks is too long');
    if (verb === 'flows') return [...kernel.flows].join('');
    const some = body.match(/.{20}/g) ?? [];
    if (verb === 'tell') kernel.told += some.length;
    if (verb !== 'drop') return '';
    for (const each of some) kernel.flows.delete(each);
    kernel.onDropped(some);
    return '';
  };
  const slot = { namespace: '/ns', guestIp: '10.0.0.2', mac: '02', gatewayMac: '01' } as NetworkSlot;
  const egress = new Egress({
    policy: policyOf(parts),
    nft,
    flows: new Flows({ request } as unknown as NetHelper, slot),
    gateway: GATEWAY,
    resolver: { resolverIp: '10.0.0.3', resolverPort: 53, guestIp: '10.0.0.2' },
    onClosed: () => undefined,
    subnet: '10.0.0.0/24',
  });
  const resolve = (name: string, from: number, count: number, ttlS = 600) =>
    egress.open(
      Array.from({ length: count }, (_, n) => ({ address: addressOf(from + n), ttlS })),
      name,
    );
  const change = (to: Partial<NetworkPolicy>) => egress.change(policyOf(to));
  return { kernel, egress, resolve, change };
}

t.test('the model has the commands of the rules', async (t) => {
  const { kernel, resolve, change } = start({ allowlist: ['*.x.test'] });
  t.equal(GUEST_TABLE.split(' ').length, 2);
  await resolve('a.x.test', 0, 2);
  t.same([...(kernel.sets.get('allowed')?.keys() ?? [])], [addressOf(0), addressOf(1)]);
  await change({ rules: [WEB] });
  t.equal(kernel.sets.get('allowed')?.size, 0);
  const [open] = [...kernel.sets].filter(([name]) => name.startsWith('open_'));
  t.equal(open?.[1].size, 2);
  await change({});
  t.same([...kernel.sets.keys()], ['allowed', 'used']);
});

t.test('98: more open addresses than the sets of a new policy hold do not keep the old one', async (t) => {
  const { kernel, resolve, change } = start({ allowlist: ['*.x.test', 'y.test'] });
  for (let at = 0; at < 3000; at += 60) await resolve(`n${at}.x.test`, at, 60);
  await change({ rules: [WEB] });
  t.equal(kernel.sets.get('allowed')?.size, 0);
  for (let at = 3000; at < 13_000; at += 50) await resolve(`n${at}.x.test`, at, 50).catch(() => undefined);
  await change({ allowlist: ['*.x.test'] });
  t.ok((kernel.sets.get('allowed')?.size ?? 0) <= 8192);
});

t.test('98: addresses that expire at each moment do not keep the old policy', async (t) => {
  const { kernel, resolve, change } = start({ allowlist: ['*.x.test', 'y.test'] });
  await resolve('a.x.test', 0, 60, 1);
  let at = 0;
  kernel.onList = () => kernel.sets.get('allowed')?.set(addressOf(at++), 0);
  await new Promise((done) => setTimeout(done, 1100));
  t.equal(await change({ allowlist: ['*.x.test'] }), 0);
});

t.test(
  '98: more connections than one request has are all dropped; both ends of the live ones hear of it',
  async (t) => {
    const { kernel, resolve, change } = start({ allowlist: ['*.x.test', 'y.test'] });
    await resolve('y.test', 0, 1);
    for (let from = 1; from <= 60_000; from++) {
      const state = from <= 30 ? ESTABLISHED : TIME_WAIT;
      kernel.flows.add(flow(addressOf(0), 80 + (from & 1), { from, state }));
    }
    t.equal(await change({ allowlist: ['*.x.test'] }), 30);
    t.equal(kernel.flows.size, 0);
    t.equal(kernel.told, 30);
    t.ok(Math.max(...kernel.bodies) < MAX_BODY);
  },
);

t.test('109: names that lead to the same addresses are remembered up to a bound', async (t) => {
  const { egress, resolve, change } = start({ allowlist: ['*.x.test', 'y.test'] });
  for (let n = 0; n < 600; n++) await resolve(`n${n}.x.test`, 64 * (n % 9), 64);
  let pairs = 0;
  for (let at = 0; at < 64 * 9; at++) {
    const names = egress.namesOf(addressOf(at));
    t.ok(names.length <= 64);
    pairs += names.length;
  }
  t.ok(pairs <= 16_384, `${pairs} pairs`);
  t.ok(egress.namesOf(addressOf(64 * (599 % 9))).includes('n599.x.test'));
  t.equal(await change({ allowlist: ['*.x.test'] }), 0);
});

t.test('98: a connection that the kernel lets begin again does not keep the old policy', async (t) => {
  const internet = [{ name: 'internet', rules: [] }];
  const { kernel, egress, change } = start({ rules: [WEB], presets: internet });
  const set = egress.policy.classes[0]?.set ?? '';
  // The daemon was started again: names are not known.
  kernel.sets.set(`open_${set}`, new Map([[addressOf(1), 60]]));
  await egress.restore();
  const own = flow(addressOf(1), 443);
  kernel.flows.add(own);
  kernel.flows.add(flow(addressOf(9), 443));
  kernel.onDropped = () => kernel.flows.add(own);
  t.equal(await change({ rules: [WEB] }), 1);
  t.same([...kernel.flows], [own]);
});

t.test(
  '98: what nothing could have opened is closed, and all of it if the policy before is not known',
  async (t) => {
    const { kernel, egress, change } = start({ rules: [WEB], allowlist: ['y.test'] });
    const ping = flow(addressOf(1), 0, { protocol: 1 });
    const udp = flow(addressOf(1), 53, { protocol: 17 });
    await change({ rules: [WEB] });
    for (const each of [ping, udp, flow(GATEWAY, 53, { protocol: 17 })]) kernel.flows.add(each);
    t.equal(await change({}), 2);
    t.same([...kernel.flows], [flow(GATEWAY, 53, { protocol: 17 })]);
    await change({ rules: [WEB] });
    kernel.flows.add(flow(addressOf(1), 443));
    t.equal(await egress.change(policyOf({ rules: [WEB] }), 'unknown'), 1, 'not even the same one');
  },
);
