// The resolver of sandboxes: its answers, and the addresses that they open.
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect } from 'node:net';
import { type Question as DnsQuestion, decode, encode, type Packet, streamEncode } from 'dns-packet';
import { pino } from 'pino';
import t from 'tap';
import { errnoOf } from '../../../../../host-agent/src/lib/errors.ts';
import { AllowedAddresses, readElements } from '../../../../../host-agent/src/network/allowed-addresses.ts';
import { DenialLog, describePacket } from '../../../../../host-agent/src/network/denial-log.ts';
import { Allowlist } from '../../../../../host-agent/src/network/resolver/allowlist.ts';
import { ResolverClient } from '../../../../../host-agent/src/network/resolver/client.ts';
import { parseQuery } from '../../../../../host-agent/src/network/resolver/message.ts';
import { Resolver } from '../../../../../host-agent/src/network/resolver/resolver.ts';
import type { Found } from '../../../../../host-agent/src/network/resolver/upstream.ts';

const SUBNET = { base: 0x0a570000, prefixLength: 16 };
const ask = (name: string, type: DnsQuestion['type'] = 'A') =>
  encode({ type: 'query', id: 7, flags: 0x0100, questions: [{ name, type, class: 'IN' }] });

function question(bytes: Buffer) {
  const parsed = parseQuery(bytes);
  if (parsed?.kind !== 'question') throw new Error('no question');
  return parsed.question;
}

type ClientParts = Partial<ConstructorParameters<typeof ResolverClient>[0]>;
const client = (parts: ClientParts = {}) =>
  new ResolverClient({
    names: new Allowlist(['a.example', '*.b.example']),
    addresses: { allowed: [], subnet: SUBNET },
    upstream: { resolve: async () => [{ address: '1.2.3.4', ttlS: 30 }] },
    open: async () => undefined,
    onDenied: () => undefined,
    onFailed: () => undefined,
    ...parts,
  });

t.test(
  'an address is open before the response is sent, for a minute to an hour, however long a guest caches it',
  async (t) => {
    const opened: Found[] = [];
    let isOpen = false;
    const found = [
      ['1.1.1.1', 0],
      ['1.1.1.2', 604_800],
      ['1.1.1.3', 77],
      ['1.1.1.3', 78],
      ['1.1.1.4', -5],
    ] as const;
    const asked = client({
      upstream: { resolve: async () => found.map(([address, ttlS]) => ({ address, ttlS })) },
      open: async (addresses) => {
        await new Promise((resolve) => setTimeout(resolve, 20));
        opened.push(...addresses);
        isOpen = true;
      },
    });
    const answer = await asked.answer(question(ask('a.example')));
    t.ok(isOpen);
    const lives = (records: readonly Found[] = []) => records.map(({ address, ttlS }) => [address, ttlS]);
    t.equal(answer?.rcode, 'ok');
    t.same(
      lives(answer?.records),
      [
        ['1.1.1.1', 1],
        ['1.1.1.2', 3600],
        ['1.1.1.3', 78],
        ['1.1.1.4', 1],
      ],
      'the answer is told as it was',
    );
    t.same(lives(opened), [
      ['1.1.1.1', 60],
      ['1.1.1.2', 3600],
      ['1.1.1.3', 78],
      ['1.1.1.4', 60],
    ]);
  },
);

t.test('what is not the internet is left out of answers, unless the operator has it', async (t) => {
  const denied: string[] = [];
  const addresses = ['10.0.0.1', '169.254.169.254', '127.0.0.1', '0.0.0.0', '10.87.3.2', '8.8.8.8'];
  const parts: ClientParts = {
    upstream: { resolve: async () => addresses.map((address) => ({ address, ttlS: 5 })) },
    onDenied: (name, why) => denied.push(`${name} ${why}`),
  };
  const records = async (more: ClientParts) => {
    const answer = await client({ ...parts, ...more }).answer(question(ask('a.example')));
    return answer?.records?.map(({ address }) => address);
  };
  t.same(await records({}), ['8.8.8.8']);
  t.match(denied, [
    /^a\.example its address 10\.0\.0\.1 is private$/,
    /169\.254\.169\.254 is link-local/,
    /loopback/,
    /reserved/,
    /of other sandboxes/,
  ]);
  t.same(await records({ addresses: { allowed: [{ base: 0x0a000000, prefixLength: 8 }], subnet: SUBNET } }), [
    '10.0.0.1',
    '8.8.8.8',
  ]);
});

