// A mixed load that records every acknowledged operation, while its daemons are killed.
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import type { SandboxJson } from './api.ts';
import type { Daemon } from './daemon.ts';
import { listHoldings } from './invariants.ts';
import { type LogPageJson, ServiceClient } from './service.ts';

const MAX_SANDBOXES = 5;
const MAX_SNAPSHOTS = 3;
/** Numbered lines, so that a gap in the log is visible. */
const COUNT = 'n=0; while :; do n=$((n+1)); echo line $n; sleep 0.02; done';

/** What the client may rely on. `isSure` sandboxes exist; for others, the result of create or delete is unknown. */
type Entry = {
  isSure: boolean;
  /** Content of files by acknowledged writes, by path; undefined where a write was not acknowledged. */
  readonly files: Map<string, string | undefined>;
  /** A PUT of its counting service was acknowledged. */
  hasService: boolean;
};

type ChaosOptions = {
  /** Of every second sandbox. */
  readonly network?: { readonly enabled: true; readonly allowlist: readonly string[]; readonly ask: string };
  /** Sandboxes are paused and resumed as well. */
  readonly sleeps?: boolean;
};

export class ChaosLoad {
  readonly sandboxes = new Map<string, Entry>();
  readonly snapshots = new Map<string, { isSure: boolean }>();
  readonly gone = new Set<string>();
  readonly done: Record<string, number> = {};
  readonly faults: string[] = [];
  /** Errors that a fault of the host explains, while it lasts. */
  expected: RegExp | undefined;
  /** Until everything is deleted: a full disk takes no log. */
  mayLoseLog = false;
  readonly #options: ChaosOptions;
  /** Number of checked log lines of services. */
  logLines = 0;
  #daemon: Daemon;
  #isDown = false;
  readonly #busy = new Set<string>();
  #counter = 0;

  constructor(daemon: Daemon, options: ChaosOptions = {}) {
    this.#daemon = daemon;
    this.#options = options;
  }

