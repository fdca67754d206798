// Whether the Node of this host is cordoned (`spec.unschedulable`). That alone says whether the host is drained, so
// that `kubectl cordon`, `kubectl drain` and `sandboxd drain` are one.
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { AppError, isAppError, toError } from '../../lib/errors.ts';
import type { KubeClient } from '../kube/client.ts';
import { NODES, readNode } from '../kube/objects.ts';

/** Who asks waits for it. */
const WRITE_MS = 5000;

type NodeCordonDeps = {
  readonly client: Pick<KubeClient, 'request'>;
  readonly name: string;
  /** Of the Node that this host has registered. */
  readonly nodeUid: () => string | undefined;
  readonly findNode: () => Promise<unknown>;
  /** Also what it was at the start. */
  readonly onCordon: (isCordoned: boolean) => Promise<void>;
  readonly signal: AbortSignal;
  readonly log: Logger;
};

export class NodeCordon {
  readonly #deps: NodeCordonDeps;
  /** What was read before a change must not undo it. */
  readonly #turns = new PQueue({ concurrency: 1 });
  #isCordoned: boolean | undefined;

  constructor(deps: NodeCordonDeps) {
    this.#deps = deps;
  }

  /** What fails is tried at the next renewal. */
  async follow(): Promise<void> {
    await this.read().catch((error: unknown) => this.#warn(error));
  }

  /** The Node as it is now, which is followed. Rejects when it cannot be read. */
  async read(): Promise<unknown> {
    return await this.#turns.add(async () => {
      const node = await this.#deps.findNode();
      await this.#use(node).catch((error: unknown) => this.#warn(error));
      return node;
    });
  }

  #warn(error: unknown): void {
    const reason = toError(error).message;
    this.#deps.log.warn({ reason }, 'cannot follow whether this node is cordoned');
  }

  /** Writes it. AppError with the name of the Node, also when the API server refuses. */
  async set(isCordoned: boolean): Promise<void> {
    const { client, name, nodeUid, signal } = this.#deps;
    const write = async (): Promise<void> => {
      const uid = nodeUid();
      if (uid === undefined) throw new AppError('exhausted', 'this host has not joined its fleet yet');
      const path = `${NODES}/${encodeURIComponent(name)}`;
      const body = { metadata: { uid }, spec: { unschedulable: isCordoned || null } };
      const request = { method: 'PATCH', path, patch: 'merge', body, timeoutMs: WRITE_MS, signal } as const;
      await this.#use(await client.request(request));
    };
    await this.#turns.add(write).catch((cause: unknown) => {
      const what = `the node ${name} is not ${isCordoned ? 'cordoned' : 'uncordoned'}`;
      // Without an answer it may be; then the next renewal sees it.
      const sure = isAppError(cause) && cause.code === 'upstream' ? ', as far as this host knows' : '';
      throw new AppError('upstream', `${what}${sure}: ${toError(cause).message}`, { cause });
    });
  }

  async #use(node: unknown): Promise<void> {
    const isCordoned = readNode(node)?.spec.unschedulable;
    if (isCordoned === undefined || isCordoned === this.#isCordoned) return;
    await this.#deps.onCordon(isCordoned);
    this.#isCordoned = isCordoned;
  }
}
