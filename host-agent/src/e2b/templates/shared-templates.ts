// Templates of the hosts that have one snapshot store: each writes there what it changes, and knows what the others
// have written. What a host knows stays on its disk, so that it is found while the bucket does not answer.
import { setTimeout as sleep } from 'node:timers/promises';
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { firstLine, isAppError } from '../../lib/errors.ts';
import { forEachAtOnce } from '../../lib/for-each-at-once.ts';
import type { LifecycleEvents } from '../../sandboxes/lifecycle-events.ts';
import type { SnapshotFacts } from '../../sandboxes/stored/snapshot-facts.ts';
import type { StoredTemplates } from '../../snapshot-store/index.ts';
import { E2bError } from '../errors.ts';
import { areEqual, mergeTemplates, toShareable } from './merge-templates.ts';
import type { Template } from './template.ts';
import type { TemplateRecords } from './template-records.ts';

const MAX_TEMPLATES = 10_000;
/** With deleted ones, which stay for a month: a client could hide those of others behind them. */
const MAX_OBJECTS = 100_000;
const CONCURRENCY = 16;
/** Requests find what other hosts wrote so long ago. */
const MAX_AGE_MS = 2000;
/** Or so many times as long as the list took. */
const AGE_BY_DURATION = 4;
/** Without requests. */
const POLL_MS = 60_000;
/** Requests wait at most this long for the bucket. */
const WAIT_MS = 5000;
/** After a failure they do not wait for this time. */
const OUTAGE_MS = 10_000;
/** Of hosts that change one template at the same time. */
const ATTEMPTS = 8;

export type SharedTemplatesDeps = {
  readonly store: Pick<StoredTemplates, 'list' | 'read' | 'write'>;
  readonly records: TemplateRecords;
  readonly factsOf: (snapshotId: string) => SnapshotFacts;
  /** Whether a host marked the snapshot as deleted. */
  readonly isDeleted: (snapshotId: string, signal: AbortSignal) => Promise<boolean>;
  readonly events: Pick<LifecycleEvents, 'subscribe'>;
  readonly log: Logger;
  /** In tests; 0: each request reads what is there. */
  readonly maxAgeMs?: number;
  readonly maxTemplates?: number;
};

type Removal = {
  /** Of templates that other hosts have deleted. */
  readonly removeSnapshots: (ids: readonly string[]) => Promise<void>;
  /** Of a template, as far as the bucket names them no more. */
  readonly removeSuperseded: (templateId: string) => Promise<void>;
};

/** `template`: absent when it cannot be read; it is left as it is. */
type Known = { readonly etag: string; readonly template?: Template; readonly isOverLimit?: true };

export class SharedTemplates {
  readonly #deps: SharedTemplatesDeps;
  #known = new Map<string, Known>();
  /** Each publication begins with what the one before has written. */
  readonly #publications = new PQueue({ concurrency: 1 });
  /** Changed here, and not in the bucket as far as this host knows. */
  readonly #unwritten = new Set<string>();
  /** Publications that have not begun. */
  readonly #waiting = new Map<string, Promise<void>>();
  /** Snapshots of what the bucket has, as of the last publication of each template. */
  readonly #named = new Map<string, ReadonlySet<string>>();
  readonly #stopping = new AbortController();
  /** How long what was read is new enough. */
  #untilMs = Number.NEGATIVE_INFINITY;
  #failedAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;
  #poll: NodeJS.Timeout | undefined;
  #removal: Removal | undefined;

  constructor(deps: SharedTemplatesDeps) {
    this.#deps = deps;
    deps.records.shareWith((id) => this.share(id));
  }

