// A secret as the gateway has it: a placeholder that the guest knows, a value that it does not, and where the one may
// become the other.
import type { SecretInjection } from '@sandboxd/api';
import type { BoundSecret as Bound } from '../../lib/bound-secret.ts';
import { matchesHostPattern } from '../../lib/host-patterns.ts';

export type BoundSecret = Bound<Buffer>;

/** Where a request goes. Its name was compared with SNI and authority, and a rule allows the request. */
export type Destination = {
  /** Lower case, without a dot at the end. */
  readonly name: string;
  readonly port: number;
  /** Whether the connection is TLS, and the certificate of the server was verified. */
  readonly isVerifiedTls: boolean;
  /** Of the operator. */
  readonly allowsPlainHttp: boolean;
};

export type FormName = 'bearer' | 'basic' | 'header' | 'query' | 'body' | 'inject';

/** For the egress log. */
export type SecretUse = { readonly secret: string; readonly form: FormName };

/** A secret that the destination may have. */
export type UsableSecret = BoundSecret & { readonly value: Buffer };

/** `elsewhere`: for other hosts or ports. `plain`: for the host, but not without TLS. `empty`: it has no value. */
export type Standing = 'usable' | 'elsewhere' | 'plain' | 'empty';

export function judgeSecret(secret: BoundSecret, destination: Destination): Standing {
  const { name, port, isVerifiedTls, allowsPlainHttp } = destination;
  if (!secret.hosts.some((pattern) => matchesHostPattern(pattern, name))) return 'elsewhere';
  if (!isVerifiedTls && !(secret.plainHttp && allowsPlainHttp)) return 'plain';
  if (secret.ports?.includes(port) === false) return 'elsewhere';
  return secret.value === null ? 'empty' : 'usable';
}

/** Those that the destination may have. */
export function usableAt(secrets: readonly BoundSecret[], destination: Destination): UsableSecret[] {
  return secrets.filter(
    (secret): secret is UsableSecret =>
      secret.value !== null && judgeSecret(secret, destination) === 'usable',
  );
}

/** The text that an injected header has. */
export function renderInjection({ format }: SecretInjection, value: string): string {
  const [, before = '', encoded, after = ''] = /^(.*?)(?:\{base64:(.*)\}|\{\})(.*)$/s.exec(format) ?? [];
  const inner =
    encoded === undefined
      ? value
      : Buffer.from(
          encoded.replace('{}', () => value),
          'latin1',
        ).toString('base64');
  return before + inner + after;
}