t.test('only an A question of an allowed name is asked upstream', async (t) => {
  const asked: string[] = [];
  const denied: string[] = [];
  const one = client({
    upstream: {
      resolve: async (name) => {
        asked.push(name);
        return name === 'gone.b.example' ? undefined : [];
      },
    },
    onDenied: (name) => denied.push(name),
  });
  for (const type of ['AAAA', 'TXT', 'HTTPS', 'MX', 'NS', 'ANY', 'CNAME', 'SRV'] as const)
    t.same(await one.answer(question(ask('a.example', type as 'TXT'))), { rcode: 'ok' }, type);
  for (const name of ['x.example', 'data.x.a.example', 'a.example.x', 'c.x.b.example'])
    for (const type of ['A', 'TXT'] as const)
      t.same(await one.answer(question(ask(name, type))), { rcode: 'noSuchName' });
  t.same(asked, []);
  t.equal(denied.length, 8);
  t.match(await one.answer(question(ask('A.eXample.'))), { rcode: 'ok', records: [] });
  t.same(await one.answer(question(ask('gone.b.example'))), { rcode: 'noSuchName' });
  t.same(asked, ['a.example', 'gone.b.example']);
});

t.test('what is above an allowed name exists, and has nothing: else nothing below it would', async (t) => {
  // RFC 8020: resolvers that query label by label, or cache such answers, take NXDOMAIN as the absence of all names
  // below.
  const asked: string[] = [];
  const denied: string[] = [];
  const one = client({
    names: new Allowlist(['api.deep.site.example', '*.pages.test']),
    upstream: { resolve: async (name) => void asked.push(name) },
    onDenied: (name) => denied.push(name),
  });
  const above = ['deep.site.example', 'Site.Example', 'example', 'pages.test', 'test'];
  for (const name of above)
    for (const type of ['A', 'AAAA', 'NS', 'SOA'] as const)
      t.same(await one.answer(question(ask(name, type))), { rcode: 'ok' }, `${type} of ${name}`);
  t.same([asked, new Set(denied).size], [[], above.length], 'none is asked for, all are denied');
  for (const name of ['other.site.example', 'ample', 'x.api.deep.site.example', 'a.b.pages.test', 'net'])
    t.same(await one.answer(question(ask(name))), { rcode: 'noSuchName' }, name);
});

t.test(
  'localhost and all below it are the guest itself, for those that ask name servers even for that',
  async (t) => {
    const said: string[] = [];
    const say = async (name: string) => void said.push(name);
    const one = client({ upstream: { resolve: say }, open: async () => void say('open'), onDenied: say });
    for (const name of ['localhost', 'App.LocalHost', 'a.b.localhost']) {
      const answer = await one.answer(question(ask(name)));
      t.match(answer, { rcode: 'ok', records: [{ address: '127.0.0.1' }] }, name);
      t.same(await one.answer(question(ask(name, 'AAAA'))), { rcode: 'ok' });
    }
    t.same(said, [], 'nobody is asked, nothing is opened, nothing is denied');
    t.same(await one.answer(question(ask('notlocalhost'))), { rcode: 'noSuchName' });
  },
);

