// The sandboxes of builds: clients do not see them, and the next daemon removes those that this one leaves.
import type { Logger } from 'pino';
import { OPERATOR } from '../../keys/index.ts';
import type { Table } from '../../store/store.ts';
import type { Requests, Rest } from '../rest.ts';
import type { SharedTemplates } from './shared-templates.ts';
import type { TemplateRecords } from './template-records.ts';

const OWN_ADDRESS = 'local';
const NAME_PREFIX = 'e2b-build-';

export type BuildSandboxesOptions = {
  /** Names and ids of those that exist. */
  readonly table: Table<object>;
  readonly records: TemplateRecords;
  readonly shared: Pick<SharedTemplates, 'isNamed'> | undefined;
  readonly log: Logger;
};

export class BuildSandboxes {
  readonly #options: BuildSandboxesOptions;
  readonly #hidden: Set<string>;
  #rest: Rest | undefined;

  constructor(options: BuildSandboxesOptions) {
    this.#options = options;
    this.#hidden = new Set(options.table.all().map(({ id }) => id));
  }

  /** Removes what an earlier daemon left: sandboxes, their snapshots without a template, templates without any. */
  async start(rest: Rest): Promise<void> {
    this.#rest = rest;
    const requests = this.#asOperator();
    const { snapshots } = await requests.call('listSnapshots');
    await this.#options.records.sweep(new Set(snapshots.map(({ id }) => id)));
    const templates = new Set(this.#options.records.superseded().map(({ template }) => template));
    for (const template of templates) await this.removeSuperseded(template);
    const left = [...this.#hidden];
    if (left.length === 0) return;
    // One that was just made is known by its name only.
    const { sandboxes } = await requests.call('listSandboxes');
    const named = sandboxes.filter(({ name }) => name !== undefined && this.#hidden.has(name));
    const ids = new Set([...left.filter((id) => !id.startsWith(NAME_PREFIX)), ...named.map(({ id }) => id)]);
    for (const id of ids) {
      await this.removeSnapshotsOf(id);
      await this.remove(id);
    }
    for (const name of left) await this.#forget(name);
  }

  isHidden(id: string): boolean {
    return this.#hidden.has(id);
  }

  /**
   * Makes one under a name that is stored before, so that it is found again whenever the daemon ends. Removes it, and
   * the snapshots of it that are not templates, when the work with it has failed.
   */
  async using(
    buildId: string,
    make: (name: string) => Promise<string>,
    work: (id: string) => Promise<void>,
  ): Promise<void> {
    const name = `${NAME_PREFIX}${buildId}`;
    await this.#remember(name);
    let made: string | undefined;
    try {
      made = await make(name);
      await this.#remember(made);
      await work(made);
    } catch (error) {
      if (made !== undefined) await this.removeSnapshotsOf(made);
      throw error;
    } finally {
      if (made !== undefined) await this.remove(made);
      await this.#forget(name);
    }
  }

  /** As the operator: a key that may build need not be able to delete. Never rejects. */
  async remove(id: string): Promise<void> {
    try {
      await this.#asOperator().call('deleteSandbox', { params: { id } });
    } catch (error) {
      // Its lifetime ends it.
      if ((error as { readonly status?: number }).status !== 404) {
        this.#options.log.warn({ err: error, sandbox: id }, 'cannot delete the sandbox of a build');
        return;
      }
    }
    await this.#forget(id);
  }

  /** Never rejects. */
  async removeSnapshotsOf(id: string): Promise<void> {
    try {
      const { snapshots } = await this.#asOperator().call('listSnapshots');
      const orphans = snapshots.filter(
        (each) => each.source_id === id && this.#options.records.buildOf(each.id) === undefined,
      );
      await this.deleteSnapshots(orphans.map((each) => each.id));
    } catch (err) {
      this.#options.log.warn({ err, sandbox: id }, 'cannot list the snapshots of a build');
    }
  }

  /** Those that other hosts could still create from wait until the store names others. Never rejects. */
  async removeSuperseded(templateId: string): Promise<void> {
    const { records, shared, log } = this.#options;
    try {
      const record = records.readStored(templateId);
      const isShared = record !== undefined && record.deletedAtMs === undefined && shared !== undefined;
      for (const { snapshotId } of records.superseded(templateId)) {
        if (isShared && shared.isNamed(templateId, snapshotId)) continue;
        const isBuild = records.buildOf(snapshotId) !== undefined;
        if (isBuild || (await this.#deleteSnapshot(snapshotId))) await records.forgetSuperseded(snapshotId);
      }
    } catch (err) {
      log.warn({ err, template: templateId }, 'cannot delete the earlier builds of a template');
    }
  }

  /** Never rejects. */
  async deleteSnapshots(ids: readonly string[]): Promise<void> {
    await Promise.all(ids.map((id) => this.#deleteSnapshot(id)));
  }

  /** False: it may be there. */
  async #deleteSnapshot(id: string): Promise<boolean> {
    try {
      await this.#asOperator().call('deleteSnapshot', { params: { id } });
    } catch (err) {
      if ((err as { readonly status?: number }).status === 404) return true;
      this.#options.log.warn({ err }, 'cannot delete the snapshot of a template');
      return false;
    }
    return true;
  }

  async #remember(id: string): Promise<void> {
    this.#hidden.add(id);
    await this.#options.table.put(id, {});
  }

  async #forget(id: string): Promise<void> {
    this.#hidden.delete(id);
    await this.#options.table
      .remove(id)
      .catch((err: unknown) => this.#options.log.warn({ err }, 'cannot remove the record of a build'));
  }

  #asOperator(): Requests {
    if (this.#rest === undefined) throw new Error('no build can run yet');
    return this.#rest.as({ principal: OPERATOR, address: OWN_ADDRESS });
  }
}
