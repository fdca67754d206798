// This host as a node of the cluster: its Node with the capacity that it admits, and a Lease that says it is alive.

import { isIP } from 'node:net';
import { release } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { ARCHITECTURE } from '@sandboxd/proto';
import type { Logger } from 'pino';
import { AppError, toError } from '../../lib/errors.ts';
import { VERSION } from '../../lib/version.ts';
import type { Doors } from '../catalogue.ts';
import { isRefusal, type KubeClient } from '../kube/client.ts';
import { NODES, readCreatedAtMs, readNode } from '../kube/objects.ts';
import { toDoorAnnotations } from '../kubernetes/doors.ts';
import { isHoldingLabel, toHoldingLabels } from '../kubernetes/holdings.ts';
import { HOST_LABEL, type PlacePod, POD_HOST_LABEL, toHostAnnotations } from '../kubernetes/pods.ts';
import {
  readUnplacedText,
  toUnplacedAnnotations,
  type UnplacedList,
  writeUnplaced,
} from '../kubernetes/unplaced.ts';
import type { FleetSeal } from '../seal.ts';
import { NodeCordon } from './node-cordon.ts';
import { NodeLease } from './node-lease.ts';
import { UnplacedPost } from './unplaced-post.ts';

const INSTANCE = 'sandboxd.dev/instance';
const RENEW_MS = 10_000;
/** The engine waits 50 s; a host that has not renewed for this long takes nothing new. */
const FENCE_MS = 40_000;
const STATUS_MS = 60_000;
const RETRY_MS = 2000;
/** Times of two API servers may differ by this much; they are in whole seconds. */
const CLOCKS_MS = 5000;

export type HostCapacity = { readonly cpus: number; readonly memoryMib: number; readonly sandboxes: number };

export type RegistrationOptions = {
  readonly client: KubeClient;
  readonly seal: FleetSeal;
  /** Of the Node. */
  readonly name: string;
  /** Of this installation: two hosts cannot be one node. */
  readonly instance: string;
  /** Where gateways reach the REST interface. */
  readonly url: URL;
  readonly doors: Doors;
  /** Whether pods of others run here. */
  readonly runsPods: boolean;
  readonly readCapacity: () => Promise<HostCapacity>;
  /** What this host has, the newest first. */
  readonly readHoldings: () => readonly string[];
  /** Sandboxes without a place, while the Node has that uid. */
  readonly readUnplaced: (nodeUid: string | undefined) => UnplacedList;
  /** It is another one than before. */
  readonly onNode?: () => void;
  readonly log: Logger;
  readonly renewMs?: number;
  readonly fenceMs?: number;
  /** The Node was made unschedulable (`kubectl cordon`), or schedulable again; also what it was at the start. */
  readonly onCordon: (isCordoned: boolean) => Promise<void>;
};

export class Registration {
  readonly #options: RegistrationOptions;
  readonly #stop = new AbortController();
  readonly #first = Promise.withResolvers<string>();
  #done: Promise<void> | undefined;
  #nodeUid: string | undefined;
  /** Absent: of the first Node of this host, so that there are no pods of a former one. */
  #formerUntilMs: number | undefined;
  /** Labels that the Node has for them. */
  #holdings: ReadonlySet<string> = new Set();
  /** As the Node has them. */
  #unplaced = '';
  readonly #unplacedPost: UnplacedPost;
  /** Of the monotonic clock. */
  #nodeSinceMs = 0;
  #ensuring: Promise<void> | undefined;
  /** Of the monotonic clock. */
  #renewedAtMs = Number.NEGATIVE_INFINITY;
  #postedAtMs = Number.NEGATIVE_INFINITY;
  #reported = '';
  readonly #cordon: NodeCordon;
  readonly #lease: NodeLease;