t.test('who could not say, and who could not open, fail the question only', async (t) => {
  const failed: string[] = [];
  const onFailed = (name: string, _error: unknown, step: string) => failed.push(`${step} ${name}`);
  const boom = async () => Promise.reject(new Error('boom'));
  t.same(await client({ upstream: { resolve: boom }, onFailed }).answer(question(ask('a.example'))), {
    rcode: 'failed',
  });
  t.same(await client({ open: boom, onFailed }).answer(question(ask('a.example'))), { rcode: 'failed' });
  t.same(failed, ['ask a.example', 'open a.example']);
});

t.test('failures are reported without messages of host programs, and rate-limited', async (t) => {
  const said: string[] = [];
  const denials = new DenialLog((text) => said.push(text));
  const nft = 'cannot change rules: netlink: Error: Could not process rule: No space left on device';
  const trouble: boolean[] = [];
  const one = client({
    open: () => Promise.reject(new Error(nft)),
    onFailed: (name, _error, step) => trouble.push(denials.failure(name, step)),
  });
  for (let n = 0; n < 3; n++) await one.answer(question(ask('a.example')));
  t.same(trouble, [true, false, false]);
  t.same(said, [
    'network: cannot resolve a.example: its addresses could not be opened; the log of the daemon says more',
  ]);
});

t.test('equal questions wait for one answer, and too many are not heard', async (t) => {
  const waiting: (() => void)[] = [];
  let asked = 0;
  const one = client({
    upstream: {
      resolve: () => {
        asked++;
        return new Promise((resolve) => waiting.push(() => resolve([])));
      },
    },
  });
  const same = Array.from({ length: 1000 }, () => one.answer(question(ask('a.example'))));
  t.equal(asked, 1);
  const answers = Array.from({ length: 5000 }, (_, at) => one.answer(question(ask(`n${at}.b.example`))));
  t.equal(asked, 32);
  t.equal(await answers.at(-1), undefined);
  const timer = setInterval(() => {
    for (const done of waiting.splice(0)) done();
  }, 1);
  t.equal((await Promise.all(same)).length, 1000);
  t.equal((await Promise.all(answers)).filter((answer) => answer !== undefined).length, 2048 + 31);
  clearInterval(timer);
});

/** The port that UDP got may be taken for TCP. */
async function openAnywhere(asker: Parameters<typeof Resolver.open>[1]): Promise<Resolver> {
  for (let tries = 0; ; tries++)
    try {
      return await Resolver.open({ host: '127.0.0.1', port: 0 }, asker, pino({ level: 'silent' }));
    } catch (error) {
      if (errnoOf(error) !== 'EADDRINUSE' || tries > 20) throw error;
    }
}

t.test('guests are answered by UDP and TCP, other clients are not', async (t) => {
  const asker = { address: '127.0.0.2', client: client() };
  const resolver = await openAnywhere(asker);
  const { port } = resolver;
  const udp = async (from: string, bytes: Buffer) => {
    const socket = createSocket('udp4');
    socket.bind(0, from);
    await once(socket, 'listening');
    socket.send(bytes, port, '127.0.0.1');
    const timer = setTimeout(() => socket.emit('message', undefined), 300);
    const [answer] = (await once(socket, 'message')) as [Buffer | undefined];
    clearTimeout(timer);
    socket.close();
    return answer && decode(answer);
  };
  t.match(await udp('127.0.0.2', ask('a.example')), {
    id: 7,
    rcode: 'NOERROR',
    answers: [{ name: 'a.example', data: '1.2.3.4', ttl: 30 }],
  });
  t.match(await udp('127.0.0.2', ask('no.example')), { rcode: 'NXDOMAIN', answers: [] });
  t.equal(await udp('127.0.0.3', ask('a.example')), undefined);

  const tcp = (from: string, sent: Buffer, end = true) =>
    new Promise<Packet[]>((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port, localAddress: from });
      const chunks: Buffer[] = [];
      socket.on('data', (chunk: Buffer) => chunks.push(chunk));
      socket.on('error', reject);
      socket.on('close', () => {
        const packets: Packet[] = [];
        let bytes = Buffer.concat(chunks);
        for (; bytes.length >= 2; bytes = bytes.subarray(2 + bytes.readUInt16BE(0)))
          packets.push(decode(bytes.subarray(2, 2 + bytes.readUInt16BE(0))));
        resolve(packets);
      });
      if (end) socket.end(sent);
      else socket.write(sent);
    });
  const query = (name: string) =>
    streamEncode({ type: 'query', id: 9, flags: 0x0100, questions: [{ name, type: 'A' }] });
  t.equal(
    (await tcp('127.0.0.2', Buffer.concat(Array.from({ length: 100 }, () => query('a.example'))))).length,
    100,
  );
  t.same(await tcp('127.0.0.2', Buffer.from('ffff00', 'hex'), false), [], 'more than there is');
  t.match(await tcp('127.0.0.2', Buffer.concat([Buffer.from('000c', 'hex'), Buffer.alloc(12)])), [
    { rcode: 'FORMERR' },
  ]);
  t.same(await tcp('127.0.0.3', query('a.example')).catch((error) => error.code === 'ECONNRESET' && []), []);
  await resolver.close();
  t.equal(await udp('127.0.0.2', ask('a.example')), undefined);
});

