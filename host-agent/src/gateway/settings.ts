// What holds now: the rules, who signs for servers, and who vouches for them.
import { createSecureContext, rootCertificates, type SecureContext } from 'node:tls';
import { isRead } from '../lib/network-rules.ts';
import { Leaves } from '../network/authority/index.ts';
import { type BoundEntry, BoundRules } from '../network/bound-rules.ts';
import type { GatewaySettings } from '../network/gateway-wire.ts';
import { judgeRequest, type ReadRequest, type RequestVerdict } from '../network/request-verdict.ts';
import type { Handed } from './gate.ts';

/** Each has some 50 KiB. */
const MAX_CONTEXTS = 256;

export class Settings {
  #rules = new BoundRules({ allowlist: [] });
  #generation: number | undefined;
  #leaves: Leaves | undefined;
  #authority = '';
  #roots: string | undefined;
  #trust: SecureContext | undefined;
  /** By certificate, the least recently used first. */
  readonly #contexts = new Map<string, SecureContext>();

  get generation(): number | undefined {
    return this.#generation;
  }

  change({ policy, generation, authority, roots }: GatewaySettings): void {
    this.#rules = new BoundRules(policy);
    this.#generation = generation;
    if (authority !== undefined && authority.certificate !== this.#authority) {
      this.#authority = authority.certificate;
      this.#leaves = new Leaves(authority);
      this.#contexts.clear();
    }
    if (roots !== this.#roots) this.#trust = undefined;
    this.#roots = roots;
  }

  /** Whether the requests of the connection are still read. */
  isRead(handed: Handed): boolean {
    return this.#entries(handed).length > 0;
  }

  judge(handed: Handed, request: ReadRequest): RequestVerdict {
    return judgeRequest(this.#entries(handed), request);
  }

  /** Verifies servers. By default Node has the same certificates of Mozilla, and need not parse each of them. */
  get trust(): SecureContext {
    this.#trust ??= createSecureContext({
      ...(this.#roots !== undefined && { ca: [...rootCertificates, this.#roots] }),
      minVersion: 'TLSv1.2',
    });
    return this.#trust;
  }

  /** What the guest sees in the server's place. Rejects where the guest trusts no authority that could sign it. */
  async contextFor(name: string): Promise<SecureContext> {
    if (this.#leaves === undefined) throw new Error('the sandbox has no certificate authority');
    const { cert, key } = await this.#leaves.get(name);
    const context = this.#contexts.get(cert) ?? createSecureContext({ cert, key, minVersion: 'TLSv1.2' });
    this.#contexts.delete(cert);
    this.#contexts.set(cert, context);
    const [first] = this.#contexts.keys();
    if (this.#contexts.size > MAX_CONTEXTS && first !== undefined) this.#contexts.delete(first);
    return context;
  }

  #entries({ kind, name, port }: Handed): readonly BoundEntry[] {
    const entries = this.#rules.findFor({ kind, name, port, hasEch: false });
    return entries.filter(({ rule }) => rule !== undefined && isRead(rule));
  }
}
