// The place where secrets come into requests: after the verdict, and before anything is sent to the server.
import type { BodySubstitution, Redaction, SecretUse } from './substitution/index.ts';

/** What is sent to the server. Names are as the client wrote them; those of HTTP/2 in lower case, no pseudo-headers. */
export type SentHead = {
  readonly host: string;
  readonly port: number;
  /** Then the certificate of the server was verified. */
  readonly isTls: boolean;
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
};

export type Substituted =
  | {
      readonly head: SentHead;
      /** What it has now. */
      readonly used: readonly SecretUse[];
      /** Changes the body. */
      readonly body?: BodySubstitution | undefined;
      /**
       * Whether it may go on as the secrets are now; absent: always. `isSent`: head and body are with the server, so
       * another value changes nothing.
       */
      readonly holds?: ((isSent: boolean) => boolean) | undefined;
      /** Of its answer; absent: it is passed on as it is. */
      readonly redaction?: Redaction | undefined;
    }
  | { readonly refused: string; readonly status: 403 | 431 };

/** What may be sent. */
export type Sent = Extract<Substituted, { head: SentHead }>;

export interface Substitution {
  request(head: SentHead): Substituted;
}
