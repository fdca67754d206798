// What policies allow, as verdicts say it, and how two of them compare.
import t from 'tap';
import type { NetworkPolicy } from '../../../../host-agent/src/network/network-policy.ts';
import { EgressPolicy } from '../../../../host-agent/src/network/policy.ts';
import { resolvePolicy } from '../../../../host-agent/src/network/resolve-policy.ts';
import { cpuMsOf } from '../../../support/cpu-time.ts';

const SSH = { host: 'github.test', protocol: 'tcp', ports: [22] } as const;
const WEB = { host: '*.web.test', protocol: 'tcp', ports: [80, 443] } as const;
const RANGE = { cidr: '1.2.3.0/24', protocol: 'udp', ports: ['50-60'] } as const;
const policy = (parts: Partial<NetworkPolicy>) => new EgressPolicy({ allowlist: [], ...parts });

t.test('a verdict says what allows a connection, or why it is refused', (t) => {
  const some = policy({
    allowlist: ['**.open.test'],
    rules: [SSH, WEB, RANGE],
    presets: [{ name: 'mail', rules: [{ host: 'mail.test', protocol: 'tcp', ports: [25] }] }],
  });
  const check = (host: string, port: number, protocol: 'tcp' | 'udp' = 'tcp') => {
    const { isAllowed, by, reason } = some.check(host, { protocol, port });
    return [isAllowed, by, reason];
  };
  t.match(check('x.y.open.test', 9), [true, { allowlist: '**.open.test' }, /once the guest has resolved/]);
  t.match(check('github.test', 22), [true, { rule: SSH }, /./]);
  t.match(check('github.test', 23), [false, undefined, /no tcp port 23/]);
  t.match(check('github.test', 22, 'udp'), [false, undefined, /no udp port 22/]);
  t.match(check('a.web.test', 443), [true, { rule: WEB }, /./]);
  t.match(check('a.b.web.test', 443), [false, undefined, /no allowlist, rule or preset has the name/]);
  t.match(check('mail.test', 25), [true, { preset: 'mail' }, /./]);
  t.match(check('1.2.3.4', 55, 'udp'), [true, { rule: RANGE }, /./]);
  t.match(check('1.2.3.4', 55), [false, undefined, /no rule has the address/]);
  t.match(check('169.254.169.254', 80), [false, undefined, /link-local or metadata/]);
  const internet = policy({ presets: [{ name: 'internet', rules: [] }] });
  t.match(internet.check('any.name.test', { protocol: 'tcp', port: 443 }), { by: { preset: 'internet' } });
  t.match(internet.check('8.8.8.8', { protocol: 'udp', port: 53 }), { isAllowed: true });
  t.match(internet.check('8.8.8.8', { protocol: 'tcp', port: 25 }), { isAllowed: false });
  t.match(internet.check('10.0.0.1', { protocol: 'tcp', port: 80 }), { isAllowed: false, reason: /private/ });
  t.end();
});

t.test('7: names that are none are allowed by nothing', (t) => {
  const wide = policy({ allowlist: ['**.ok.test'], presets: [{ name: 'internet', rules: [] }] });
  const names = [
    'a\0.ok.test',
    'a b.ok.test',
    'a%00.ok.test',
    'a/b.ok.test',
    `${'x'.repeat(64)}.ok.test`,
    '.ok.test',
  ];
  for (const name of [...names, 'a..ok.test', 'ok', '']) t.notOk(wide.allows(name), name);
  t.ok(wide.allows('a.b.ok.test'));
  t.end();
});

t.test('a policy includes another if it has the same names and ranges on at least the same ports', (t) => {
  const base = policy({ allowlist: ['a.test'], rules: [SSH, RANGE] });
  const wider = { ...SSH, ports: ['20-30'] };
  const range = { ...RANGE, ports: ['1-100'] };
  t.ok(policy({ allowlist: ['b.test', 'a.test'], rules: [wider, range] }).includes(base));
  t.ok(policy({ allowlist: ['a.test', 'github.test'], rules: [range] }).includes(base));
  t.notOk(policy({ allowlist: ['a.test'], rules: [SSH] }).includes(base));
  t.notOk(policy({ rules: [SSH, RANGE] }).includes(base));
  t.notOk(policy({ allowlist: ['a.test'], rules: [{ ...SSH, protocol: 'udp' }, RANGE] }).includes(base));
  t.notOk(base.includes(policy({ presets: [{ name: 'internet', rules: [] }] })));
  t.end();
});

