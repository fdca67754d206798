// What is known of a connection that is over, or was refused. Texts are of the guest: names are valid ones.
export type ConnectionRecord = {
  readonly verdict: 'allowed' | 'denied';
  readonly reason: string;
  /** tcp: it did not say what it is. */
  readonly protocol: 'tls' | 'http' | 'postgres' | 'tcp';
  /** Of the policy that judged. */
  readonly generation?: number;
  /** What allowed it: `github.com:443/tls`, or an entry of the allowlist. */
  readonly rule?: string;
  readonly name?: string;
  /** Where it led; of one that was refused, what the guest used. */
  readonly address?: string;
  readonly port?: number;
  /** As the guest sent and got them. */
  readonly bytesUp?: number;
  readonly bytesDown?: number;
  readonly ms?: number;
  /** Of a request that was read. */
  readonly method?: string;
  /** Without its query. */
  readonly path?: string;
  /** Of its answer; absent: it got none. */
  readonly status?: number;
};
