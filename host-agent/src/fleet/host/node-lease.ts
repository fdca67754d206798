// The Lease of the Node of this host, by whose renewals the engine knows that the host is alive.
import type { KubeClient } from '../kube/client.ts';
import { LEASES, readRenewedAtMs } from '../kube/objects.ts';

type NodeLeaseOptions = {
  readonly client: Pick<KubeClient, 'request'>;
  /** Of the Node. */
  readonly name: string;
  readonly durationMs: number;
  readonly signal: AbortSignal;
};

export class NodeLease {
  readonly #options: NodeLeaseOptions;
  /** The time that it has; undefined: not known yet. */
  #atMs: number | undefined;

  constructor(options: NodeLeaseOptions) {
    this.#options = options;
  }

  /** Rejects as requests do, with 404 when there is none. */
  async renew(): Promise<void> {
    // What a former daemon wrote. A change of nothing needs no right to read it.
    this.#atMs ??= readRenewedAtMs(await this.#patch({})) ?? 0;
    await this.#patch({ spec: this.#spec() });
  }

  async make(nodeUid: string): Promise<void> {
    const { client, name, signal } = this.#options;
    const owner = { apiVersion: 'v1', kind: 'Node', name, uid: nodeUid };
    const body = {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name, namespace: 'kube-node-lease', ownerReferences: [owner] },
      spec: this.#spec(),
    };
    await client.request({ method: 'POST', path: LEASES, body, signal });
  }

  async #patch(body: object): Promise<unknown> {
    const { client, name, signal } = this.#options;
    const path = `${LEASES}/${encodeURIComponent(name)}`;
    return await client.request({ method: 'PATCH', path, patch: 'merge', body, signal });
  }

  /** The engine counts only a time that is later than the one before: our clock may have been set back. */
  #spec() {
    const { name, durationMs } = this.#options;
    this.#atMs = Math.max(Date.now(), (this.#atMs ?? 0) + 1);
    const renewTime = new Date(this.#atMs).toISOString().replace('Z', '000Z');
    return { holderIdentity: name, leaseDurationSeconds: durationMs / 1000, renewTime };
  }
}
