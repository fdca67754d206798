// Parses DNS queries of guests, every byte of which is untrusted, and encodes the answers. A library is the codec; this
// file validates its input and output.
import { decode, encode, RECURSION_AVAILABLE, RECURSION_DESIRED, TRUNCATED_RESPONSE } from 'dns-packet';
import { toError } from '../../lib/errors.ts';
import { parseIpv4 } from '../../lib/ipv4.ts';
import { normalizeName } from './allowlist.ts';

const RCODES = { ok: 0, malformed: 1, failed: 2, noSuchName: 3, notImplemented: 4 } as const;
export type Rcode = keyof typeof RCODES;

export type Question = {
  readonly id: number;
  /** The question section as received, echoed in the answer. */
  readonly section: Buffer;
  /** Lower case, no trailing dot. */
  readonly name: string;
  /** `A`, `AAAA`, …; `UNKNOWN_n` for an unassigned number. */
  readonly type: string;
  readonly wantsRecursion: boolean;
  /** Whether the client uses EDNS, and so may get an OPT record. */
  readonly hasEdns: boolean;
  /** The largest UDP answer that the client accepts. */
  readonly maxUdpBytes: number;
};

/** A question; the complete answer to an invalid query; or undefined if the message must not be answered. */
export type Parsed =
  | { readonly kind: 'question'; readonly question: Question }
  | { readonly kind: 'refusal'; readonly bytes: Buffer };

export type Answer = {
  readonly rcode: Rcode;
  readonly records?: readonly { readonly address: string; readonly ttlS: number }[];
};

const HEADER_BYTES = 12;
/** A longer message is not a query that this resolver answers. */
const MAX_QUERY_BYTES = 1232;
const MIN_UDP_BYTES = 512;
/** Avoids IP fragmentation. */
const MAX_UDP_BYTES = 1232;
const IS_ANSWER = 0x8000;
const OPCODE = 0x7800;
/** Size of an address record: pointer, type, class, TTL, length, address. */
const RECORD_BYTES = 16;
const POINTER = 0xc000;
const TYPE_A = 1;
const CLASS_IN = 1;
/** Our OPT record (EDNS): type 41 at the root, our maximum UDP size, no options. */
const OPTION = Buffer.from([0, 0, 41, MAX_UDP_BYTES >> 8, MAX_UDP_BYTES & 255, 0, 0, 0, 0, 0, 0]);
/** The upper bits of BADVERS (RFC 6891), in their place of that record. */
const BAD_VERSION = Buffer.from(OPTION).fill(1, 5, 6);
/** Resolvers cache a negative answer as long as its SOA says (RFC 2308). Short, because an allowlist can change. */
const NEGATIVE_TTL_S = 10;
const TYPE_SOA = 6;

export function parseQuery(bytes: Buffer): Parsed | undefined {
  if (bytes.length < HEADER_BYTES) return undefined;
  const flags = bytes.readUInt16BE(2);
  // Never answer an answer: two resolvers could loop forever.
  if ((flags & IS_ANSWER) !== 0) return undefined;
  if ((flags & OPCODE) !== 0) return refuse(bytes, 'notImplemented');
  const [questions, answers, authorities, additionals] = [4, 6, 8, 10].map((at) => bytes.readUInt16BE(at));
  const isPlain = questions === 1 && answers === 0 && authorities === 0 && Number(additionals) <= 1;
  if (!isPlain || bytes.length > MAX_QUERY_BYTES) return refuse(bytes, 'malformed');
  try {
    return { kind: 'question', question: readQuestion(bytes) };
  } catch (error) {
    if (error instanceof BadVersion) return refuseVersion(bytes, error.section);
    return toError(error) instanceof NotImplemented
      ? refuse(bytes, 'notImplemented')
      : refuse(bytes, 'malformed');
  }
}

class NotImplemented extends Error {}

class BadVersion extends Error {
  readonly section: Buffer;

  constructor(section: Buffer) {
    super();
    this.section = section;
  }
}

/** Throws for an invalid query. */
function readQuestion(bytes: Buffer): Question {
  const packet = decode(bytes);
  const [question] = packet.questions ?? [];
  if (question === undefined || packet.id === undefined) throw new Error('no question');
  if ((question.class ?? 'IN') !== 'IN') throw new NotImplemented();
  // Rejects compressed names, and labels with dots or bytes that make one name look like another.
  const plain = encode({ type: 'query', questions: [question] }).subarray(HEADER_BYTES);
  if (!bytes.subarray(HEADER_BYTES, HEADER_BYTES + plain.length).equals(plain)) throw new Error('odd name');
  const option = packet.additionals?.find(({ type }) => type === 'OPT');
  if (option !== undefined && 'ednsVersion' in option && option.ednsVersion > 0) throw new BadVersion(plain);
  const offered = option !== undefined && 'udpPayloadSize' in option ? option.udpPayloadSize : MIN_UDP_BYTES;
  return {
    id: packet.id,
    section: Buffer.from(plain),
    name: normalizeName(question.name),
    type: question.type,
    wantsRecursion: (bytes.readUInt16BE(2) & RECURSION_DESIRED) !== 0,
    hasEdns: option !== undefined,
    maxUdpBytes: Math.min(MAX_UDP_BYTES, Math.max(MIN_UDP_BYTES, offered)),
  };
}

