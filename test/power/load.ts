// A mixed load on a daemon, with everything that it acknowledges.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Daemon } from '../support/daemon.ts';
import { DAEMON_PROGRAM } from '../support/leftovers.ts';
import { GONE, type Promises } from './promises.ts';

const run = promisify(execFile);
const MAX_SANDBOXES = 5;
const MAX_SNAPSHOTS = 4;
const MAX_OTHERS = 4;

/** The values of sandboxes: whether they are paused, and then what their guest has in memory and on its disk. */
export const RUNNING = 'running';
/** The name of the key that the load itself uses. */
export const LOAD_KEY = 'load';
/** Their snapshots have no names. */
export const IMPORTS = 'imports';
export const pausedWith = (token: string): string => `paused ${token}`;

type Kind = 'secret' | 'key' | 'image';
type Held = {
  readonly key: string;
  readonly id: string;
  readonly hasNetwork: boolean;
  token: string;
  isPaused?: boolean;
};
type Made = { readonly id: string; readonly network?: unknown };

export class Load {
  readonly done: Record<string, number> = {};
  readonly refused: string[] = [];
  /** Ids of events in the order in which a client has seen them, with the disk's position at that time. */
  readonly events: { readonly id: string; readonly position: number }[] = [];
  readonly #daemon: Daemon;
  readonly #promises: Promises;
  readonly #position: () => number;
  readonly #images: readonly string[];
  readonly #sandboxes = new Map<string, Held>();
  readonly #snapshots = new Map<string, Held>();
  readonly #others: Record<Kind, Set<string>> = { secret: new Set(), key: new Set(), image: new Set() };
  readonly #busy = new Set<string>();
  #count = 0;

  constructor(daemon: Daemon, promises: Promises, position: () => number, images: readonly string[]) {
    this.#daemon = daemon;
    this.#promises = promises;
    this.#position = position;
    this.#images = images;
  }

