// Secrets of the sandbox, as they hold now, in the requests that the gateway sends.
import { isDeepStrictEqual } from 'node:util';
import type { GatewaySecret } from '../network/gateway-wire.ts';
import {
  type BoundSecret,
  type Destination,
  judgeSecret,
  Redaction,
  substituteBody,
  substituteHead,
  usableAt,
  withReadableAnswer,
} from './substitution/index.ts';
import type { SentHead, Substituted, Substitution } from './substitution.ts';

/** One for each set of secrets that hosts may have; each may have some MiB. */
const MAX_REDACTIONS = 8;

/** Another number after each change. */
type Version = { readonly name: string; readonly version: number };

export class SecretSubstitution implements Substitution {
  #secrets: readonly BoundSecret[] = [];
  readonly #versions = new Map<string, number>();
  #changes = 0;
  readonly #redactions = new Map<string, Redaction>();
  #allowsPlainHttp = false;

  /** What held before is wiped. Requests under way that have what does not hold any more end by their `holds`. */
  change(secrets: readonly GatewaySecret[] = [], allowsPlainHttp = false): void {
    const before = new Map(this.#secrets.map((secret) => [secret.name, secret]));
    this.#secrets = secrets.map(({ value, ...secret }) => ({
      ...secret,
      value: value === null ? null : Buffer.from(value, 'base64'),
    }));
    this.#changes += 1;
    for (const secret of this.#secrets)
      if (!isDeepStrictEqual(secret, before.get(secret.name))) this.#versions.set(secret.name, this.#changes);
    for (const { value } of before.values()) value?.fill(0);
    this.#redactions.clear();
    this.#allowsPlainHttp = allowsPlainHttp;
  }

  request(sent: SentHead): Substituted {
    if (this.#secrets.length === 0) return { head: sent, used: [] };
    const { host, port, isTls, method, target, headers } = sent;
    const destination: Destination = {
      ...{ name: host, port, isVerifiedTls: isTls },
      allowsPlainHttp: this.#allowsPlainHttp,
    };
    const result = substituteHead({ method, target, headers }, this.#secrets, destination);
    if (result.kind === 'refused') return { refused: result.reason, status: result.status };
    const body = substituteBody(headers, this.#secrets, destination);
    const { head, uses, pairs } = result;
    // A body is not known before it is sent.
    if (uses.length === 0 && body === undefined) return { head: { ...sent, ...head }, used: [] };
    const inHead = this.#versionsOf(uses.map(({ secret }) => secret));
    const inBody = this.#versionsOf(body?.names ?? []);
    return {
      head: { ...sent, ...head, headers: withReadableAnswer(head.headers) },
      used: uses,
      ...(body && { body }),
      holds: (isSent) => {
        const found = new Set(body?.uses().map(({ secret }) => secret));
        const carried = isSent
          ? [...inHead, ...inBody.filter(({ name }) => found.has(name))]
          : [...inHead, ...inBody];
        return carried.every((each) => this.#holds(each, isSent, destination));
      },
      redaction: this.#redactionFor(destination).with(pairs),
    };
  }

  #versionsOf(names: readonly string[]): Version[] {
    return names.map((name) => ({ name, version: this.#versions.get(name) ?? 0 }));
  }

  #holds({ name, version }: Version, isSent: boolean, destination: Destination): boolean {
    const secret = this.#secrets.find((each) => each.name === name);
    if (secret === undefined || judgeSecret(secret, destination) !== 'usable') return false;
    return isSent || this.#versions.get(name) === version;
  }

  /** Its forms are copies: a change wipes what there is now. */
  #redactionFor(destination: Destination): Redaction {
    const usable = usableAt(this.#secrets, destination);
    const key = usable.map(({ name }) => name).join(' ');
    const redaction = this.#redactions.get(key) ?? Redaction.of(usable);
    this.#redactions.delete(key);
    this.#redactions.set(key, redaction);
    const [oldest] = this.#redactions.keys();
    if (this.#redactions.size > MAX_REDACTIONS && oldest !== undefined) this.#redactions.delete(oldest);
    return redaction;
  }
}