t.test('addresses stay open for the longest TTL, and one command runs at a time', async (t) => {
  const commands: string[] = [];
  let goOn = () => {};
  const open = new AllowedAddresses((text) => {
    commands.push(text);
    return new Promise<void>((resolve) => {
      goOn = resolve;
    });
  });
  const first = open.open([{ address: '1.1.1.1', ttlS: 60 }]);
  await Promise.resolve().then(() => undefined);
  const second = open.open([{ address: '1.1.1.2', ttlS: 5 }]);
  const third = open.open([{ address: '1.1.1.2', ttlS: 50 }]);
  await new Promise(setImmediate);
  goOn();
  await first;
  await new Promise(setImmediate);
  goOn();
  await Promise.all([second, third]);
  t.same(
    commands.map((text) => text.replaceAll('element ip sandbox allowed ', '').split('\n')),
    [['add { 1.1.1.1 timeout 60s }'], ['add { 1.1.1.2 timeout 50s }']],
  );
  await open.open([{ address: '1.1.1.1', ttlS: 30 }]);
  t.equal(commands.length, 2, 'open for longer already');
  const longer = open.open([{ address: '1.1.1.1', ttlS: 90 }]);
  await new Promise(setImmediate);
  goOn();
  await longer;
  t.match(commands[2], /^add .*\ndelete element ip sandbox allowed \{ 1\.1\.1\.1 \}\nadd .*timeout 90s/);
  const json =
    '{"nftables": [{"metainfo": {}}, {"set": {"name": "allowed", "elem": [{"elem": {"val": "1.2.3.4", "timeout": 99, "expires": 98}}]}}]}';
  t.same(readElements(json), [{ set: 'allowed', address: '1.2.3.4', ttlS: 98 }]);
  t.same(readElements('{"nftables": [{"set": {"name": "allowed"}}]}'), []);
});

t.test('denials are logged once, and not by the thousand', async (t) => {
  const said: string[] = [];
  const denials = new DenialLog((text) => said.push(text));
  for (let n = 0; n < 100; n++) denials.name('evil.example\n', 'not in the allowlist');
  t.same(said, ['network: denied name evil.example\\n: not in the allowlist']);
  for (let n = 0; n < 1000; n++) denials.name(`n${n}.example`, 'not in the allowlist');
  t.equal(said.length, 20);
  const tcp = Buffer.from('45000028000040004006000001020304050607080fa001bb', 'hex');
  t.equal(describePacket(tcp), 'tcp 5.6.7.8:443');
  t.equal(describePacket(tcp.subarray(0, 20)), 'tcp 5.6.7.8');
  t.equal(describePacket(tcp.subarray(0, 19)), undefined);
  t.equal(describePacket(Buffer.alloc(40)), undefined);
});
