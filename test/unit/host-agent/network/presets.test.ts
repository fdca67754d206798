// Presets that have changed, ways past rules that read requests, and methods that no client means.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type NetworkRule, networkRule } from '@sandboxd/api';
import { pino } from 'pino';
import t from 'tap';
import type { NetworkPolicy } from '../../../../host-agent/src/network/network-policy.ts';
import { Presets } from '../../../../host-agent/src/network/presets.ts';
import { findUnreadWay } from '../../../../host-agent/src/network/resolve-policy.ts';

const A: NetworkRule = { host: 'a.test', protocol: 'tls', ports: [443] };

t.test('a stored preset keeps its name only while its name has each of its rules', (t) => {
  const file = join(t.testdir(), 'presets.json');
  writeFileSync(file, JSON.stringify({ web: { rules: [{ ...A, tls: 'inspect', methods: ['GET'] }, A] } }));
  const presets = Presets.open({ file, hasInternet: false, log: pino({ enabled: false }) });
  const isCurrent = (...rules: NetworkRule[]): boolean => {
    const policy: NetworkPolicy = { allowlist: [], presets: [{ name: 'web', rules }] };
    const after = presets.withCurrentNames(policy);
    if (after.presets?.length === 0) t.same(after.rules, rules, 'plain rules');
    return after.presets?.length === 1;
  };
  t.ok(isCurrent(A));
  t.ok(isCurrent({ ports: [443], protocol: 'tls', host: 'a.test' }));
  t.ok(isCurrent({ ...A, tls: 'inspect', methods: ['GET'] }));
  t.notOk(isCurrent({ ...A, host: 'evil.test' }), 'of the same ports');
  t.notOk(isCurrent(A, { ...A, protocol: 'http', ports: [80] }));
  t.notOk(isCurrent({ ...A, tls: 'inspect', methods: ['GET', 'POST'] }));
  t.end();
});

t.test('addresses that are open by UDP let HTTP/3 pass unread', (t) => {
  const read: NetworkRule = { ...A, tls: 'inspect', methods: ['GET'] };
  const ways = (other: NetworkRule) => findUnreadWay({ allowlist: [], rules: [read, other] });
  t.match(ways({ host: 'a.test', protocol: 'udp', ports: [443] }), /by udp, which pass unread/);
  t.match(ways({ cidr: '1.1.1.0/24', protocol: 'udp', ports: ['1-1000'] }), /by udp, which pass unread/);
  t.equal(ways({ host: 'a.test', protocol: 'udp', ports: [53] }), undefined);
  t.end();
});

t.test('a method in lower case is another method', (t) => {
  const parse = (method: string) => networkRule.safeParse({ host: 'a.test', methods: [method] });
  for (const method of ['get', 'Post', 'delete'])
    t.match(
      parse(method).error?.issues[0]?.message,
      `must be in upper case, such as GET: methods are case-sensitive`,
    );
  for (const method of ['GET', 'PROPFIND', 'M-SEARCH', 'custom']) t.ok(parse(method).success, method);
  t.end();
});
