// A daemon that is killed at each request that a change makes of the kernel: nothing is open meanwhile that neither policy
// allows, and with the next daemon the stored policy holds. Guests are namespaces.
import '../../../support/network/own-network.ts';
import t from 'tap';
import { NetHelper } from '../../../../host-agent/src/network/helper.ts';
import { openEgressLab, SSH } from '../../../support/network/egress-lab.ts';
import { OTHER_IP, WEB_IP } from '../../../support/network/lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(300_000));
const { open } = await openEgressLab(t);

const OTHER = { host: 'other.test', protocol: 'tcp', ports: [22] } as const;
const WEB = { host: 'shared.test', protocol: 'tcp', ports: [80] } as const;
const BEFORE = { allowlist: [], rules: [SSH, OTHER] };
const AFTER = { allowlist: [], rules: [OTHER, WEB] };

const { request } = NetHelper.prototype;
t.teardown(() => {
  NetHelper.prototype.request = request;
});
const verbs: string[] = [];

/** All requests after the first `count` are lost, as is the daemon. */
function killAfter(count: number): void {
  verbs.length = 0;
  NetHelper.prototype.request = function (args, body) {
    if (verbs.length === count) return Promise.reject(new Error('killed'));
    verbs.push(args[0] ?? '');
    return request.call(this, args, body);
  };
}

for (let count = 0, isDone = false; !isDone; count++)
  await t.test(`106: killed after ${count} requests of a change`, async (t) => {
    const { run, background, change, replace } = await open(t, BEFORE);
    const held = await background(`console.log('up'); await resolve('ok.test'); await resolve('other.test');
      const s = net.connect(22, '${WEB_IP}', () => console.log('connected'));
      setInterval(() => s.write('x'), 50); s.on('error', (e) => console.log(e.code)); s.on('close', () => console.log('closed'));`);
    await until(() => held.includes('connected'));
    killAfter(count);
    isDone = await change(AFTER).then(
      () => true,
      () => false,
    );
    t.comment(`${verbs.join(', ')}; ${isDone ? 'complete' : 'killed'}`);
    NetHelper.prototype.request = request;
    t.same(await run(`out.web = await tcp('${WEB_IP}', 443); out.other = await tcp('${OTHER_IP}', 80);`), {
      web: 'ECONNREFUSED',
      other: 'ECONNREFUSED',
    });
    await replace({ ...AFTER, before: BEFORE });
    await until(() => held.includes('closed'), 'the end of a connection');
    t.same(
      await run(`out.old = await tcp('${WEB_IP}', 22); out.name = await resolve('ok.test');
        await resolve('other.test'); out.kept = await tcp('${OTHER_IP}', 22);
        await resolve('shared.test'); out.added = await tcp('${WEB_IP}', 80); out.again = await tcp('${WEB_IP}', 22);`),
      { old: 'ECONNREFUSED', name: 'ENOTFOUND', kept: 'open', added: 'open', again: 'ECONNREFUSED' },
    );
  });
