// Queries of a guest, byte by byte.
import { type Question as DnsQuestion, decode, encode, type Packet } from 'dns-packet';
import t from 'tap';
import {
  encodeAnswer,
  encodeUdpAnswer,
  parseQuery,
} from '../../../../../host-agent/src/network/resolver/message.ts';

const ask = (name: string, type: DnsQuestion['type'] = 'A', rest: Partial<Packet> = {}) =>
  encode({ type: 'query', id: 7, flags: 0x0100, questions: [{ name, type, class: 'IN' }], ...rest });

function question(bytes: Buffer) {
  const parsed = parseQuery(bytes);
  if (parsed?.kind !== 'question') throw new Error('no question');
  return parsed.question;
}

/** A larger UDP answer size. */
const edns = (udpPayloadSize: number): Partial<Packet> => ({
  additionals: [
    {
      type: 'OPT',
      name: '.',
      udpPayloadSize,
      extendedRcode: 0,
      ednsVersion: 0,
      flags: 0,
      flag_do: false,
      options: [],
    },
  ],
});

t.test('questions are read as they were asked', async (t) => {
  t.match(question(ask('WwW.Example.COM', 'AAAA')), {
    id: 7,
    name: 'www.example.com',
    type: 'AAAA',
    wantsRecursion: true,
    hasEdns: false,
    maxUdpBytes: 512,
  });
  const label = 'l'.repeat(63);
  const longest = [label, label, label, 'l'.repeat(61)].join('.');
  t.equal(question(ask(longest)).name, longest, 'a name of 253');
  const withEdns = (udpPayloadSize: number) => question(ask('a.example', 'A', edns(udpPayloadSize)));
  t.match(withEdns(4096), { hasEdns: true, maxUdpBytes: 1232 });
  t.match(withEdns(100), { hasEdns: true, maxUdpBytes: 512 });
  for (const type of ['TXT', 'HTTPS', 'MX', 'ANY'] as const) t.ok(question(ask('a.example', type as 'TXT')));
});

t.test('what is no question is refused or not heard', async (t) => {
  const good = ask('a.example');
  const changed = (change: (bytes: Buffer) => void) => {
    const bytes = Buffer.from(good);
    change(bytes);
    return bytes;
  };
  const rcode = (bytes: Buffer) => {
    const parsed = parseQuery(bytes);
    return parsed?.kind === 'refusal' ? parsed.bytes.readUInt16BE(2) & 15 : parsed?.kind;
  };
  const raw = (hex: string) =>
    Buffer.concat([Buffer.from('000701000001000000000000', 'hex'), Buffer.from(hex, 'hex')]);
  t.equal(rcode(Buffer.alloc(0)), undefined);
  t.equal(rcode(good.subarray(0, 11)), undefined);
  t.equal(rcode(changed((b) => b.writeUInt16BE(0x8100, 2))), undefined, 'an answer');
  t.equal(rcode(changed((b) => b.writeUInt16BE(0x2900, 2))), 4, 'an update');
  t.equal(rcode(changed((b) => b.writeUInt16BE(0, 4))), 1, 'no question');
  t.equal(rcode(changed((b) => b.writeUInt16BE(2, 4))), 1, 'two questions');
  t.equal(rcode(changed((b) => b.writeUInt16BE(1, 6))), 1, 'with an answer');
  t.equal(rcode(changed((b) => b.writeUInt16BE(1000, 10))), 1, 'thousands of additional records');
  t.equal(rcode(good.subarray(0, -1)), 1, 'cut');
  t.equal(rcode(Buffer.concat([good, Buffer.alloc(1300)])), 1, 'oversized');
  t.equal(rcode(raw('c00c00010001')), 1, 'a name that is itself');
  t.equal(rcode(raw('0161c00c00010001')), 1, 'a loop');
  t.equal(rcode(raw('c0ff00010001')), 1, 'a pointer to nowhere');
  t.equal(rcode(raw('09612e6578616d706c6500010001')), 1, 'a label with a dot in it');
  t.equal(rcode(raw('03610062076578616d706c650000010001')), 'question', 'a zero in a label is some name');
  t.equal(rcode(raw(`${'3f'.padEnd(128, '61').repeat(5)}0000010001`)), 1, 'a name of more than 255');
  t.equal(rcode(raw('0161076578616d706c650000010003')), 4, 'class CHAOS');
});

t.test('no bytes at all throw', async (t) => {
  let seed = 1;
  const random = (below: number) => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
    return (seed >>> 8) % below;
  };
  const outcomes = new Map<string, number>();
  for (let round = 0; round < 30_000; round++) {
    const bytes = Buffer.from(ask(['a.example', 'some.longer.name.example'][random(2)] ?? ''));
    const changes = random(6);
    for (let n = 0; n < changes; n++) bytes[random(bytes.length)] = random(256);
    const cut = random(4) === 0 ? bytes.subarray(0, random(bytes.length)) : bytes;
    const parsed = parseQuery(cut);
    const kind = parsed?.kind ?? 'nothing';
    outcomes.set(kind, (outcomes.get(kind) ?? 0) + 1);
    if (parsed?.kind !== 'question') continue;
    // Any valid question can be answered with itself.
    const answer = decode(
      encodeUdpAnswer(parsed.question, { rcode: 'ok', records: [{ address: '1.2.3.4', ttlS: 1 }] }),
    );
    if (answer.questions?.[0]?.name !== decode(cut).questions?.[0]?.name) t.fail(cut.toString('hex'));
  }
  for (const kind of ['question', 'refusal', 'nothing']) t.ok(Number(outcomes.get(kind)) > 100, kind);
});

t.test('a response has what fits into UDP, and is marked as truncated otherwise', async (t) => {
  const name = 'WwW.storage-region-europe.Example';
  const records = Array.from({ length: 64 }, (_, at) => ({ address: `1.2.3.${at}`, ttlS: 9 + at }));
  for (const [packet, count, fits, most] of [
    [{}, 28, true, 512],
    [{}, 29, false, 512],
    [{}, 64, false, 512],
    [edns(100), 27, true, 512],
    [edns(100), 64, false, 512],
    [edns(800), 46, true, 800],
    [edns(800), 47, false, 800],
    [edns(4096), 64, true, 1232],
  ] as const) {
    const asked = question(ask(name, 'A', packet));
    const answer = { rcode: 'ok', records: records.slice(0, count) } as const;
    const bytes = encodeUdpAnswer(asked, answer);
    const what = `${count} records in ${most} bytes`;
    t.ok(bytes.length <= most, `${what}: ${bytes.length}`);
    const { flag_tc, answers = [], questions, additionals } = decode(bytes);
    t.same([flag_tc, questions?.[0]?.name], [!fits, name], what);
    t.equal(additionals?.length, asked.hasEdns ? 1 : 0);
    t.ok(
      fits ? answers.length === count : bytes.length > most - 16,
      `${what}: ${answers.length}, as many as there is room for`,
    );
    t.same(
      answers,
      records.slice(0, answers.length).map(({ address, ttlS }) => ({
        name,
        type: 'A',
        class: 'IN',
        ttl: ttlS,
        flush: false,
        data: address,
      })),
    );
    const whole = decode(encodeAnswer(asked, answer));
    t.same([whole.flag_tc, whole.answers?.length], [false, count], 'by TCP all of it');
  }
});