/** Answers with the header only, and without anything of the query's body. */
function refuse(bytes: Buffer, rcode: Rcode): Parsed {
  const answer = Buffer.alloc(HEADER_BYTES);
  bytes.copy(answer, 0, 0, 2);
  const kept = bytes.readUInt16BE(2) & (OPCODE | RECURSION_DESIRED);
  answer.writeUInt16BE(IS_ANSWER | kept | RCODES[rcode], 2);
  return { kind: 'refusal', bytes: answer };
}

/** Those that know a later EDNS ask again with the version that the answer has. */
function refuseVersion(bytes: Buffer, section: Buffer): Parsed {
  const header = Buffer.alloc(HEADER_BYTES);
  bytes.copy(header, 0, 0, 2);
  header.writeUInt16BE(IS_ANSWER | RECURSION_AVAILABLE | (bytes.readUInt16BE(2) & RECURSION_DESIRED), 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(1, 10);
  return { kind: 'refusal', bytes: Buffer.concat([header, section, BAD_VERSION]) };
}

export function encodeAnswer(question: Question, answer: Answer): Buffer {
  return toBytes(question, answer, 0);
}

/**
 * Includes as many records as fit into UDP, and sets TC if some are left out. Some clients then retry by TCP, others
 * never do.
 */
export function encodeUdpAnswer(question: Question, { rcode, records = [] }: Answer): Buffer {
  const rest = HEADER_BYTES + question.section.length + (question.hasEdns ? OPTION.length : 0);
  const capacity = Math.floor((question.maxUdpBytes - rest) / RECORD_BYTES);
  if (records.length <= capacity) return toBytes(question, { rcode, records }, 0);
  return toBytes(question, { rcode, records: records.slice(0, capacity) }, TRUNCATED_RESPONSE);
}

function toBytes(question: Question, { rcode, records = [] }: Answer, flags: number): Buffer {
  const { id, section, wantsRecursion, hasEdns } = question;
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt16BE(id, 0);
  const recursion = RECURSION_AVAILABLE | (wantsRecursion ? RECURSION_DESIRED : 0);
  header.writeUInt16BE(IS_ANSWER | flags | recursion | RCODES[rcode], 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(records.length, 6);
  const isNegative = rcode === 'noSuchName' || (rcode === 'ok' && records.length === 0);
  header.writeUInt16BE(isNegative ? 1 : 0, 8);
  header.writeUInt16BE(hasEdns ? 1 : 0, 10);
  const authority = isNegative ? [toSoa(section)] : [];
  return Buffer.concat([
    header,
    section,
    ...records.map(toRecord),
    ...authority,
    ...(hasEdns ? [OPTION] : []),
  ]);
}

/** The SOA of the question's top-level domain, or of the root for a single label: a zone that contains the name. */
function toSoa(section: Buffer): Buffer {
  let [label, parent] = [0, 0];
  while (section[parent] !== 0) [label, parent] = [parent, parent + 1 + Number(section[parent])];
  const owner = label === 0 ? Buffer.alloc(1) : toPointer(HEADER_BYTES + label);
  // Names of the root, then serial number, refresh, retry, expire and minimum.
  const data = Buffer.alloc(22);
  for (const [at, value] of [1, 3600, 600, 86_400, NEGATIVE_TTL_S].entries())
    data.writeUInt32BE(value, 2 + 4 * at);
  const fixed = Buffer.alloc(10);
  fixed.writeUInt16BE(TYPE_SOA, 0);
  fixed.writeUInt16BE(CLASS_IN, 2);
  fixed.writeUInt32BE(NEGATIVE_TTL_S, 4);
  fixed.writeUInt16BE(data.length, 8);
  return Buffer.concat([owner, fixed, data]);
}

function toPointer(at: number): Buffer {
  const pointer = Buffer.alloc(2);
  pointer.writeUInt16BE(POINTER | at, 0);
  return pointer;
}

/**
 * The name is a pointer to the question. The library does not write compressed names, and half as many records would
 * fit.
 */
function toRecord({ address, ttlS }: { readonly address: string; readonly ttlS: number }): Buffer {
  const record = Buffer.alloc(RECORD_BYTES);
  record.writeUInt16BE(POINTER | HEADER_BYTES, 0);
  record.writeUInt16BE(TYPE_A, 2);
  record.writeUInt16BE(CLASS_IN, 4);
  record.writeUInt32BE(ttlS, 6);
  record.writeUInt16BE(4, 10);
  record.writeUInt32BE(parseIpv4(address) ?? 0, 12);
  return record;
}