  constructor(options: RegistrationOptions) {
    this.#options = options;
    this.#first.promise.catch(() => undefined);
    this.#cordon = new NodeCordon({
      ...options,
      signal: this.#stop.signal,
      nodeUid: () => this.#nodeUid,
      findNode: () => this.#findNode(),
    });
    const { client, name } = options;
    this.#lease = new NodeLease({ client, name, durationMs: FENCE_MS, signal: this.#stop.signal });
    this.#unplacedPost = new UnplacedPost({
      read: () => options.readUnplaced(this.#nodeUid),
      posted: () => this.#unplaced,
      post: (text) => this.#postUnplaced(text),
      signal: this.#stop.signal,
    });
  }

  /** Resolves with the uid of the Node when the API server first knew this host. */
  joined(): Promise<string> {
    return this.#first.promise;
  }

  /** Undefined before that. */
  get nodeUid(): string | undefined {
    return this.#nodeUid;
  }

  /** How long this host has known it. */
  get nodeKnownMs(): number {
    return performance.now() - this.#nodeSinceMs;
  }

  /**
   * The uid of the Node that a pod is of; '' if it may be of a former one, with which its deletion may come late. By
   * the times that the API server has of both: our watch may show now what was there before.
   */
  nodeOf({ createdAtMs = 0 }: Pick<PlacePod, 'createdAtMs'>): string {
    const isFormer = this.#formerUntilMs !== undefined && createdAtMs <= this.#formerUntilMs;
    return isFormer ? '' : (this.#nodeUid ?? '');
  }

  /** Whether the engine may hold this host for dead. */
  get isFenced(): boolean {
    const { fenceMs = FENCE_MS } = this.#options;
    return performance.now() - this.#renewedAtMs > fenceMs;
  }

  /**
   * Whether the Node is still the one that this host knows. Otherwise it is made again, or its uid is learned; whether
   * it is cordoned is followed, too. Rejects while the API server does not answer.
   */
  async confirmNode(): Promise<boolean> {
    const known = this.#nodeUid;
    if (readNode(await this.#cordon.read())?.metadata.uid === known) return true;
    await this.#ensureNode();
    return this.#nodeUid === known;
  }

  start(): void {
    this.#done ??= this.#run();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#done;
    await this.#unplacedPost.idle();
  }

  /** Gateways hear before the next renewal which sandboxes have no place. */
  noteUnplaced(): void {
    if (this.#nodeUid !== undefined) this.#unplacedPost.note();
  }

  /** Cordons the Node, or uncordons it, and does what follows. Rejects when that is not done. */
  setCordoned(isCordoned: boolean): Promise<void> {
    return this.#cordon.set(isCordoned);
  }

  /** Rejects when they do not hear. */
  async postUnplaced(): Promise<void> {
    await this.#unplacedPost.post();
  }

  async #run(): Promise<void> {
    const { log, renewMs = RENEW_MS } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      let waitMs = renewMs;
      try {
        await this.#renew();
        if (this.#reported !== '') log.info('the API server of the fleet knows this host again');
        this.#reported = '';
      } catch (error) {
        if (signal.aborted) return;
        waitMs = Math.min(RETRY_MS, renewMs);
        const reason = toError(error).message;
        if (reason !== this.#reported) log.error({ reason }, 'cannot join the fleet; trying again');
        this.#reported = reason;
      }
      await sleep(waitMs, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  async #renew(): Promise<void> {
    // Before the request: it is from then on that the engine counts.
    const atMs = performance.now();
    const wasFenced = this.isFenced;
    if (wasFenced || this.#nodeUid === undefined) await this.#ensureNode();
    await this.#lease.renew().catch(async (error: unknown) => {
      // With the Node its Lease goes, too.
      if (!isRefusal(error, 404)) throw error;
      await this.#ensureNode();
      await this.#lease.make(this.#nodeUid ?? '');
    });
    await this.#postHoldings();
    await this.#unplacedPost.post();
    if (wasFenced || atMs - this.#postedAtMs > STATUS_MS) {
      await this.#postStatus();
      this.#postedAtMs = atMs;
    }
    this.#renewedAtMs = atMs;
    await this.#cordon.follow();
    this.#first.resolve(this.#nodeUid ?? '');
  }

  /** Once, though several need it. */
  async #ensureNode(): Promise<void> {
    this.#ensuring ??= this.#makeNode().finally(() => {
      this.#ensuring = undefined;
    });
    await this.#ensuring;
  }

  /** Undefined: there is none. */
  async #findNode(): Promise<unknown> {
    const { client, name } = this.#options;
    const path = `${NODES}/${encodeURIComponent(name)}`;
    const { signal } = this.#stop;
    return await client.request({ method: 'GET', path, signal }).catch((error: unknown) => {
      if (isRefusal(error, 404)) return undefined;
      throw error;
    });
  }

  async #makeNode(): Promise<void> {
    const { client, name, instance, url, doors, seal, runsPods } = this.#options;
    const path = `${NODES}/${encodeURIComponent(name)}`;
    const labels = {
      [HOST_LABEL]: 'true',
      'kubernetes.io/hostname': name,
      'kubernetes.io/os': 'linux',
      'kubernetes.io/arch': ARCHITECTURE.name,
      ...(runsPods && { [POD_HOST_LABEL]: 'true' }),
    };
    const annotations = {
      ...toHostAnnotations(name, url, seal),
      ...toDoorAnnotations(name, doors, seal),
      [INSTANCE]: instance,
    };
    const { signal } = this.#stop;
    const found = await this.#findNode();
    if (found !== undefined) {
      const owner = readNode(found)?.metadata.annotations[INSTANCE];
      if (owner !== instance)
        throw new AppError(
          'conflict',
          `there is a node ${name} of another host; give this one another --join-name, or delete that node`,
        );
      const body = { metadata: { labels: { [POD_HOST_LABEL]: null, ...labels }, annotations } };
      this.#use(await client.request({ method: 'PATCH', path, patch: 'merge', body, signal }));
      return;
    }
    // All that it has may have lost its place with an earlier Node.
    const unplaced = toUnplacedAnnotations(name, writeUnplaced(this.#options.readUnplaced(undefined)), seal);
    const body = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name, labels, annotations: { ...annotations, ...unplaced } },
      spec: { taints: [{ key: HOST_LABEL, value: 'true', effect: 'NoSchedule' }] },
    };
    this.#use(await client.request({ method: 'POST', path: NODES, body, signal }));
    this.#options.log.info({ node: name }, 'this host is a node of the fleet');
    await this.#postStatus();
  }

  /** Labels for what this host has; those of what it has no more go. */
  async #postHoldings(): Promise<void> {
    const { client, name, readHoldings } = this.#options;
    const holdings = toHoldingLabels(readHoldings());
    const posted = this.#holdings;
    const labels = {
      ...Object.fromEntries(
        [...posted].filter((label) => !holdings.has(label)).map((label) => [label, null]),
      ),
      ...Object.fromEntries(
        [...holdings].filter((label) => !posted.has(label)).map((label) => [label, 'true']),
      ),
    };
    if (Object.keys(labels).length === 0) return;
    const path = `${NODES}/${encodeURIComponent(name)}`;
    const body = { metadata: { labels } };
    this.#use(
      await client.request({ method: 'PATCH', path, patch: 'merge', body, signal: this.#stop.signal }),
    );
  }

  async #postUnplaced(text: string): Promise<void> {
    const { client, name, seal } = this.#options;
    const path = `${NODES}/${encodeURIComponent(name)}`;
    const body = { metadata: { annotations: toUnplacedAnnotations(name, text, seal) } };
    const { signal } = this.#stop;
    this.#use(await client.request({ method: 'PATCH', path, patch: 'merge', body, signal }));
  }

  #use(object: unknown): void {
    const node = readNode(object);
    if (node === undefined)
      throw new AppError('upstream', 'the API server answered with something that is not a node');
    const { uid, labels, annotations } = node.metadata;
    this.#unplaced = readUnplacedText(annotations);
    this.#holdings = new Set(Object.keys(labels).filter(isHoldingLabel));
    if (this.#nodeUid === uid) return;
    // What it has of another Node is from before its start.
    const { named, hasMore } = this.#options.readUnplaced(uid);
    if (this.#nodeUid !== undefined || hasMore || named.length > 0)
      this.#formerUntilMs = (readCreatedAtMs(node) ?? Number.POSITIVE_INFINITY) + CLOCKS_MS;
    this.#nodeUid = uid;
    this.#nodeSinceMs = performance.now();
    // A new one is not ready before that.
    this.#postedAtMs = Number.NEGATIVE_INFINITY;
    this.#options.onNode?.();
  }

  async #postStatus(): Promise<void> {
    const { client, name, url, readCapacity } = this.#options;
    const { cpus, memoryMib, sandboxes } = await readCapacity();
    const capacity = { cpu: String(cpus), memory: `${Math.floor(memoryMib)}Mi`, pods: String(sandboxes) };
    const now = new Date().toISOString().replace(/\.\d+/, '');
    const host = url.hostname.replace(/^\[|\]$/g, '');
    const addresses = [
      { type: 'Hostname', address: name },
      ...(isIP(host) ? [{ type: 'InternalIP', address: host }] : []),
    ];
    const ready = {
      type: 'Ready',
      status: 'True',
      reason: 'Serving',
      message: 'sandboxd serves',
      lastHeartbeatTime: now,
    };
    const nodeInfo = {
      ...{
        architecture: ARCHITECTURE.name,
        operatingSystem: 'linux',
        kernelVersion: release(),
      },
      ...{ kubeletVersion: `sandboxd-${VERSION}`, containerRuntimeVersion: `sandboxd://${VERSION}` },
      ...{ bootID: '', machineID: '', systemUUID: '', osImage: '', kubeProxyVersion: '' },
    };
    const status = { capacity, allocatable: capacity, conditions: [ready], addresses, nodeInfo };
    const path = `${NODES}/${encodeURIComponent(name)}/status`;
    const body = { status };
    await client.request({ method: 'PATCH', path, patch: 'strategic', body, signal: this.#stop.signal });
  }
}
