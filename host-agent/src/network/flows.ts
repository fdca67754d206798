// Connections that a guest opened, as its namespace tracks them, and those from outside, as the host does.
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionsInput } from '@sandboxd/proto';
import { AppError } from '../lib/errors.ts';
import { formatIpv4 } from '../lib/ipv4.ts';
import type { NetHelper } from './helper.ts';
import type { Traffic } from './policy.ts';
import type { NetworkSlot } from './subnet.ts';

/** `text`: as the helper has it. */
export type Flow = {
  readonly text: string;
  readonly protocol: number;
  /** Of TCP (linux/netfilter/nf_conntrack_tcp.h). */
  readonly state: number;
  readonly port: number;
  readonly address: string;
};

/** What the kernel counted of one that is over. */
export type EndedFlow = Flow & {
  /** With the headers of packets; 0 also where the kernel did not count. */
  readonly bytesUp: number;
  readonly bytesDown: number;
  /** Of TCP, where it is known. */
  readonly ms: number | undefined;
};

const FLOW_DIGITS = 20;
/** Of a number that follows them. */
const COUNT_DIGITS = 16;
/** 65,536 connections, of 8 bytes each. */
const MAX_CONNECTIONS_HEX = 65_536 * 8 * 2;
/** TIME_WAIT, CLOSE. */
const OVER: readonly number[] = [7, 8];
const PROTOCOLS: Readonly<Record<number, Traffic['protocol']>> = { 1: 'icmp', 6: 'tcp', 17: 'udp' };
/** The rules answer by at most 50 resets a second. */
const TOLD_AT_ONCE = 50;
const PAUSE_MS = 1000;
/** A request to the helper has a limit of bytes; a guest may have more connections, most of them over. */
const CUT_AT_ONCE = 20_000;

export class Flows {
  readonly #helper: NetHelper;
  readonly #slot: NetworkSlot;
  #isStopped = false;

  constructor(helper: NetHelper, slot: NetworkSlot) {
    this.#helper = helper;
    this.#slot = slot;
  }

  async list(): Promise<Flow[]> {
    const { namespace, guestIp } = this.#slot;
    const text = await this.#helper.request(['flows', namespace, guestIp]);
    return text.match(new RegExp(`.{${FLOW_DIGITS}}`, 'g'))?.map(readFlow) ?? [];
  }

  /** No packet of them passes any more. */
  async drop(flows: readonly Flow[]): Promise<void> {
    const { namespace, guestIp } = this.#slot;
    for (let at = 0; at < flows.length; at += CUT_AT_ONCE) {
      const some = flows.slice(at, at + CUT_AT_ONCE);
      await this.#helper.request(['drop', namespace, guestIp], some.map(({ text }) => text).join(''));
    }
  }

  /** Both ends of those that were dropped get a reset, some at a time. */
  async tell(live: readonly Flow[]): Promise<void> {
    if (live.length === 0) return;
    await this.#tell(live.slice(0, TOLD_AT_ONCE));
    if (live.length > TOLD_AT_ONCE) void this.#tellRest(live.slice(TOLD_AT_ONCE)).catch(() => undefined);
  }

  stop(): void {
    this.#isStopped = true;
  }

  async #tellRest(flows: readonly Flow[]): Promise<void> {
    for (let at = 0; at < flows.length; at += TOLD_AT_ONCE) {
      await sleep(PAUSE_MS, undefined, { ref: false });
      if (this.#isStopped) return;
      await this.#tell(flows.slice(at, at + TOLD_AT_ONCE));
    }
  }

  async #tell(flows: readonly Flow[]): Promise<void> {
    const { namespace, guestIp, mac, gatewayMac } = this.#slot;
    const text = flows.map((flow) => flow.text).join('');
    await this.#helper.request(['tell', namespace, guestIp, mac, gatewayMac], text);
  }
}

/** All TCP connections of the guest, as its agent gets them. AppError exhausted: too many. */
export async function listTracked(
  helper: NetHelper,
  { namespace, guestIp }: Pick<NetworkSlot, 'namespace' | 'guestIp'>,
): Promise<ConnectionsInput> {
  const hex = await helper.request(['connections', namespace, guestIp]);
  // A message to the agent has a bound, and without the list its programs notice by themselves.
  if (hex.length > MAX_CONNECTIONS_HEX) throw new AppError('exhausted', 'the guest has too many connections');
  return { address: Uint8Array.from(guestIp.split('.'), Number), tracked: Buffer.from(hex, 'hex') };
}

function readFlow(text: string): Flow {
  const [, protocol = '', state = '', , port = '', address = ''] =
    /^(..)(..)(....)(....)(.{8})$/.exec(text) ?? [];
  const number = (hex: string): number => Number.parseInt(hex, 16);
  return {
    text,
    protocol: number(protocol),
    state: number(state),
    port: number(port),
    address: formatIpv4(number(address)),
  };
}

/** As the helper reports it. */
export function readEndedFlow(text: string): EndedFlow {
  const [bytesUp = 0, bytesDown = 0, ms = 0] = [0, 1, 2].map((at) => {
    const from = FLOW_DIGITS + at * COUNT_DIGITS;
    return Number.parseInt(text.slice(from, from + COUNT_DIGITS), 16);
  });
  return { ...readFlow(text.slice(0, FLOW_DIGITS)), bytesUp, bytesDown, ms: ms > 0 ? ms : undefined };
}

/** Whether it is not over by itself. */
export function isLive({ protocol, state }: Flow): boolean {
  return PROTOCOLS[protocol] !== 'tcp' || !OVER.includes(state);
}

/** Undefined for a protocol that no policy allows. */
export function trafficOf({ protocol, port }: Flow): Traffic | undefined {
  const name = PROTOCOLS[protocol];
  return name && { protocol: name, port: name === 'icmp' ? 0 : port };
}

/** Connections from outside. */
const TABLE = '/proc/net/nf_conntrack';

/**
 * Whether a connection to a published port of the guest is established. False if the kernel does not provide the table.
 */
export async function hasOpenConnection(guestIp: string, table = TABLE): Promise<boolean> {
  const text = await readFile(table, 'latin1').catch(() => '');
  // The second `src` of a conntrack entry is the peer that replies: this leaves out connections that the guest opened.
  const answered = new RegExp(`src=\\S+ .* src=${guestIp.replaceAll('.', '\\.')} `);
  return text.split('\n').some((line) => line.includes(' ESTABLISHED ') && answered.test(line));
}
