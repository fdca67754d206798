// Answers that say that there is nothing, and those to a later EDNS: what resolvers between the program and ours need to cache them.
import { type Question as DnsQuestion, decode, encode } from 'dns-packet';
import t from 'tap';
import { Allowlist } from '../../../../host-agent/src/network/resolver/allowlist.ts';
import { ResolverClient } from '../../../../host-agent/src/network/resolver/client.ts';
import {
  encodeAnswer,
  encodeUdpAnswer,
  parseQuery,
} from '../../../../host-agent/src/network/resolver/message.ts';

function question(name: string, type: DnsQuestion['type']) {
  const parsed = parseQuery(
    encode({ type: 'query', id: 7, flags: 0x0100, questions: [{ name, type, class: 'IN' }] }),
  );
  if (parsed?.kind !== 'question') throw new Error('no question');
  return parsed.question;
}

t.test('negative answers say how long they hold', async (t) => {
  const soa = (owner: string) => [
    {
      name: owner,
      type: 'SOA',
      ttl: 10,
      data: { mname: '.', rname: '.', serial: 1, refresh: 3600, retry: 600, expire: 86_400, minimum: 10 },
    },
  ];
  const one = new ResolverClient({
    names: new Allowlist(['a.example', '*.b.example']),
    addresses: { allowed: [], subnet: { base: 0x0a570000, prefixLength: 16 } },
    open: async () => undefined,
    onDenied: () => undefined,
    onFailed: () => undefined,
    upstream: {
      resolve: async (name) => {
        if (name === 'fails.b.example') throw new Error('boom');
        return name === 'empty.b.example' ? [] : [{ address: '1.2.3.4', ttlS: 30 }];
      },
    },
  });
  for (const [name, type, rcode, authorities] of [
    ['a.example', 'A', 'NOERROR', []],
    ['a.example', 'AAAA', 'NOERROR', soa('example')],
    ['empty.b.example', 'A', 'NOERROR', soa('example')],
    ['fails.b.example', 'A', 'SERVFAIL', []],
    ['Other.Test', 'A', 'NXDOMAIN', soa('Test')],
    [
      `${'l'.repeat(63)}.${'l'.repeat(63)}.${'l'.repeat(63)}.${'l'.repeat(61)}`,
      'A',
      'NXDOMAIN',
      soa('l'.repeat(61)),
    ],
    ['example', 'A', 'NOERROR', soa('.')],
    ['net', 'A', 'NXDOMAIN', soa('.')],
    ['localhost', 'AAAA', 'NOERROR', soa('.')],
  ] as const) {
    const asked = question(name, type);
    const answer = (await one.answer(asked)) ?? { rcode: 'failed' };
    for (const bytes of [encodeAnswer(asked, answer), encodeUdpAnswer(asked, answer)])
      t.match(decode(bytes), { rcode, authorities, flag_tc: false }, `${type} of ${name}`);
    t.equal(decode(encodeAnswer(asked, answer)).authorities?.length, authorities.length);
  }
});

t.test('a later version of EDNS is answered BADVERS, with the version there is', async (t) => {
  const withVersion = (ednsVersion: number, flags = 0x0100) =>
    encode({
      ...{ type: 'query', id: 7, flags, questions: [{ name: 'a.example', type: 'A', class: 'IN' }] },
      additionals: [
        {
          type: 'OPT',
          name: '.',
          udpPayloadSize: 4096,
          extendedRcode: 0,
          ednsVersion,
          flags: 0,
          flag_do: false,
          options: [],
        },
      ],
    });
  t.equal(parseQuery(withVersion(0))?.kind, 'question');
  for (const version of [1, 255]) {
    const parsed = parseQuery(withVersion(version));
    if (parsed?.kind !== 'refusal') return void t.fail('it was heard');
    t.match(decode(parsed.bytes), {
      id: 7,
      rcode: 'NOERROR',
      questions: [{ name: 'a.example' }],
      additionals: [{ type: 'OPT', extendedRcode: 1, ednsVersion: 0, udpPayloadSize: 1232 }],
    });
  }
});
