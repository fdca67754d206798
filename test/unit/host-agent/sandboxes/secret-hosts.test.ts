// The policy that holds where a sandbox has secrets: their hosts are read, and nothing more is open.
import t from 'tap';
import { EgressPolicy } from '../../../../host-agent/src/network/index.ts';
import type { NetworkPolicy } from '../../../../host-agent/src/network/network-policy.ts';
import { assertInspectable, withInspection } from '../../../../host-agent/src/sandboxes/secret-hosts.ts';
import type { StoredBinding } from '../../../../host-agent/src/secrets/index.ts';

function bind(hosts: string[], change: Partial<StoredBinding> = {}): StoredBinding {
  return { name: 'S', id: 'sec_1', placeholder: 'p', prefix: '', hosts, forms: ['bearer'], ...change };
}

/** Whether a connection by name passes, and whether it is read. */
function judge(
  policy: NetworkPolicy,
  bindings: StoredBinding[],
  name: string,
  port = 443,
  kind: 'tls' | 'http' = 'tls',
) {
  const held = new EgressPolicy(withInspection(policy, bindings));
  const verdict = held.judge({ kind, name, port, hasEch: false });
  return !verdict.isAllowed ? 'denied' : verdict.isRead === true ? 'read' : 'unread';
}

t.test('without secrets nothing changes', async (t) => {
  const policy = { allowlist: ['a.test'] };
  t.equal(withInspection(policy, []), policy);
});

t.test('an entry of an allowlist for the host is read on 443, and open as before elsewhere', async (t) => {
  const policy = { allowlist: ['api.test', 'b.test'] };
  const bindings = [bind(['api.test'])];
  t.equal(judge(policy, bindings, 'api.test'), 'read');
  t.equal(judge(policy, bindings, 'api.test', 80, 'http'), 'unread');
  t.equal(judge(policy, bindings, 'b.test'), 'unread');
  t.equal(judge(policy, bindings, 'c.test'), 'denied');
  const held = new EgressPolicy(withInspection(policy, bindings));
  for (const port of [22, 8080])
    t.match(held.check('api.test', { protocol: 'tcp', port }), { isAllowed: true });
  t.match(held.check('api.test', { protocol: 'udp', port: 443 }), { isAllowed: false });
});

t.test('within a wildcard only the host of the secret is read', async (t) => {
  for (const policy of [
    { allowlist: ['*.test.example'] },
    { allowlist: [], rules: [{ host: '*.test.example', protocol: 'tls', ports: [443] }] },
    {
      allowlist: [],
      presets: [{ name: 'p', rules: [{ host: '*.test.example', protocol: 'tls', ports: [443] }] }],
    },
  ] as NetworkPolicy[]) {
    t.equal(judge(policy, [bind(['api.test.example'])], 'api.test.example'), 'read');
    t.equal(judge(policy, [bind(['api.test.example'])], 'other.test.example'), 'unread');
    t.equal(judge(policy, [bind(['**.example'])], 'other.test.example'), 'read');
  }
});

t.test('a host that nothing allows stays closed', async (t) => {
  t.equal(judge({ allowlist: ['b.test'] }, [bind(['api.test'])], 'api.test'), 'denied');
  t.equal(judge({ allowlist: [] }, [bind(['**.test'])], 'api.test'), 'denied');
});

t.test('methods and paths of a rule stay', async (t) => {
  const rule = { host: 'api.test', protocol: 'tls', ports: [443], tls: 'inspect', methods: ['GET'] } as const;
  t.same(withInspection({ allowlist: [], rules: [rule] }, [bind(['api.test'])]).rules, [rule]);
});

t.test('without TLS it is read only where the secret permits that', async (t) => {
  const policy: NetworkPolicy = { allowlist: [], rules: [{ host: 'a.test', protocol: 'http', ports: [80] }] };
  t.equal(judge(policy, [bind(['a.test'])], 'a.test', 80, 'http'), 'unread');
  t.equal(judge(policy, [bind(['a.test'], { plainHttp: true })], 'a.test', 80, 'http'), 'read');
});

t.test('a network that lets the host pass unread by address is refused', async (t) => {
  const bindings = [bind(['a.test'])];
  const internet = { allowlist: ['a.test'], presets: [{ name: 'internet', rules: [] }] };
  t.throws(() => assertInspectable(internet, bindings), {
    code: 'invalid_argument',
    message: /does not fit its secrets/,
  });
  t.doesNotThrow(() => assertInspectable(internet, []));
  t.doesNotThrow(() => assertInspectable({ allowlist: ['a.test', '*.b.test'] }, bindings));
});
