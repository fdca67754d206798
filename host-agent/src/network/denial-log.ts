// Reports a guest's denied packets and names as lines of its log: deduplicated, and rate-limited to what a person can
// read.
import { formatIpv4 } from '../lib/ipv4.ts';
import { TokenBucket } from '../lib/token-bucket.ts';
import type { ConnectionRecord } from './connection-record.ts';
import type { FailedStep } from './resolver/client.ts';

/** The same line is not repeated within this time. */
const REPEAT_MS = 60_000;
const BURST = 20;
const PER_S = 2;
const MAX_REMEMBERED = 512;
const PROTOCOLS: Readonly<Record<number, string>> = { 1: 'icmp', 6: 'tcp', 17: 'udp' };
const IP_HEADER_BYTES = 20;

const REASONS: Readonly<Record<FailedStep, string>> = {
  ask: 'no name server of the host gave an answer',
  open: 'its addresses could not be opened; the log of the daemon says more',
};

export class DenialLog {
  readonly #write: (text: string) => void;
  readonly #loggedAt = new Map<string, number>();
  readonly #bucket = new TokenBucket(PER_S, BURST);
  #suppressed = 0;

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  name(name: string, reason: string): void {
    this.#log(`network: denied name ${JSON.stringify(name.slice(0, 253)).slice(1, -1)}: ${reason}`);
  }

  /** `packet` begins with its IPv4 header. */
  packet(packet: Buffer): void {
    const what = describePacket(packet);
    if (what !== undefined)
      this.#log(`network: denied ${what}: no name of the allowlist led there, or not any more`);
  }

  /** One that says a name, or should have. */
  connection({ verdict, protocol, name, address = '', port, reason }: ConnectionRecord): void {
    const to = port === undefined ? '' : ` ${name ?? address}:${port}`;
    if (verdict === 'denied') this.#log(`network: denied ${protocol}${to}: ${reason}`);
  }

  /**
   * Returns whether the line was logged, so that repeated failures are rate-limited in the daemon's log as well.
   * The guest gets a generic reason only: messages of host programs mention name servers, rules and sets.
   */
  failure(name: string, step: FailedStep): boolean {
    return this.#log(`network: cannot resolve ${name}: ${REASONS[step]}`);
  }

  #log(text: string): boolean {
    const now = performance.now();
    if (now - (this.#loggedAt.get(text) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return false;
    if (!this.#bucket.take()) {
      this.#suppressed++;
      return false;
    }
    // A Map iterates in insertion order: the first key is the oldest.
    if (this.#loggedAt.size >= MAX_REMEMBERED)
      for (const old of [...this.#loggedAt.keys()].slice(0, 1)) this.#loggedAt.delete(old);
    this.#loggedAt.set(text, now);
    if (this.#suppressed > 0) this.#write(`network: ${this.#suppressed} more denials were not logged`);
    this.#suppressed = 0;
    this.#write(text);
    return true;
  }
}

/** Where a packet goes. */
export type PacketTarget = {
  /** `tcp`, `udp`, `icmp`, or another by its number: `protocol 47`. */
  readonly protocol: string;
  readonly address: string;
  readonly port: number | undefined;
};

/** Undefined if it is not an IPv4 packet. */
export function readPacket(packet: Buffer): PacketTarget | undefined {
  if (packet.length < IP_HEADER_BYTES || packet.readUInt8(0) >> 4 !== 4) return undefined;
  const number = packet.readUInt8(9);
  const protocol = PROTOCOLS[number] ?? `protocol ${number}`;
  const address = formatIpv4(packet.readUInt32BE(16));
  const headerBytes = (packet.readUInt8(0) & 15) * 4;
  const hasPort = (protocol === 'tcp' || protocol === 'udp') && packet.length >= headerBytes + 4;
  return { protocol, address, port: hasPort ? packet.readUInt16BE(headerBytes + 2) : undefined };
}

/** Formats a packet as `tcp 192.0.2.1:443`; undefined if it is not an IPv4 packet. */
export function describePacket(packet: Buffer): string | undefined {
  const target = readPacket(packet);
  if (target === undefined) return undefined;
  const { protocol, address, port } = target;
  return `${protocol} ${address}${port === undefined ? '' : `:${port}`}`;
}
