// Clients of a fleet whose daemons and gateways are killed: they repeat what got no answer, and remember what did.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Api, ApiError } from '../api.ts';
import { scaled } from '../time-scale.ts';
import { pick, type Random } from './chaos/random.ts';
import { ask } from './fleet.ts';
import type { RealFleet } from './real-fleet.ts';

/** Guests of one test at once. */
const MOST = 5;
const FILE = '/root/written';
const RETRY_MS = 200;
const GIVE_UP_MS = scaled(300_000);
/** A part is away, or a sandbox is on its way or paused by another client. */
const BUSY = [409, 502, 503, 504];

type Entry = {
  /** What its file has; undefined when the answer to the last write was lost. */
  text: string | undefined;
};

export class KillLoad {
  readonly alive = new Map<string, Entry>();
  readonly gone = new Set<string>();
  readonly done: Record<string, number> = {};
  readonly faults: string[] = [];
  readonly #world: RealFleet;
  readonly #random: Random;
  readonly #busy = new Set<string>();
  #creating = 0;
  #written = 0;

  constructor(world: RealFleet, random: Random) {
    this.#world = world;
    this.#random = random;
  }

  /** Resolves when the operation that runs at the abort has its answer. */
  async work(signal: AbortSignal): Promise<void> {
    const verbs = [this.#create, this.#write, this.#write, this.#sleep, this.#delete];
    while (!signal.aborted) {
      const verb = pick(this.#random, verbs);
      if ((await verb?.call(this)) !== true) await sleep(20);
    }
  }

  /** What is not as the answers were. All parts must run, and nobody else must use the sandboxes. */
  async check(): Promise<string[]> {
    const wrong: string[] = [];
    for (const [id, { text }] of this.alive) {
      const found = await this.#until(`cat of ${id}`, async (url) => {
        await this.#resume(url, id);
        return await new Api(url).sh(id, `cat ${FILE} || true`);
      });
      if (text !== undefined && found !== text) wrong.push(`${id} has ${found}, not ${text}`);
    }
    return wrong;
  }

  async deleteAll(): Promise<void> {
    for (const id of [...this.alive.keys()]) await this.#remove(id);
  }

  async #create(): Promise<boolean> {
    if (this.alive.size + this.#creating >= MOST) return false;
    this.#creating++;
    const headers = { 'idempotency-key': randomUUID() };
    const id = await this.#until('create', async (url) => {
      const { status, body } = await ask(url, 'POST', '/sandboxes', { memory_mib: 128 }, headers);
      if (status !== 201) throw new ApiError(status, JSON.stringify(body));
      return body.id;
    });
    this.#creating--;
    if (id === undefined) return false;
    if (this.alive.has(id) || this.gone.has(id)) this.faults.push(`${id} was made twice`);
    this.alive.set(id, { text: '' });
    return this.#count('create');
  }

  #write(): Promise<boolean> {
    return this.#withOne(async (id, entry) => {
      const text = `text-${this.#written++}`;
      entry.text = undefined;
      // It may be run twice, with the same result.
      const answer = await this.#until(`write of ${id}`, async (url) => {
        await this.#resume(url, id);
        return await new Api(url).sh(id, `echo ${text} > ${FILE} && sync && echo done`);
      });
      if (answer === 'done') entry.text = text;
      return this.#count('write');
    });
  }

  #sleep(): Promise<boolean> {
    return this.#withOne(async (id) => {
      await this.#until(`pause of ${id}`, async (url) => {
        const { status, body } = await ask(url, 'POST', `/sandboxes/${id}/pause`, {});
        if (status !== 200) throw new ApiError(status, JSON.stringify(body));
      });
      return this.#count('pause');
    });
  }

  #delete(): Promise<boolean> {
    return this.#withOne(async (id) => {
      if (this.alive.size < MOST) return false;
      await this.#remove(id);
      return this.#count('delete');
    });
  }

  async #remove(id: string): Promise<void> {
    let isRepeated = false;
    await this.#until(`delete of ${id}`, async (url) => {
      const isFirst = !isRepeated;
      isRepeated = true;
      const { status, body } = await ask(url, 'DELETE', `/sandboxes/${id}`);
      // An answer before this one was lost.
      if (status !== 204 && (status !== 404 || isFirst)) throw new ApiError(status, JSON.stringify(body));
    });
    this.alive.delete(id);
    this.gone.add(id);
  }

  async #resume(url: string, id: string): Promise<void> {
    const { status, body } = await ask(url, 'GET', `/sandboxes/${id}`);
    if (status !== 200) throw new ApiError(status, JSON.stringify(body));
    if (body.state === 'running') return;
    const resumed = await ask(url, 'POST', `/sandboxes/${id}/resume`, {});
    if (resumed.status !== 200) throw new ApiError(resumed.status, JSON.stringify(resumed.body));
  }

  /** As a client repeats it: at any gateway, until an answer tells more than that a part is away. */
  async #until<T>(what: string, request: (url: string) => Promise<T>): Promise<T | undefined> {
    const endMs = performance.now() + GIVE_UP_MS;
    let last: unknown = 'no gateway';
    while (performance.now() < endMs) {
      const url = pick(this.#random, this.#world.urls);
      try {
        if (url !== undefined) return await request(url);
      } catch (error) {
        last = error;
        if (error instanceof ApiError && !BUSY.includes(error.status)) break;
      }
      await sleep(RETRY_MS);
    }
    this.faults.push(`${what}: ${last}`);
    return undefined;
  }

  async #withOne(use: (id: string, entry: Entry) => Promise<boolean>): Promise<boolean> {
    const [id, entry] =
      pick(
        this.#random,
        [...this.alive].filter(([each]) => !this.#busy.has(each)),
      ) ?? [];
    if (id === undefined || entry === undefined) return false;
    this.#busy.add(id);
    try {
      return await use(id, entry);
    } finally {
      this.#busy.delete(id);
    }
  }

  #count(what: string): true {
    this.done[what] = (this.done[what] ?? 0) + 1;
    return true;
  }
}
