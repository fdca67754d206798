// The place where secrets come into requests: after the verdict, and before anything is sent to the server.

/** What is sent to the server. Names are as the client wrote them; of HTTP/2 without pseudo-headers. */
export type SentHead = {
  readonly host: string;
  readonly port: number;
  readonly isTls: boolean;
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
};

export type Substituted =
  | {
      readonly head: SentHead;
      /** Names of the secrets that it has now. */
      readonly used: readonly string[];
      /** Changes the body. */
      readonly body?: (() => NodeJS.ReadWriteStream) | undefined;
    }
  | { readonly refused: string };

/** What is done with the answer to a request that has secrets. */
export type Redaction = {
  readonly headers: (headers: SentHead['headers']) => SentHead['headers'];
  readonly body: () => NodeJS.ReadWriteStream;
};

export interface Substitution {
  request(head: SentHead): Substituted;
  /** Undefined where nothing was used. */
  answer(used: readonly string[]): Redaction | undefined;
}

export const NO_SUBSTITUTION: Substitution = {
  request: (head) => ({ head, used: [] }),
  answer: () => undefined,
};
