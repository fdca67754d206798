// Templates that clients have built. Each belongs to the tenant of the key that built it first; a name is one template
// of a tenant. A build is a snapshot, and has tags.
import { randomBytes } from 'node:crypto';
import PQueue from 'p-queue';
import { ownerOf, type Principal, tenantOf } from '../../keys/index.ts';
import type { IsVisible } from '../../sandboxes/interface.ts';
import type { Store, Table } from '../../store/store.ts';
import { E2bError } from '../errors.ts';
import { areEqual, byNewestBuild, mergeTemplates, toTagTimes } from './merge-templates.ts';
import type { Defaults, Template, TemplateBuild, TemplateRecord } from './template.ts';
import { DEFAULT_TAG, readName } from './template-name.ts';

/** Tells other hosts of a template that was changed here. Never rejects. */
type Share = (id: string) => Promise<void>;

const MAX_TEMPLATES_OF_TENANT = 1000;
const MAX_TAGS = 100;

/** What exists for a client, by its owner. */
type VisibleTo = (principal: Principal) => IsVisible;

export class TemplateRecords {
  readonly #table: Table<TemplateRecord>;
  /** Also those that have no build yet, which are not stored. */
  readonly #all: Map<string, Template>;
  /** Snapshots that are no builds any more, and their templates: they are deleted once no host needs them. */
  readonly #superseded: Table<{ readonly template: string }>;
  /** What copies of other snapshots begin with. */
  readonly #kept: Table<Defaults>;
  /** One at a time: each begins with what the one before has stored. */
  readonly #changes = new PQueue({ concurrency: 1 });

  readonly #visibleTo: VisibleTo;
  /** Undefined where no other host has them. */
  #share: Share | undefined;

  constructor(store: Store, visibleTo: VisibleTo) {
    this.#visibleTo = visibleTo;
    this.#table = store.table('e2b_templates');
    this.#kept = store.table('e2b_snapshots');
    this.#superseded = store.table('e2b_superseded');
    const there = this.stored().filter(({ deletedAtMs }) => deletedAtMs === undefined);
    this.#all = new Map(there.map((each) => [each.id, each]));
  }

  /** Call before any change. */
  shareWith(share: Share): void {
    this.#share = share;
  }

  /** All that is on disk, also deleted ones that other hosts do not know of yet. */
  stored(): readonly Template[] {
    return this.#table.all().map(({ id, record }) => ({ ...record, id }));
  }

  readStored(id: string): Template | undefined {
    const record = this.#table.get(id);
    return record && { ...record, id };
  }