  /** The id of a sandbox that from now on has no part in the load. */
  take(): string | undefined {
    const id = [...this.sandboxes.keys()].find((each) => !this.#busy.has(each));
    if (id !== undefined) this.sandboxes.delete(id);
    return id;
  }

  /** Works until the daemon exits or the signal aborts. */
  async work(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.#isDown) {
      const [name, operate] = pick(Object.entries(this.#operations));
      try {
        if (await operate()) this.done[name] = (this.done[name] ?? 0) + 1;
        else await sleep(20);
      } catch (error) {
        // A broken connection means that the daemon was killed. An error response must have a known reason.
        if (!isAnswer(error)) this.#isDown = true;
        else if (this.expected?.test(error.message) !== true) this.faults.push(`${name}: ${error.message}`);
      }
    }
  }

  /** Continues with the next daemon. Returns the acknowledged operations that were lost. */
  async resume(daemon: Daemon): Promise<string[]> {
    this.#daemon = daemon;
    this.#isDown = false;
    this.#busy.clear();
    const { sandboxes, snapshots } = await listHoldings(daemon);
    const broken: string[] = [];
    for (const [book, ids] of [
      [this.sandboxes, sandboxes],
      [this.snapshots, snapshots],
    ] as const) {
      for (const [id, { isSure }] of book) {
        if (ids.includes(id)) continue;
        if (isSure) broken.push(`${id} was acknowledged and is not there`);
        book.delete(id);
        this.gone.add(id);
      }
      for (const id of ids) if (this.gone.has(id)) broken.push(`${id} was deleted and is there`);
    }
    // Created, although the client got no response.
    for (const id of sandboxes) this.#entry(id).isSure = true;
    for (const id of snapshots) this.snapshots.set(id, { isSure: true });
    broken.push(...(await this.#checkContents()));
    return broken;
  }

  /** Deletes everything. */
  async finish(): Promise<void> {
    const { sandboxes, snapshots } = await listHoldings(this.#daemon);
    await Promise.all(sandboxes.map((id) => this.#daemon.api.delete(id)));
    for (const id of snapshots) await this.#daemon.api.call('DELETE', `/snapshots/${id}`);
    for (const id of [...sandboxes, ...snapshots]) this.gone.add(id);
    this.sandboxes.clear();
    this.snapshots.clear();
    this.mayLoseLog = false;
  }

  async #checkContents(): Promise<string[]> {
    const broken: string[] = [];
    const { api } = this.#daemon;
    for (const [id, { files, hasService }] of this.sandboxes) {
      try {
        for (const [path, content] of files) {
          if (content === undefined) continue;
          const found = await api.sh(id, `cat ${path}`);
          if (found !== content) broken.push(`${id}: ${path} holds ${found}, not ${content}`);
        }
        if (files.size === 0) await api.sh(id, 'true');
        if (hasService) broken.push(...(await this.#checkLog(id)));
      } catch (error) {
        broken.push(`${id}: ${(error as Error).message}`);
      }
    }
    return broken;
  }

  /** Checks that the service runs, and that its log has every line it wrote, in order, from the first one on. */
  async #checkLog(id: string): Promise<string[]> {
    const { api } = this.#daemon;
    const { state } = await new ServiceClient(api, id).status();
    const broken = state === 'running' ? [] : [`${id}: its service is ${state}`];
    if (this.mayLoseLog) return broken;
    let since = 0;
    let text = '';
    for (;;) {
      const page = await api.call<LogPageJson>('GET', `/sandboxes/${id}/logs?source=service&since=${since}`);
      if (page.records.some(({ stream }) => stream === 'event')) broken.push(`${id}: its log has a gap`);
      text += page.records.map((record) => record.text).join('');
      if (page.next_offset === since) break;
      since = page.next_offset;
    }
    const numbers = text.split('\n').slice(0, -1);
    this.logLines += numbers.length;
    for (const [index, line] of numbers.entries()) {
      // The log of a fork continues its source's number; a restarted service starts with 1.
      const before = Number(numbers[index - 1]?.slice(5) ?? Number.NaN);
      const number = Number(line.slice(5));
      if (index > 0 && number !== before + 1 && number !== 1)
        broken.push(`${id}: log line ${line} behind ${before}`);
    }
    return broken;
  }

  readonly #operations = {
    create: async () => {
      if (this.sandboxes.size >= MAX_SANDBOXES) return false;
      const { network: { ask, ...network } = { ask: undefined } } = this.#options;
      const hasNetwork = ask !== undefined && this.#counter++ % 2 === 0;
      const { id } = await this.#daemon.api.create({ memory_mib: 128, ...(hasNetwork && { network }) });
      this.#entry(id).isSure = true;
      if (!hasNetwork) return true;
      this.#busy.add(id);
      try {
        await this.#daemon.api.sh(id, ask);
      } finally {
        this.#busy.delete(id);
      }
      return true;
    },
    sleep: () =>
      this.#withSandbox(async (id) => {
        if (this.#options.sleeps !== true) return false;
        await this.#daemon.api.ask('pauseSandbox', { params: { id }, body: {} });
        await this.#daemon.api.ask('resumeSandbox', { params: { id }, body: {} });
        return true;
      }),
    exec: () =>
      this.#withSandbox(async (id, { files }) => {
        const text = `written-${this.#counter++}`;
        files.set('/root/exec', undefined);
        await this.#daemon.api.sh(id, `echo ${text} > /root/exec`);
        files.set('/root/exec', text);
        return true;
      }),
    files: () =>
      this.#withSandbox(async (id, { files }) => {
        const text = `pushed-${this.#counter++}`;
        files.set('/root/pushed/file', undefined);
        const response = await this.#daemon.api.fetch(`/sandboxes/${id}/files?path=/root/pushed`, {
          method: 'POST',
          body: tarOf('file', text),
        });
        if (!response.ok) throw new Error(`files: ${response.status} ${await response.text()}`);
        await response.text();
        files.set('/root/pushed/file', text);
        return true;
      }),
    service: () =>
      this.#withSandbox(async (id, entry) => {
        if (entry.hasService) return false;
        await new ServiceClient(this.#daemon.api, id).put({ cmd: ['sh', '-c', COUNT] });
        entry.hasService = true;
        return true;
      }),
    snapshot: () =>
      this.#withSandbox(async (id) => {
        if (this.snapshots.size >= MAX_SNAPSHOTS) return false;
        const taken = await this.#daemon.api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`);
        this.snapshots.set(taken.id, { isSure: true });
        return true;
      }),
    fork: () =>
      this.#withSnapshot(async (id) => {
        if (this.sandboxes.size + 2 > MAX_SANDBOXES) return false;
        const { sandboxes } = await this.#daemon.api.call<{ sandboxes: SandboxJson[] }>(
          'POST',
          `/snapshots/${id}/fork?count=2`,
        );
        for (const sandbox of sandboxes) this.#entry(sandbox.id).isSure = true;
        return true;
      }),
    delete: () =>
      this.#withSandbox(async (id, entry) => {
        if (this.sandboxes.size < MAX_SANDBOXES - 1) return false;
        entry.isSure = false;
        await this.#daemon.api.delete(id);
        this.sandboxes.delete(id);
        this.gone.add(id);
        return true;
      }),
    deleteSnapshot: () =>
      this.#withSnapshot(async (id, entry) => {
        if (this.snapshots.size < MAX_SNAPSHOTS) return false;
        entry.isSure = false;
        await this.#daemon.api.call('DELETE', `/snapshots/${id}`);
        this.snapshots.delete(id);
        this.gone.add(id);
        return true;
      }),
  };

  #entry(id: string): Entry {
    const known = this.sandboxes.get(id);
    if (known !== undefined) return known;
    const entry: Entry = { isSure: false, files: new Map(), hasService: false };
    this.sandboxes.set(id, entry);
    return entry;
  }

  #withSandbox(use: (id: string, entry: Entry) => Promise<boolean>): Promise<boolean> {
    return this.#withOne(this.sandboxes, use);
  }

  #withSnapshot(use: (id: string, entry: { isSure: boolean }) => Promise<boolean>): Promise<boolean> {
    return this.#withOne(this.snapshots, use);
  }

  /** Runs one operation at a time on each object, so that the outcome is unambiguous. */
  async #withOne<T>(book: Map<string, T>, use: (id: string, entry: T) => Promise<boolean>): Promise<boolean> {
    const free = [...book].filter(([id]) => !this.#busy.has(id));
    if (free.length === 0) return false;
    const [id, entry] = pick(free);
    this.#busy.add(id);
    try {
      return await use(id, entry);
    } finally {
      this.#busy.delete(id);
    }
  }
}

function pick<T>(items: readonly T[]): T {
  return items[Math.floor(Math.random() * items.length)] as T;
}

/** Whether the daemon sent this error, as opposed to a closed connection or the end of a command's stream. */
function isAnswer(error: unknown): error is Error {
  return (
    error instanceof Error &&
    error.name !== 'TypeError' &&
    !/^fetch failed|terminated|without an exit frame/.test(error.message)
  );
}

/** A gzipped archive of one small file. */
function tarOf(name: string, content: string): Uint8Array<ArrayBuffer> {
  const header = Buffer.alloc(512);
  header.write(name, 0);
  header.write('0000644\0', 100);
  header.write('0000000\0', 108);
  header.write('0000000\0', 116);
  header.write(`${content.length.toString(8).padStart(11, '0')}\0`, 124);
  header.write('00000000000\0', 136);
  header.write('        0', 148);
  header.write('ustar\x0000', 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  const body = Buffer.alloc(512);
  body.write(content, 0);
  return new Uint8Array(gzipSync(Buffer.concat([header, body, Buffer.alloc(1024)])));
}
