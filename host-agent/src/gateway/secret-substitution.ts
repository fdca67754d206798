// Secrets of the sandbox, as they hold now, in the requests that the gateway sends.
import type { GatewaySecret } from '../network/gateway-wire.ts';
import {
  type BoundSecret,
  type Destination,
  Redaction,
  substituteBody,
  substituteHead,
  usableAt,
  withReadableAnswer,
} from './substitution/index.ts';
import type { SentHead, Substituted, Substitution } from './substitution.ts';

export class SecretSubstitution implements Substitution {
  #secrets: readonly BoundSecret[] = [];
  #allowsPlainHttp = false;

  /** What held before is wiped. Requests under way keep what they have. */
  change(secrets: readonly GatewaySecret[] = [], allowsPlainHttp = false): void {
    for (const { value } of this.#secrets) value?.fill(0);
    this.#secrets = secrets.map(({ value, ...secret }) => ({
      ...secret,
      value: value === null ? null : Buffer.from(value, 'base64'),
    }));
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
    // A copy: a change wipes what there is now.
    const usable = usableAt(this.#secrets, destination).map(({ value }) => ({ value: Buffer.from(value) }));
    return {
      head: { ...sent, ...head, headers: withReadableAnswer(head.headers) },
      used: uses,
      ...(body && { body }),
      redaction: new Redaction(usable, pairs),
    };
  }
}