t.test('rules with the same protocol and ports share a set, however they are written', (t) => {
  const one = policy({
    rules: [
      { host: 'a.test', protocol: 'tcp', ports: [80, 81, '82-90'] },
      { host: 'b.test', protocol: 'tcp', ports: ['85-90', '80-86'] },
      { cidr: '1.2.3.0/24', protocol: 'tcp', ports: ['80-90'] },
      { cidr: '1.2.3.128/25', protocol: 'tcp', ports: ['80-90'] },
    ],
  });
  t.match(one.classes, [{ ports: '80-90', patterns: ['a.test', 'b.test'], cidrs: ['1.2.3.0/24'] }]);
  t.equal(one.classes.length, 1);
  t.end();
});

t.test('rules have a bound in all, also those of presets', (t) => {
  const ports = Array.from({ length: 64 }, (_, n) => `${10_000 + 2 * n}-${10_001 + 2 * n}`);
  const long = Array.from(
    { length: 100 },
    (_, n) => ({ host: `h${n}.test`, protocol: 'tcp', ports }) as const,
  );
  const applied = [{ name: 'long', rules: long }];
  const presets = { apply: (names: readonly string[]) => (names.length > 0 ? applied : []) };
  const tooLong = { code: 'invalid_argument', message: /at most 65536 characters as JSON/ };
  t.throws(() => resolvePolicy({ allowlist: [], rules: long }, presets), tooLong);
  t.throws(() => resolvePolicy({ allowlist: [], presets: ['long'] }, presets), tooLong);
  t.equal(resolvePolicy({ allowlist: [], rules: long.slice(50) }, presets).rules?.length, 50);
  t.end();
});

t.test('a policy of many rules judges deep names fast, and its first rule wins', (t) => {
  const deep = (of: string) => `${Array(100).fill('a').join('.')}.${of}`;
  const rules = Array.from({ length: 255 }, (_, n) => ({
    host: n % 2 === 0 ? `**.r${n % 50}.test` : deep(`r${n % 50}.test`),
    protocol: (['tls', 'http', 'tcp'] as const)[n % 3] ?? 'tls',
    ports: [443, `${1000 + n}-${1100 + n}`],
    ...(n % 3 === 0 && n % 4 === 0 && { ech: 'refuse' as const }),
  }));
  const many = policy({ rules: rules as NetworkPolicy['rules'] & object });
  for (const n of [0, 1, 2, 3, 6, 7, 12, 49])
    for (const port of [443, 1000 + n, 1049, 7])
      for (const hasEch of [false, true]) {
        const name = deep(`r${n}.test`);
        const first = rules.find(
          (each) =>
            each.protocol === 'tls' &&
            !(hasEch && 'ech' in each) &&
            each.host.endsWith(`r${n}.test`) &&
            each.ports.some((range) => {
              const [from = 0, to = from] = String(range).split('-').map(Number);
              return from <= port && port <= to;
            }),
        );
        const { isAllowed, by } = many.judge({ kind: 'tls', name, port, hasEch });
        t.equal(isAllowed, first !== undefined, `${n}:${port}`);
        t.same(by, first && { rule: first });
      }
  const few = policy({ rules: rules.slice(0, 16) as NetworkPolicy['rules'] & object });
  const [small, large] = [few, many].map((each) =>
    cpuMsOf(() => {
      for (let n = 0; n < 500; n++) {
        const name = `b${n}.${deep('none.test')}`;
        each.judge({ kind: 'tls', name, port: 443, hasEch: true });
        each.isOpenUnbound(name, { protocol: 'tcp', port: 443 });
        each.check(name, { protocol: 'tcp', port: 443 });
      }
    }),
  );
  // For sixteen times the rules: those of a name are looked up.
  t.ok(Number(large) < 8 * Number(small), `${small} and ${large} ms`);
  t.end();
});

t.test('what a rule binds to names is not open without them', (t) => {
  const TCP = (port: number) => ({ protocol: 'tcp', port }) as const;
  const bound = policy({
    allowlist: ['ok.test'],
    rules: [{ host: 'tls.test', protocol: 'tls', ports: [80, 443] }, SSH],
  });
  t.notOk(bound.isOpenUnbound('tls.test', TCP(80)));
  t.ok(bound.check('tls.test', TCP(80)).isAllowed, 'as the answer to a client has it');
  t.notOk(bound.isOpenUnbound('ok.test', TCP(443)));
  t.ok(bound.isOpenUnbound('ok.test', TCP(22)));
  t.ok(bound.isOpenUnbound('github.test', TCP(22)));
  t.notOk(bound.isOpenUnbound('none.test', TCP(22)));
  const internet = policy({ presets: [{ name: 'internet', rules: [] }] });
  t.ok(internet.isOpenUnbound('any.test', TCP(443)));
  t.notOk(internet.isOpenUnbound('any.test', TCP(25)));
  t.end();
});
