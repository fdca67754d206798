// A secret that a guest can use, between the daemon, which knows its value, and the gateway, which puts it into
// requests.
import type { SecretForm, SecretInjection } from '@sandboxd/api';

/** `Value`: bytes, or their base64 on the way to the gateway. */
export type BoundSecret<Value> = {
  readonly name: string;
  /** Null: the guest has none, as the value is injected. */
  readonly placeholder: string | null;
  /** Printable ASCII. Null: there is none, because it was deleted, or never given to an imported snapshot. */
  readonly value: Value | null;
  readonly hosts: readonly string[];
  /** Absent: all that the rules have for the host. */
  readonly ports?: readonly number[] | undefined;
  readonly forms: readonly SecretForm[];
  readonly inject?: SecretInjection | undefined;
  /** The secret's own switch; the operator's is in the destination. */
  readonly plainHttp: boolean;
};
