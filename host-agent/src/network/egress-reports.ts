// What one guest reached and what it was denied: records of its egress log, and denials in its sandbox's log as well.
import { isIPv4 } from 'node:net';
import { EGRESS_PROTOCOLS } from '@sandboxd/api';
import type { Opening } from './allowed-addresses.ts';
import { describeAllowedBy } from './bound-rules.ts';
import { type DenialLog, type PacketTarget, readPacket } from './denial-log.ts';
import type { EgressProtocol, EgressRecord } from './egress-log.ts';
import { type EndedFlow, type Flow, trafficOf } from './flows.ts';
import type { EgressPolicy, Traffic } from './policy.ts';

/** What the guest may reach now. */
export interface JudgedEgress {
  readonly policy: EgressPolicy;
  readonly gateway: string;
  /** The names, as far as they are known, that led to an address, the newest last. */
  namesOf(address: string): string[];
  open(openings: readonly Opening[], name: string): Promise<void>;
}

export class EgressReports {
  readonly #egress: JudgedEgress;
  readonly #denials: DenialLog;
  readonly #report: (record: EgressRecord) => void;

  constructor(egress: JudgedEgress, denials: DenialLog, report: (record: EgressRecord) => void) {
    this.#egress = egress;
    this.#denials = denials;
    this.#report = report;
  }

  deniedName(name: string, reason: string): void {
    this.#denials.name(name, reason);
    this.#report({ verdict: 'denied', reason, protocol: 'dns', name });
  }

  /** Opens the addresses of a name. Those that the guest asks for again are not reported again. */
  async open(openings: readonly Opening[], name: string): Promise<void> {
    const isNew = openings.some(({ address }) => !this.#egress.namesOf(address).includes(name));
    await this.#egress.open(openings, name);
    if (!isNew) return;
    const rule = this.#egress.policy.patternFor(name);
    const address = openings[0]?.address;
    const reason = 'the name was resolved, and its addresses are open';
    this.#report({ verdict: 'allowed', reason, protocol: 'dns', name, address, rule });
  }

  /** `packet`: the first bytes of what the kernel refused. */
  refused(packet: Buffer): void {
    this.#denials.packet(packet);
    const target = readPacket(packet);
    if (target === undefined) return;
    const { address, port } = target;
    const name = this.#egress.namesOf(address).at(-1);
    const reason = this.#whyRefused(target, name);
    this.#report({ verdict: 'denied', reason, protocol: toProtocol(target.protocol), name, address, port });
  }

  /** A change of the policy ended it. */
  closed(flow: Flow): void {
    const { address } = flow;
    const { protocol = 'other', port } = trafficOf(flow) ?? {};
    const name = this.#egress.namesOf(address).at(-1);
    const reason = 'the connection was closed: the changed policy does not allow it';
    this.#report({ verdict: 'denied', reason, protocol, name, address, ...(port !== 0 && { port }) });
  }

  /** One that no program of the host had a part in. It was allowed when it began, perhaps by an earlier policy. */
  ended(flow: EndedFlow): void {
    const { address, bytesUp, bytesDown, ms } = flow;
    const traffic = trafficOf(flow);
    if (traffic === undefined || address === this.#egress.gateway) return;
    const { protocol, port } = traffic;
    const name = this.#egress.namesOf(address).at(-1);
    const { by } = this.#egress.policy.check(name ?? address, traffic);
    this.#report({
      verdict: 'allowed',
      reason: bytesDown > 0 ? 'it ended' : 'it ended without an answer',
      rule: by && describeAllowedBy(by),
      ...{ protocol, name, address, bytesUp, bytesDown, ms },
      ...(protocol !== 'icmp' && { port }),
    });
  }

  #whyRefused({ protocol, address, port = 0 }: PacketTarget, name: string | undefined): string {
    if (protocol !== 'tcp' && protocol !== 'udp' && protocol !== 'icmp')
      return 'no policy allows the protocol';
    const traffic: Traffic = { protocol, port };
    const { policy } = this.#egress;
    const byName = name === undefined || isIPv4(name) ? undefined : policy.check(name, traffic);
    const verdict = byName ?? policy.check(address, traffic);
    return verdict.isAllowed
      ? 'it is allowed, but was not open: its DNS record has expired, or there are too many connections'
      : verdict.reason;
  }
}

function toProtocol(text: string): EgressProtocol {
  return EGRESS_PROTOCOLS.find((each) => each === text) ?? 'other';
}
