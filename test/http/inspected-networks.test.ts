// Keys and tenants whose sandboxes have only networks that the gateway reads.
import t from 'tap';
import { scaled } from '../support/time-scale.ts';
import { startKeyed as start } from './keyed-daemon.ts';

t.setTimeout(scaled(120_000));

t.test(
  'net_require_inspect of a key or tenant: each way to a network that passes unread is 403',
  async (t) => {
    const { as, keyring, snapshotOf, root } = await start(t);
    const network = (fields: object) => ({ network: { enabled: true, ...fields } });
    const READ = { host: 'a.test', tls: 'inspect' };
    const UNREAD = [
      [{ allowlist: ['d.test'] }, 'allowlist d.test'],
      [{ rules: [READ, { host: '*.b.test' }] }, 'rule *.b.test tls'],
      [{ rules: [{ host: 'b.test', tls: 'passthrough' }] }, 'rule b.test tls'],
      [{ rules: [{ host: 'b.test', protocol: 'http' }] }, 'rule b.test http'],
      [{ rules: [{ host: 'b.test', protocol: 'postgres' }] }, 'rule b.test postgres'],
      [{ rules: [{ host: 'b.test', protocol: 'tcp', ports: [22] }] }, 'rule b.test tcp'],
      [{ rules: [{ cidr: '198.41.0.0/24', protocol: 'udp', ports: [53] }] }, 'rule 198.41.0.0/24 udp'],
    ] as const;
    const [wide, narrow] = [
      await as({ tenant: 'free' }),
      await as({ policy: { net_require_inspect: true } }),
    ];
    const tenants = await as({ tenant: 'acme' });
    await keyring.registry.setQuota('acme', { net_require_inspect: true });
    const snapshot = await snapshotOf(network({ allowlist: ['a.test'] }));
    const inspected = [
      READ,
      { host: 'b.test', protocol: 'http', methods: ['GET'] },
      { host: 'c.test', paths: ['/a'] },
    ];
    for (const [ask, by] of [
      [narrow, 'the policy of key'],
      [tenants, 'the quota of tenant "acme"'],
    ] as const) {
      const { id, status } = await ask('POST', '/sandboxes', network({ rules: inspected }));
      t.equal(status, 201, by);
      for (const [fields, word] of UNREAD) {
        const refused = {
          status: 403,
          error: new RegExp(`${by}.*${toPattern(word)} passes unread, and net_require`),
        };
        t.match(await ask('POST', '/sandboxes', network(fields)), refused, word);
        t.match(await ask('PATCH', `/sandboxes/${id}/network`, fields), refused, `${word}, PATCH`);
        t.match(await ask('PUT', `/sandboxes/${id}/network`, fields), refused, `${word}, PUT`);
      }
      t.match(await ask('GET', `/sandboxes/${id}/network`), { status: 200 });
      t.match(await ask('POST', '/sandboxes', network({ allowlist: ['a.test', 'b.test'], rules: [] })), {
        status: 403,
        error: /allowlist a\.test, allowlist b\.test pass unread/,
      });
      t.match(await ask('PUT', `/sandboxes/${id}/network`, {}), { status: 200 }, 'nothing at all');
      t.match(await ask('POST', '/sandboxes', {}), { status: 201 }, 'no network');
    }
    t.match(await narrow('POST', `/snapshots/${snapshot}/fork`), { status: 403, error: /allowlist a\.test/ });
    const read = await snapshotOf(network({ rules: inspected }));
    t.match(await narrow('POST', `/snapshots/${read}/fork`), { status: 201 });
    const secret = { X: { value: 'a-value-for-tests', hosts: ['b.test'] } };
    t.match(
      await narrow('POST', '/sandboxes', { ...network({ rules: [{ host: 'b.test' }] }), secrets: secret }),
      { status: 403, error: /rule b\.test tls/ },
      'what a secret has inspected passes unread without it',
    );
    t.match(await wide('POST', '/sandboxes', network({ allowlist: ['a.test'] })), { status: 201 });
    t.match(await root('POST', '/sandboxes', network({ allowlist: ['a.test'] })), { status: 201 });
    await keyring.registry.removeQuota('acme');
    t.match(
      await tenants('POST', '/sandboxes', network({ allowlist: ['a.test'] })),
      { status: 201 },
      'at once',
    );
  },
);

function toPattern(text: string): string {
  return text.replaceAll(/[.*/]/g, '\\$&');
}
