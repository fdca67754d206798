// Templates that clients have built. Each belongs to the tenant of the key that built it first; a name is one template
// of a tenant. A build is a snapshot, and has tags.
import { randomBytes } from 'node:crypto';
import PQueue from 'p-queue';
import { type Owner, ownerOf, type Principal, tenantOf } from '../../keys/index.ts';
import type { IsVisible } from '../../sandboxes/interface.ts';
import type { Store, Table } from '../../store/store.ts';
import { E2bError } from '../errors.ts';

/** What copies of a build begin with. */
export type Defaults = {
  /** Absent: the user `user`, or root where the guest has none. */
  readonly user?: string;
  /** Absent: the home of the user. */
  readonly workdir?: string;
  readonly env: Readonly<Record<string, string>>;
};

export type TemplateBuild = {
  readonly id: string;
  readonly snapshotId: string;
  readonly createdAtMs: number;
  readonly tags: readonly string[];
  readonly vcpus: number;
  readonly memoryMib: number;
  readonly diskBytes: number;
  readonly defaults: Defaults;
};

export type TemplateRecord = {
  readonly name: string;
  readonly owner?: Owner;
  readonly createdAtMs: number;
  readonly builds: readonly TemplateBuild[];
};

export type Template = TemplateRecord & { readonly id: string };

const MAX_TEMPLATES_OF_TENANT = 1000;
const MAX_TAGS = 100;

/** What exists for a client, by its owner. */
type VisibleTo = (principal: Principal) => IsVisible;

export class TemplateRecords {
  readonly #table: Table<TemplateRecord>;
  /** Also those that have no build yet, which are not stored. */
  readonly #all: Map<string, Template>;
  /** What copies of other snapshots begin with. */
  readonly #kept: Table<Defaults>;
  /** One at a time: each begins with what the one before has stored. */
  readonly #changes = new PQueue({ concurrency: 1 });

  readonly #visibleTo: VisibleTo;

  constructor(store: Store, visibleTo: VisibleTo) {
    this.#visibleTo = visibleTo;
    this.#table = store.table('e2b_templates');
    this.#kept = store.table('e2b_snapshots');
    this.#all = new Map(this.#table.all().map(({ id, record }) => [id, { ...record, id }]));
  }

  /** Removes builds whose snapshot is not among these, and templates without a build. */
  async sweep(snapshots: ReadonlySet<string>): Promise<void> {
    for (const { id, builds } of [...this.#all.values()]) {
      for (const { snapshotId } of builds)
        if (!snapshots.has(snapshotId)) await this.forgetSnapshot(snapshotId);
      if (this.#all.get(id)?.builds.length === 0) await this.delete(id);
    }
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
    return this.#own(principal).find(({ name }) => name === idOrName);
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
    const build = template.builds.find(({ tags }) => tags.includes(tag));
    if (build !== undefined) return build;
    const tags = template.builds.flatMap((each) => each.tags);
    const known = tags.slice(0, 8).join(', ');
    throw new E2bError(404, `template '${template.name}' has no build with the tag ${tag}: it has ${known}`);
  }

  /** The template of that name in the client's own tenant; a new one is stored with its first build. E2bError 403. */
  plan(principal: Principal, name: string): Template {
    const own = this.#own(principal);
    const known = own.find((each) => each.name === name);
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
   * Gives a build its tags, which others lose. Resolves with the snapshots of those that have none left. E2bError 404
   * when the template was deleted, 403.
   */
  async addBuild(id: string, build: TemplateBuild): Promise<readonly string[]> {
    return await this.#change(id, ({ builds }) =>
      retag([...builds.filter((each) => each.id !== build.id), build], build.tags, build.id),
    );
  }

  /** As `addBuild`, for a build that exists. */
  async addTags(id: string, buildId: string, tags: readonly string[]): Promise<readonly string[]> {
    return await this.#change(id, ({ builds }) => {
      const tagged = builds.map((each) =>
        each.id === buildId ? { ...each, tags: [...new Set([...each.tags, ...tags])] } : each,
      );
      return retag(tagged, tags, buildId);
    });
  }

  /** Tags that it does not have are passed over. Builds without tags go. */
  async removeTags(id: string, tags: readonly string[]): Promise<readonly string[]> {
    return await this.#change(id, ({ builds }) =>
      builds.map((each) => ({ ...each, tags: each.tags.filter((tag) => !tags.includes(tag)) })),
    );
  }

  /** No build is added to it any more. */
  async delete(id: string): Promise<void> {
    await this.#changes.add(async () => {
      await this.#table.remove(id);
      this.#all.delete(id);
    });
  }

  /** For a snapshot that is not a build. */
  async keepDefaults(snapshotId: string, defaults: Defaults): Promise<void> {
    await this.#kept.put(snapshotId, defaults);
  }

  /** A snapshot was deleted, and its build with it. */
  async forgetSnapshot(snapshotId: string): Promise<void> {
    if (this.#kept.get(snapshotId) !== undefined) await this.#kept.remove(snapshotId);
    for (const { id, builds } of [...this.#all.values()])
      if (builds.some((each) => each.snapshotId === snapshotId))
        await this.#changes.add(async () => {
          const template = this.#all.get(id);
          if (template === undefined) return;
          await this.#put({
            ...template,
            builds: template.builds.filter((each) => each.snapshotId !== snapshotId),
          });
        });
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

  #own(principal: Principal): readonly Template[] {
    const tenant = tenantOf(principal);
    return [...this.#all.values()].filter(({ owner }) => owner?.tenant === tenant);
  }

  /** Builds without tags go. Resolves with their snapshots. */
  async #change(
    id: string,
    change: (template: Template) => readonly TemplateBuild[],
  ): Promise<readonly string[]> {
    return await this.#changes.add(async () => {
      const template = this.#all.get(id);
      if (template === undefined) throw new E2bError(404, 'the template was deleted in the meantime');
      const builds = change(template);
      await this.#put({ ...template, builds: builds.filter(({ tags }) => tags.length > 0) });
      return builds.filter(({ tags }) => tags.length === 0).map(({ snapshotId }) => snapshotId);
    });
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

// Names of templates: `name` or `name:tag`.

type TemplateName = { readonly name: string; readonly tag: string | undefined };

/** The tag of a build that is given none. */
export const DEFAULT_TAG = 'default';
const NAME = /^[a-z0-9](?:[a-z0-9._-]{0,126}[a-z0-9])?$/;
const TAG = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** Undefined for text of another form. */
export function readName(text: string): TemplateName | undefined {
  const [name = '', tag, more] = text.split(':', 3);
  if (!NAME.test(name) || more !== undefined || (tag !== undefined && !TAG.test(tag))) return undefined;
  return { name, tag };
}

/** E2bError 400. */
export function parseName(text: string): TemplateName {
  const read = readName(text);
  if (read !== undefined) return read;
  throw new E2bError(
    400,
    `${JSON.stringify(text.slice(0, 200))} is not the name of a template: it has at most 128 of a-z, 0-9, ., _ and -, ` +
      'and may have a tag behind a colon',
  );
}

/** E2bError 400. */
export function parseTag(text: string): string {
  if (TAG.test(text)) return text;
  throw new E2bError(
    400,
    `${JSON.stringify(text.slice(0, 200))} is not a tag: it has at most 128 letters, digits, ., _ and -`,
  );
}