  /** Removes builds whose snapshot is not among these, and templates without a build. */
  async sweep(snapshots: ReadonlySet<string>): Promise<void> {
    for (const { id, builds } of [...this.#all.values()]) {
      // Other hosts may have it.
      if (this.#share === undefined)
        for (const { snapshotId } of builds)
          if (!snapshots.has(snapshotId)) await this.forgetSnapshot(snapshotId);
      if (this.#all.get(id)?.builds.length === 0) await this.#remove(id);
    }
    if (this.#share === undefined)
      for (const { id, deletedAtMs } of this.stored()) if (deletedAtMs !== undefined) await this.#remove(id);
    for (const { id } of this.#kept.all()) if (!snapshots.has(id)) await this.#kept.remove(id);
  }

  /** Those that a client sees, oldest first. */
  list(principal: Principal): readonly Template[] {
    const isVisible = this.#visibleTo(principal);
    return [...this.#all.values()]
      .filter(({ owner }) => isVisible(owner))
      .sort((a, b) => a.createdAtMs - b.createdAtMs);
  }

  /** By id, or by the name of one of the client's own tenant: others could give theirs any name. */
  find(principal: Principal, idOrName: string): Template | undefined {
    const byId = this.#all.get(idOrName);
    if (byId !== undefined && this.#visibleTo(principal)(byId.owner)) return byId;
    return this.#named(principal, idOrName)[0];
  }

  /** E2bError 404. */
  get(principal: Principal, idOrName: string): Template {
    const found = this.find(principal, idOrName);
    if (found !== undefined) return found;
    throw new E2bError(404, `template '${idOrName.slice(0, 200)}' not found`);
  }

  /**
   * A build by `id`, `name` or `name:tag`. Undefined for the name of no template that has a build; E2bError 404 for an
   * unknown tag.
   */
  findBuild(principal: Principal, text: string): TemplateBuild | undefined {
    const wanted = readName(text);
    const template = wanted && this.find(principal, wanted.name);
    if (wanted === undefined || template === undefined || template.builds.length === 0) return undefined;
    const tag = wanted.tag ?? DEFAULT_TAG;
    // Two hosts may each have made one of that name.
    const all = [template, ...this.#named(principal, wanted.name)].flatMap(({ builds }) => builds);
    const tagged = all.filter(({ tags }) => tags.includes(tag));
    const [build] = tagged.sort((a, b) => b.createdAtMs - a.createdAtMs || (a.id < b.id ? -1 : 1));
    if (build !== undefined) return build;
    const tags = template.builds.flatMap((each) => each.tags);
    const known = tags.slice(0, 8).join(', ');
    throw new E2bError(404, `template '${template.name}' has no build with the tag ${tag}: it has ${known}`);
  }

  /** The template of that name in the client's own tenant; a new one is stored with its first build. E2bError 403. */
  plan(principal: Principal, name: string): Template {
    const own = this.#own(principal);
    const [known] = this.#named(principal, name);
    if (known !== undefined) return known;
    if (own.length >= MAX_TEMPLATES_OF_TENANT)
      throw new E2bError(403, `there are ${MAX_TEMPLATES_OF_TENANT} templates already; delete some`);
    const owner = ownerOf(principal);
    const template = {
      id: newTemplateId(),
      name,
      ...(owner && { owner }),
      createdAtMs: Date.now(),
      builds: [],
    };
    this.#all.set(template.id, template);
    return template;
  }

  /** A template that was planned, unless it has a build. */
  drop(id: string): void {
    if (this.#all.get(id)?.builds.length === 0 && this.#table.get(id) === undefined) this.#all.delete(id);
  }

  /**
   * Gives a build its tags, which others lose. Those that have none left are superseded if the client may delete them.
   * E2bError 404 when the template was deleted, 403.
   */
  async addBuild(id: string, build: TemplateBuild, mayDelete: boolean): Promise<void> {
    const add = ({ builds }: Template) =>
      retag([...builds.filter((each) => each.id !== build.id), build], build.tags, build.id);
    await this.#change(id, add, { mayDelete, atMs: build.createdAtMs });
  }

  /** As `addBuild`, for a build that exists; E2bError 404 also when that was deleted. */
  async addTags(id: string, buildId: string, tags: readonly string[], mayDelete: boolean): Promise<void> {
    const add = ({ builds }: Template) => {
      if (!builds.some((each) => each.id === buildId))
        throw new E2bError(404, 'the build was deleted in the meantime');
      const tagged = builds.map((each) =>
        each.id === buildId ? { ...each, tags: [...new Set([...each.tags, ...tags])] } : each,
      );
      return retag(tagged, tags, buildId);
    };
    await this.#change(id, add, { mayDelete });
  }

  /** Tags that it does not have are passed over. Builds without tags go. */
  async removeTags(id: string, tags: readonly string[], mayDelete: boolean): Promise<void> {
    const remove = ({ builds }: Template) =>
      builds.map((each) => ({ ...each, tags: each.tags.filter((tag) => !tags.includes(tag)) }));
    await this.#change(id, remove, { mayDelete });
  }

  /** Of one template, or of all. */
  superseded(template?: string): readonly { readonly template: string; readonly snapshotId: string }[] {
    const all = this.#superseded.all().map(({ id, record }) => ({ ...record, snapshotId: id }));
    return all.filter((each) => template === undefined || each.template === template);
  }

  async forgetSuperseded(snapshotId: string): Promise<void> {
    await this.#superseded.remove(snapshotId);
  }

  /** No build is added to it any more, on this host or another. Its snapshots are superseded. */
  async delete(id: string): Promise<void> {
    await this.#supersede(id, this.#all.get(id)?.builds ?? []);
    if (this.#share === undefined || this.#table.get(id) === undefined) return await this.#remove(id);
    await this.#changes.add(async () => {
      const { name = '', owner, createdAtMs = 0 } = this.#all.get(id) ?? {};
      const deleted = { name, ...(owner && { owner }), createdAtMs, builds: [], deletedAtMs: Date.now() };
      await this.#table.put(id, deleted);
      this.#all.delete(id);
    });
    await this.#share(id);
  }

  /** Here alone. */
  async #remove(id: string): Promise<void> {
    await this.#changes.add(async () => {
      await this.#table.remove(id);
      this.#all.delete(id);
    });
  }

  /** What other hosts know of it. Resolves with the snapshots of one that they have deleted. */
  async absorb(shared: Template): Promise<readonly string[]> {
    return await this.#changes.add(async () => {
      const { id } = shared;
      const own = this.#all.get(id) ?? this.readStored(id);
      if (shared.deletedAtMs !== undefined) {
        if (own !== undefined) await this.#table.remove(id);
        this.#all.delete(id);
        return own?.builds.map(({ snapshotId }) => snapshotId) ?? [];
      }
      if (own?.deletedAtMs === undefined) {
        const merged = own === undefined ? shared : mergeTemplates(own, shared);
        if ((own !== undefined || merged.builds.length > 0) && !areEqual(own, merged))
          await this.#put(merged);
      }
      return [];
    });
  }

  /** For a snapshot that is not a build. */
  async keepDefaults(snapshotId: string, defaults: Defaults): Promise<void> {
    await this.#kept.put(snapshotId, defaults);
  }

  /** A snapshot was deleted, and its build with it. */
  async forgetSnapshot(snapshotId: string): Promise<void> {
    if (this.#kept.get(snapshotId) !== undefined) await this.#kept.remove(snapshotId);
    const templates = [...this.#all.values()].filter(({ builds }) =>
      builds.some((each) => each.snapshotId === snapshotId),
    );
    for (const { id } of templates) {
      const without = ({ builds }: Template) => builds.filter((each) => each.snapshotId !== snapshotId);
      // A build that got one of its tags meanwhile, on another host, keeps it.
      await this.#change(id, without, { mayDelete: false, atMs: 0 }).catch((error: unknown) => {
        if (!(error instanceof E2bError)) throw error;
      });
    }
  }

  /** Of a snapshot that is a build. */
  namesOf(principal: Principal, snapshotId: string): readonly string[] {
    const template = this.list(principal).find(({ builds }) =>
      builds.some((each) => each.snapshotId === snapshotId),
    );
    const build = template?.builds.find((each) => each.snapshotId === snapshotId);
    if (template === undefined || build === undefined) return [];
    return build.tags.map((tag) => (tag === DEFAULT_TAG ? template.name : `${template.name}:${tag}`));
  }

  /** What copies of a snapshot begin with. */
  defaultsOf(snapshotId: string): Defaults | undefined {
    return this.buildOf(snapshotId)?.defaults ?? this.#kept.get(snapshotId);
  }

  buildOf(snapshotId: string): TemplateBuild | undefined {
    for (const { builds } of this.#all.values()) {
      const build = builds.find((each) => each.snapshotId === snapshotId);
      if (build !== undefined) return build;
    }
    return undefined;
  }

  /** Further ones of its tenant with its name: two hosts may each have made one, and a tag is of one build. */
  namesakesOf({ id, name, owner }: Template): readonly Template[] {
    return [...this.#all.values()].filter(
      (each) => each.id !== id && each.name === name && each.owner?.tenant === owner?.tenant,
    );
  }

  /** The template that has a snapshot. */
  templateOf(snapshotId: string): Template | undefined {
    return [...this.#all.values()].find(({ builds }) =>
      builds.some((each) => each.snapshotId === snapshotId),
    );
  }

  /** Of the client's own tenant, the one whose name counts first. */
  #named(principal: Principal, name: string): readonly Template[] {
    return this.#own(principal)
      .filter((each) => each.name === name)
      .sort(byNewestBuild);
  }

  #own(principal: Principal): readonly Template[] {
    const tenant = tenantOf(principal);
    return [...this.#all.values()].filter(({ owner }) => owner?.tenant === tenant);
  }

  /** Builds without tags go. */
  async #change(
    id: string,
    change: (template: Template) => readonly TemplateBuild[],
    { mayDelete, atMs = Date.now() }: { readonly mayDelete: boolean; readonly atMs?: number },
  ): Promise<void> {
    await this.#changes.add(async () => {
      const template = this.#all.get(id);
      if (template === undefined) throw new E2bError(404, 'the template was deleted in the meantime');
      const all = change(template);
      const builds = all.filter(({ tags }) => tags.length > 0);
      // First: a daemon that ends now leaves none.
      if (mayDelete)
        await this.#supersede(
          id,
          all.filter(({ tags }) => tags.length === 0),
        );
      await this.#put({ ...template, builds, tagTimes: toTagTimes(template, builds, atMs) });
    });
    await this.#share?.(id);
  }

  async #supersede(template: string, builds: readonly TemplateBuild[]): Promise<void> {
    for (const { snapshotId } of builds) await this.#superseded.put(snapshotId, { template });
  }

  async #put({ id, ...record }: Template): Promise<void> {
    await this.#table.put(id, record);
    this.#all.set(id, { ...record, id });
  }
}

/** Takes the tags from all builds but one. E2bError 403. */
function retag(
  builds: readonly TemplateBuild[],
  tags: readonly string[],
  holder: string,
): readonly TemplateBuild[] {
  const retagged = builds.map((each) =>
    each.id === holder ? each : { ...each, tags: each.tags.filter((tag) => !tags.includes(tag)) },
  );
  if (retagged.flatMap((each) => each.tags).length > MAX_TAGS)
    throw new E2bError(403, `a template has at most ${MAX_TAGS} tags; remove some`);
  return retagged;
}

function newTemplateId(): string {
  return `tpl${randomBytes(12).toString('hex')}`;
}