  /** Begins to read what the others have written. */
  start(removal: Removal): void {
    const { events, records } = this.#deps;
    this.#removal = removal;
    events.subscribe((event) => {
      const stored = event.kind === 'snapshot-stored' ? records.templateOf(event.snapshot) : undefined;
      if (stored !== undefined) void this.share(stored.id);
    });
    void this.refresh();
    this.#poll = setInterval(() => void this.#check(), POLL_MS).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#poll);
    this.#stopping.abort(new Error('the daemon is stopping'));
    await Promise.all([this.#reading?.catch(() => undefined), this.#publications.onIdle()]);
  }

  /** Finds what the others have written, unless it was read just now. Waits for some seconds. Never rejects. */
  async refresh(): Promise<void> {
    const now = performance.now();
    if (now < this.#untilMs || now - this.#failedAt < OUTAGE_MS) return;
    this.#reading ??= this.#read()
      .catch((error: unknown) => this.#failed(error, 'cannot list the templates of the snapshot store'))
      .finally(() => {
        this.#reading = undefined;
      });
    await this.#waitFor(this.#reading);
  }

  /** Whether hosts may find a template with this snapshot in the bucket, as far as this host knows. */
  isNamed(id: string, snapshotId: string): boolean {
    return this.#named.get(id)?.has(snapshotId) ?? true;
  }

  /** Of a snapshot that is a build. */
  factsOf(snapshotId: string): SnapshotFacts {
    return this.#deps.factsOf(snapshotId);
  }

  /** Whether it has known all that the bucket has, since its start. */
  get hasRead(): boolean {
    return this.#untilMs > Number.NEGATIVE_INFINITY;
  }

  /** What it does not know may be in the bucket. E2bError 502 until that was read once. */
  assertRead(name: string): void {
    if (this.hasRead) return;
    const what = `the snapshot store does not answer, and may have the template ${name.slice(0, 200)}`;
    throw new E2bError(502, `${what}; try again`);
  }

  /** Writes a template that was changed here. Waits for some seconds; it is tried until it succeeds. Never rejects. */
  async share(id: string): Promise<void> {
    this.#unwritten.add(id);
    const published = this.#waiting.get(id) ?? this.#enqueue(id);
    if (performance.now() - this.#failedAt >= OUTAGE_MS) await this.#waitFor(published);
  }

  #enqueue(id: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    // It may begin at once.
    this.#waiting.set(id, promise);
    const publish = async (): Promise<void> => {
      // What changes from now on is written by another one.
      this.#waiting.delete(id);
      await this.#publish(id);
      if (!this.#waiting.has(id)) this.#unwritten.delete(id);
    };
    void this.#publications
      .add(publish)
      .catch((error: unknown) => this.#failed(error, 'cannot write a template to the snapshot store'))
      .finally(resolve);
    return promise;
  }

  async #waitFor(work: Promise<void>): Promise<void> {
    await Promise.race([work, sleep(WAIT_MS, undefined, { ref: false })]);
  }

  #failed(error: unknown, what: string): void {
    if (this.#stopping.signal.aborted) return;
    if (isAppError(error) && error.code === 'upstream') this.#failedAt = performance.now();
    this.#deps.log.warn({ reason: firstLine(error) }, what);
  }

  async #read(): Promise<void> {
    const { store, records, log } = this.#deps;
    const { signal } = this.#stopping;
    const startedAt = performance.now();
    const listed = new Map<string, string>();
    for await (const page of store.list(signal))
      for (const { id, etag } of page) if (listed.size < MAX_OBJECTS) listed.set(id, etag);
    const known = new Map<string, Known>();
    const { maxTemplates = MAX_TEMPLATES } = this.#deps;
    let templates = 0;
    const look = async ([id, etag]: [string, string], signal: AbortSignal): Promise<void> => {
      const before = this.#known.get(id);
      const isKnown = before?.etag === etag && (!before.isOverLimit || templates >= maxTemplates);
      const now = isKnown ? before : await this.#describe(id, etag, signal);
      if (now === undefined) return;
      const isThere = now.template !== undefined && now.template.deletedAtMs === undefined;
      known.set(id, isThere && ++templates > maxTemplates ? { etag, isOverLimit: true } : now);
    };
    await forEachAtOnce(listed, CONCURRENCY, look, signal);
    if (known.values().some(({ isOverLimit }) => isOverLimit) || listed.size === MAX_OBJECTS)
      log.warn({ max: maxTemplates }, 'the snapshot store has more templates than are read');
    const isFirst = !this.hasRead;
    const changed = [...known].filter(([id, each]) => each !== this.#known.get(id));
    const lost = [...this.#known.keys()].filter((id) => !known.has(id));
    for (const [, { template }] of changed) if (template !== undefined) await this.#absorb(template);
    this.#known = known;
    const now = performance.now();
    const ageMs = this.#deps.maxAgeMs ?? Math.max(MAX_AGE_MS, (now - startedAt) * AGE_BY_DURATION);
    this.#untilMs = now + ageMs;
    const all = isFirst ? records.stored().map(({ id }) => id) : changed.map(([id]) => id);
    const superseded = new Set(isFirst ? records.superseded().map(({ template }) => template) : []);
    for (const id of new Set([...all, ...lost, ...superseded, ...this.#unwritten]))
      if (superseded.has(id) || this.#differs(id)) void this.share(id);
      else this.#unwritten.delete(id);
  }

  /** Undefined: it was removed meanwhile. */
  async #describe(id: string, etag: string, signal: AbortSignal): Promise<Known | undefined> {
    try {
      const found = await this.#deps.store.read(id, signal);
      return found && { etag, template: found.template as Template };
    } catch (error) {
      if (!isAppError(error) || error.code !== 'internal') throw error;
      this.#deps.log.error(
        { template: id, reason: firstLine(error) },
        'a template of the store is not listed',
      );
      return { etag };
    }
  }

  async #absorb(template: Template): Promise<void> {
    const { records, factsOf } = this.#deps;
    const { id, deletedAtMs } = template;
    // What this host has deleted goes as its client.
    const isNews = deletedAtMs !== undefined && records.readStored(id)?.deletedAtMs === undefined;
    // Another host may have given a tag to what was not there.
    this.#named.delete(id);
    const deleted = await records.absorb(template);
    if (isNews) void this.#removal?.removeSuperseded(id);
    // The host that deleted it may not know all; what is not here goes from the bucket.
    const here = deleted.filter((id) => !['remote', undefined].includes(factsOf(id).storage));
    if (here.length > 0) void this.#removal?.removeSnapshots(here);
  }

  #differs(id: string): boolean {
    const known = this.#known.get(id);
    if (known !== undefined && known.template === undefined) return false;
    const own = this.#deps.records.readStored(id);
    return own !== undefined && toNext(own, known?.template, this.#deps) !== undefined;
  }

  async #publish(id: string): Promise<void> {
    const { store, records, log } = this.#deps;
    const { signal } = this.#stopping;
    for (let n = 0; n < ATTEMPTS; n++) {
      const found = await store.read(id, signal);
      const there = found?.template as Template | undefined;
      if (there !== undefined) await this.#absorb(there);
      const own = records.readStored(id);
      const next = own && toNext(own, there, this.#deps);
      if (next === undefined) return this.#note(id, there);
      const isWritten = await store.write(next, found?.etag, signal).catch((error: unknown) => {
        if (!isAppError(error) || error.code !== 'too_large') throw error;
        log.warn({ template: id, reason: firstLine(error) }, 'a template stays on this host alone');
        return undefined;
      });
      if (isWritten === undefined) return;
      // What is deleted everywhere is forgotten here.
      if (isWritten && next.deletedAtMs !== undefined) await this.#absorb(next);
      if (isWritten) return this.#note(id, next);
    }
    throw new Error(`${id} changes too often`);
  }

  #note(id: string, there: Template | undefined): void {
    this.#named.delete(id);
    if (there?.deletedAtMs !== undefined || this.#deps.records.superseded(id).length === 0) return;
    this.#named.set(id, new Set(there?.builds.map(({ snapshotId }) => snapshotId)));
    void this.#removal?.removeSuperseded(id);
  }

  /** Also snapshots that were deleted by hosts that know no templates, or just before the end of a daemon. */
  async #check(): Promise<void> {
    const { records, factsOf, isDeleted } = this.#deps;
    await this.refresh();
    try {
      for (const { builds } of records.stored())
        for (const { snapshotId } of builds)
          if (
            factsOf(snapshotId).storage === undefined &&
            (await isDeleted(snapshotId, this.#stopping.signal))
          )
            await records.forgetSnapshot(snapshotId);
    } catch (error) {
      this.#failed(error, 'cannot look for deleted snapshots of templates');
    }
  }
}

/** What the bucket should have instead; undefined: it is as it should be. */
function toNext(
  own: Template,
  there: Template | undefined,
  { factsOf }: Pick<SharedTemplatesDeps, 'factsOf'>,
): Template | undefined {
  if (there?.deletedAtMs !== undefined) return undefined;
  if (own.deletedAtMs !== undefined) return own;
  const known = new Set(there?.builds.map(({ id }) => id));
  const shown = toShareable(own, ({ id, snapshotId }) => {
    const { storage } = factsOf(snapshotId);
    return known.has(id) || storage === 'stored' || storage === 'remote';
  });
  if (there === undefined) return shown.builds.length > 0 ? shown : undefined;
  // Of one that both have, all hosts take what is there.
  const next = mergeTemplates(shown, there);
  return areEqual(next, there) ? undefined : next;
}
