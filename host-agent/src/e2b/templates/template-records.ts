// Templates that clients have built. Each belongs to the tenant of the key that built it first; a name is one template
// of a tenant. A build is a snapshot, and has tags.
import { randomBytes } from 'node:crypto';
import { canSee, type Owner, ownerOf, type Principal, tenantOf } from '../../keys/index.ts';
import type { Store, Table } from '../../store/store.ts';
import { E2bError } from '../errors.ts';
import { DEFAULT_TAG, readName } from './template-name.ts';

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

export class TemplateRecords {
  readonly #table: Table<TemplateRecord>;
  readonly #all: Map<string, Template>;

  constructor(store: Store) {
    this.#table = store.table('e2b_templates');
    this.#all = new Map(this.#table.all().map(({ id, record }) => [id, { ...record, id }]));
  }

  /** Those that a client sees, oldest first. */
  list(principal: Principal): readonly Template[] {
    return [...this.#all.values()]
      .filter(({ owner }) => canSee(principal, owner))
      .sort((a, b) => a.createdAtMs - b.createdAtMs);
  }

  /** By id or name; a name of its own tenant first. */
  find(principal: Principal, idOrName: string): Template | undefined {
    const byId = this.#all.get(idOrName);
    if (byId !== undefined && canSee(principal, byId.owner)) return byId;
    let other: Template | undefined;
    for (const template of this.#all.values()) {
      if (template.name !== idOrName || !canSee(principal, template.owner)) continue;
      if (template.owner?.tenant === tenantOf(principal)) return template;
      other ??= template;
    }
    return other;
  }

  /** E2bError 404. */
  get(principal: Principal, idOrName: string): Template {
    const found = this.find(principal, idOrName);
    if (found !== undefined) return found;
    throw new E2bError(404, `template '${idOrName.slice(0, 200)}' not found`);
  }

  /** A build by `id`, `name` or `name:tag`. Undefined for the name of no template; E2bError 404 for an unknown tag. */
  findBuild(principal: Principal, text: string): TemplateBuild | undefined {
    const wanted = readName(text);
    const template = wanted && this.find(principal, wanted.name);
    if (wanted === undefined || template === undefined) return undefined;
    const tag = wanted.tag ?? DEFAULT_TAG;
    const build = template.builds.find(({ tags }) => tags.includes(tag));
    if (build !== undefined) return build;
    const tags = template.builds.flatMap((each) => each.tags);
    const known = tags.length === 0 ? 'it has no build' : `it has ${tags.slice(0, 8).join(', ')}`;
    throw new E2bError(404, `template '${template.name}' has no build with the tag ${tag}: ${known}`);
  }

  /** The template of that name in the client's own tenant, made if there is none. E2bError 403. */
  async ensure(principal: Principal, name: string): Promise<Template> {
    const tenant = tenantOf(principal);
    const own = [...this.#all.values()].filter(({ owner }) => owner?.tenant === tenant);
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
    await this.#put(template);
    return template;
  }

  /**
   * Gives a build its tags, which others lose. Resolves with the snapshots of those that have none left. E2bError 404
   * when the template was deleted, 403.
   */
  async addBuild(id: string, build: TemplateBuild): Promise<readonly string[]> {
    const template = this.#all.get(id);
    if (template === undefined) throw new E2bError(404, 'the template was deleted while it was built');
    return await this.#retag(
      template,
      [...template.builds.filter((each) => each.id !== build.id), build],
      build.tags,
    );
  }

  /** As `addBuild`, for a build that exists. */
  async addTags(template: Template, buildId: string, tags: readonly string[]): Promise<readonly string[]> {
    const builds = template.builds.map((each) =>
      each.id === buildId ? { ...each, tags: [...new Set([...each.tags, ...tags])] } : each,
    );
    return await this.#retag(template, builds, tags, buildId);
  }

  /** Tags that it does not have are passed over. Builds without tags go. */
  async removeTags(template: Template, tags: readonly string[]): Promise<readonly string[]> {
    const builds = template.builds.map((each) => ({
      ...each,
      tags: each.tags.filter((tag) => !tags.includes(tag)),
    }));
    return await this.#keepTagged(template, builds);
  }

  async delete(id: string): Promise<void> {
    this.#all.delete(id);
    await this.#table.remove(id);
  }

  /** A snapshot was deleted, and its build with it. */
  async forgetSnapshot(snapshotId: string): Promise<void> {
    for (const template of this.#all.values()) {
      const builds = template.builds.filter((each) => each.snapshotId !== snapshotId);
      if (builds.length < template.builds.length) await this.#put({ ...template, builds });
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

  /** What copies of a snapshot begin with, if it is a build. */
  defaultsOf(snapshotId: string): Defaults | undefined {
    for (const { builds } of this.#all.values()) {
      const build = builds.find((each) => each.snapshotId === snapshotId);
      if (build !== undefined) return build.defaults;
    }
    return undefined;
  }

  async #retag(
    template: Template,
    builds: readonly TemplateBuild[],
    tags: readonly string[],
    holder = builds.at(-1)?.id,
  ): Promise<readonly string[]> {
    const retagged = builds.map((each) =>
      each.id === holder ? each : { ...each, tags: each.tags.filter((tag) => !tags.includes(tag)) },
    );
    if (retagged.flatMap((each) => each.tags).length > MAX_TAGS)
      throw new E2bError(403, `a template has at most ${MAX_TAGS} tags; remove some`);
    return await this.#keepTagged(template, retagged);
  }

  async #keepTagged(template: Template, builds: readonly TemplateBuild[]): Promise<readonly string[]> {
    const kept = builds.filter(({ tags }) => tags.length > 0);
    await this.#put({ ...template, builds: kept });
    return builds.filter(({ tags }) => tags.length === 0).map(({ snapshotId }) => snapshotId);
  }

  async #put({ id, ...record }: Template): Promise<void> {
    this.#all.set(id, { ...record, id });
    await this.#table.put(id, record);
  }
}

function newTemplateId(): string {
  return `tpl${randomBytes(12).toString('hex')}`;
}