  async work(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const [name, operate] = pick(Object.entries(this.#operations));
      try {
        if (await operate()) this.done[name] = (this.done[name] ?? 0) + 1;
        else await sleep(5);
      } catch (error) {
        this.refused.push(`${name}: ${(error as Error).message}`);
      }
    }
  }

  /** Follows the events until the signal aborts. */
  async readEvents(signal: AbortSignal): Promise<void> {
    const headers = { accept: 'application/x-ndjson' };
    const response = await this.#daemon.api.fetch('/events?last_event_id=0', { headers, signal });
    let pending = '';
    try {
      for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
        const lines = (pending + Buffer.from(chunk).toString()).split('\n');
        pending = lines.pop() ?? '';
        const position = this.#position();
        for (const line of lines) {
          const event = line === '' ? {} : (JSON.parse(line) as { id?: string; kind?: string });
          if (event.id !== undefined && event.kind !== undefined)
            this.events.push({ id: event.id, position });
        }
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  readonly #operations = {
    create: async () => {
      if (this.#sandboxes.size >= MAX_SANDBOXES) return false;
      const name = this.#name('box');
      const network = { enabled: true, allowlist: [`${name}.test`] };
      const body = { name, memory_mib: 128, ...(this.#count % 2 === 0 && { network }) };
      await this.#makeSandbox(`sandbox ${name}`, () => this.#daemon.api.create(body));
      return true;
    },
    pause: () =>
      this.#withOne(this.#sandboxes, async (held) => {
        if (held.isPaused === true) return false;
        const token = await this.#write(held);
        await this.#promises.change(held.key, pausedWith(token), () =>
          this.#daemon.api.ask('pauseSandbox', { params: { id: held.id }, body: {} }),
        );
        held.isPaused = true;
        return true;
      }),
    resume: () =>
      this.#withOne(this.#sandboxes, async (held) => {
        if (held.isPaused !== true) return false;
        await this.#promises.change(held.key, RUNNING, () =>
          this.#daemon.api.ask('resumeSandbox', { params: { id: held.id }, body: {} }),
        );
        held.isPaused = false;
        return true;
      }),
    label: () =>
      this.#withOne(this.#sandboxes, async ({ key, id }) => {
        const label = `v${this.#count++}`;
        await this.#promises.change(`label of ${key}`, label, () =>
          this.#daemon.api.ask('updateSandbox', { params: { id }, body: { labels: { label } } }),
        );
        return true;
      }),
    network: () =>
      this.#withOne(this.#sandboxes, async ({ key, id, hasNetwork }) => {
        if (!hasNetwork) return false;
        const name = `n${this.#count++}.test`;
        await this.#promises.change(`network of ${key}`, name, () =>
          this.#daemon.api.ask('updateNetwork', { params: { id }, body: { allowlist: [name] } }),
        );
        return true;
      }),
    delete: () =>
      this.#withOne(this.#sandboxes, async ({ key, id }) => {
        if (this.#sandboxes.size < MAX_SANDBOXES - 1) return false;
        const acknowledge = this.#promises.begin(`label of ${key}`, GONE);
        await this.#promises.change(key, GONE, () => this.#daemon.api.delete(id));
        acknowledge();
        this.#sandboxes.delete(key);
        return true;
      }),
    snapshot: () =>
      this.#withOne(this.#sandboxes, async (held) => {
        if (held.isPaused === true || this.#snapshots.size >= MAX_SNAPSHOTS) return false;
        const [name, token] = [this.#name('snap'), await this.#write(held)];
        await this.#makeSnapshot(`snapshot ${name}`, token, () =>
          this.#daemon.api.ask('takeSnapshot', { params: { id: held.id }, body: { name } }),
        );
        return true;
      }),
    fork: () =>
      this.#withOne(this.#snapshots, async ({ id }) => {
        if (this.#sandboxes.size >= MAX_SANDBOXES) return false;
        await this.#fork((body) => this.#daemon.api.ask('forkSnapshot', { params: { id }, body }));
        return true;
      }),
    forkSandbox: () =>
      this.#withOne(this.#sandboxes, async ({ id, isPaused }) => {
        if (isPaused === true || this.#sandboxes.size >= MAX_SANDBOXES) return false;
        await this.#fork((body) => this.#daemon.api.ask('forkSandbox', { params: { id }, body }));
        return true;
      }),
    rollback: () =>
      this.#withOne(this.#sandboxes, async (held) => {
        if (held.isPaused === true || this.#snapshots.size >= MAX_SNAPSHOTS) return false;
        const [name, token] = [this.#name('back'), await this.#write(held)];
        const { id } = await this.#makeSnapshot(`snapshot ${name}`, token, () =>
          this.#daemon.api.ask('takeSnapshot', { params: { id: held.id }, body: { name } }),
        );
        // Meanwhile it may be found paused: nothing of it is lost.
        this.#promises.begin(held.key, pausedWith(token));
        await this.#promises.change(held.key, RUNNING, () =>
          this.#daemon.api.ask('rollbackSandbox', { params: { id: held.id }, body: { snapshot_id: id } }),
        );
        return true;
      }),
    transfer: () =>
      this.#withOne(this.#snapshots, async ({ id, token }) => {
        if (this.#snapshots.size >= MAX_SNAPSHOTS) return false;
        const archive = await (await this.#daemon.api.fetch(`/snapshots/${id}/export`)).arrayBuffer();
        // The daemon chooses the id, so that a cut before the response leaves one that nobody knows.
        const acknowledge = this.#promises.begin(IMPORTS, RUNNING);
        const body = { method: 'POST', body: archive };
        const response = await this.#daemon.api.fetch('/snapshots/import', body);
        const imported = (await response.json()) as { id: string; error?: string };
        if (imported.error !== undefined) throw new Error(imported.error);
        await this.#makeSnapshot(`snapshot ${imported.id}`, token, async () => imported);
        acknowledge();
        return true;
      }),
    deleteSnapshot: () =>
      this.#withOne(this.#snapshots, async ({ key, id }) => {
        if (this.#snapshots.size < MAX_SNAPSHOTS) return false;
        await this.#promises.change(key, GONE, () =>
          this.#daemon.api.ask('deleteSnapshot', { params: { id } }),
        );
        this.#snapshots.delete(key);
        return true;
      }),
    secret: () =>
      this.#toggle('secret', {
        make: (name) =>
          this.#daemon.api.ask('putSecret', {
            params: { name },
            body: { value: randomBytes(12).toString('hex'), hosts: ['secrets.test'] },
          }),
        remove: (name) => this.#daemon.api.ask('deleteSecret', { params: { name } }),
      }),
    key: () =>
      this.#toggle('key', {
        make: (name) => this.#keys('create', name),
        remove: (name) => this.#keys('revoke', name),
      }),
    image: () =>
      this.#toggle(
        'image',
        {
          make: (ref) => this.#daemon.api.ask('pullImage', { body: { ref } }),
          remove: (ref) => this.#daemon.api.ask('deleteImage', { params: { ref } }),
        },
        this.#images,
      ),
  };

  /** Makes one more of a kind, or removes one; each name is used once unless `names` has them. */
  async #toggle(
    kind: Kind,
    {
      make,
      remove,
    }: { make: (name: string) => Promise<unknown>; remove: (name: string) => Promise<unknown> },
    names?: readonly string[],
  ): Promise<boolean> {
    const held = this.#others[kind];
    const isFull = held.size >= Math.min(MAX_OTHERS, names?.length ?? MAX_OTHERS);
    const name = isFull ? pick([...held]) : pick(names ?? [this.#name(kind)]);
    const key = `${kind} ${name}`;
    if (this.#busy.has(key) || held.has(name) !== isFull) return false;
    this.#busy.add(key);
    try {
      await this.#promises.change(key, isFull ? GONE : RUNNING, () => (isFull ? remove(name) : make(name)));
      if (isFull) held.delete(name);
      else held.add(name);
    } finally {
      this.#busy.delete(key);
    }
    return true;
  }

  #keys(verb: string, name: string): Promise<unknown> {
    return run(DAEMON_PROGRAM, ['keys', verb, name, '--data-dir', this.#daemon.directories.dataDir]);
  }

  async #fork(
    make: (body: { name: string }) => Promise<{ readonly sandboxes: readonly Made[] }>,
  ): Promise<void> {
    const name = this.#name('fork');
    await this.#makeSandbox(`sandbox ${name}`, async () => {
      const { sandboxes } = await make({ name });
      return sandboxes[0] ?? { id: '' };
    });
  }

  async #makeSandbox(key: string, make: () => Promise<Made>): Promise<void> {
    this.#sandboxes.set(key, { key, id: '', hasNetwork: false, token: '' });
    this.#busy.add(key);
    try {
      const { id, network } = await this.#promises.change(key, RUNNING, make);
      this.#sandboxes.set(key, { key, id, hasNetwork: network !== undefined, token: '' });
    } catch (error) {
      this.#sandboxes.delete(key);
      throw error;
    } finally {
      this.#busy.delete(key);
    }
  }

  async #makeSnapshot<T extends { readonly id: string }>(
    key: string,
    token: string,
    make: () => Promise<T>,
  ): Promise<T> {
    const made = await this.#promises.change(key, token, make);
    this.#snapshots.set(key, { key, id: made.id, hasNetwork: false, token });
    return made;
  }

  /** Puts a new token into the guest's memory and on its disk. */
  async #write(held: Held): Promise<string> {
    const token = `t${this.#count++}`;
    await this.#daemon.api.sh(held.id, `echo ${token} | tee /dev/shm/token > /root/token`);
    held.token = token;
    return token;
  }

  #name(kind: string): string {
    return `${kind}-${this.#count++}`;
  }

  /** One operation at a time on each object, so that what it is remains unambiguous. */
  async #withOne(book: Map<string, Held>, use: (held: Held) => Promise<boolean>): Promise<boolean> {
    const free = [...book.values()].filter(({ key }) => !this.#busy.has(key));
    if (free.length === 0) return false;
    const held = pick(free);
    this.#busy.add(held.key);
    try {
      return await use(held);
    } finally {
      this.#busy.delete(held.key);
    }
  }
}

function pick<T>(items: readonly T[]): T {
  return items[Math.floor(Math.random() * items.length)] as T;
}
