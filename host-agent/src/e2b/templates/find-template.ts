// What a create or a build begins with, by the name of a template: what a client has built, a snapshot, what the
// operator has named, a profile, or a container image.
import { NotFoundError } from '@sandboxd/client';
import { type Owner, type Principal, tenantOf } from '../../keys/index.ts';
import type { Store, Table } from '../../store/store.ts';
import { E2bError } from '../errors.ts';
import type { Requests } from '../rest.ts';
import type { SharedTemplates } from './shared-templates.ts';
import type { Defaults } from './template.ts';
import { readName } from './template-name.ts';
import type { TemplateRecords } from './template-records.ts';

export type Source =
  | { readonly kind: 'profile'; readonly profile: string | undefined }
  | { readonly kind: 'image'; readonly image: string }
  | { readonly kind: 'snapshot'; readonly id: string; readonly defaults: Defaults | undefined };

/** All that has names. */
export type Catalogue = {
  readonly records: TemplateRecords;
  readonly names: OperatorNames;
  /** Undefined also for one that does not exist. */
  readonly ownerOfSnapshot: (id: string) => Owner | undefined;
  /** Of all hosts that have one snapshot store. */
  readonly shared?: SharedTemplates | undefined;
};
export type Asker = { readonly requests: Requests; readonly principal: Principal };

/** What the SDKs ask for by default: this profile if the host has it, else the daemon's own default. */
const DEFAULT_TEMPLATE = 'base';
/** Profiles for names that the SDKs ask for by themselves. */
const PROFILES: Readonly<Record<string, string>> = {
  [DEFAULT_TEMPLATE]: 'e2b-base',
  'code-interpreter-v1': 'code',
  'code-interpreter': 'code',
};

const DEFAULT_SUFFIX = /:default$/;
const IMAGE = /[/:.]/;
const SNAPSHOT_ID = /^snap_[0-9a-v]{13}$/;

/** E2bError 404. */
export async function findTemplate(asker: Asker, catalogue: Catalogue, templateId: string): Promise<Source> {
  if (profileFor(templateId.replace(DEFAULT_SUFFIX, '')) === undefined) await catalogue.shared?.refresh();
  const built = catalogue.records.findBuild(asker.principal, templateId);
  if (built !== undefined) return { kind: 'snapshot', id: built.snapshotId, defaults: built.defaults };
  const source = await findGiven(asker, catalogue, templateId);
  if (source !== undefined) return source;
  if (readName(templateId) !== undefined) catalogue.shared?.assertRead(templateId);
  if (IMAGE.test(templateId)) return { kind: 'image', image: templateId.replace(DEFAULT_SUFFIX, '') };
  throw missing(asker, catalogue, templateId);
}

/** What a build from an image begins with. E2bError 404. */
export async function findImage(asker: Asker, catalogue: Catalogue, image: string): Promise<Source> {
  const target = catalogue.names.find(image);
  if (target === undefined) return { kind: 'image', image };
  const source = await findTarget(asker, catalogue, target);
  if (source !== undefined) return source;
  throw missing(asker, catalogue, image);
}

/** Whether the name is that of something other than a template that a client has built, or an image. */
export async function isGivenName(asker: Asker, catalogue: Catalogue, name: string): Promise<boolean> {
  await catalogue.shared?.refresh();
  const isReserved = profileFor(name.replace(DEFAULT_SUFFIX, '')) !== undefined;
  return isReserved || (await findGiven(asker, catalogue, name)) !== undefined;
}

function missing({ principal }: Asker, { records }: Catalogue, templateId: string): E2bError {
  const given = templateId.replace(DEFAULT_SUFFIX, '');
  const ours = profileFor(given);
  if (ours !== undefined)
    return new E2bError(
      404,
      `template '${templateId}' needs the profile ${ours}: sandboxd profiles bake ${ours}`,
    );
  const why = records.find(principal, given)
    ? 'it has no build that has ended well'
    : 'it is not a template, profile, image or snapshot of this host';
  return new E2bError(404, `template '${templateId}' not found: ${why}`);
}

async function findGiven(
  asker: Asker,
  catalogue: Catalogue,
  templateId: string,
): Promise<Source | undefined> {
  const given = templateId.replace(DEFAULT_SUFFIX, '');
  const target = catalogue.names.find(templateId) ?? catalogue.names.find(given);
  if (target !== undefined) return await findTarget(asker, catalogue, target);
  return toSaved(catalogue, await findSnapshot(asker, catalogue, given)) ?? (await findProfile(asker, given));
}

/** What a name of the operator leads to. No name of a snapshot: a tenant could take it. */
async function findTarget(asker: Asker, catalogue: Catalogue, target: string): Promise<Source | undefined> {
  if (SNAPSHOT_ID.test(target)) return toSaved(catalogue, await findSnapshot(asker, catalogue, target));
  const profile = await findProfile(asker, target);
  return profile ?? (IMAGE.test(target) ? { kind: 'image', image: target } : undefined);
}

function toSaved({ records }: Catalogue, id: string | undefined): Source | undefined {
  return id === undefined ? undefined : { kind: 'snapshot', id, defaults: records.defaultsOf(id) };
}

async function findProfile({ requests }: Asker, name: string): Promise<Source | undefined> {
  const { profiles: known } = await requests.call('listProfiles');
  const ours = profileFor(name);
  if (ours !== undefined && known.includes(ours)) return { kind: 'profile', profile: ours };
  if (known.includes(name)) return { kind: 'profile', profile: name };
  return name === DEFAULT_TEMPLATE ? { kind: 'profile', profile: undefined } : undefined;
}

function profileFor(name: string): string | undefined {
  return Object.hasOwn(PROFILES, name) ? PROFILES[name] : undefined;
}

/** Its id, by the id or by a name within the client's own tenant. */
export async function findSnapshot(
  { requests, principal }: Asker,
  { ownerOfSnapshot }: Catalogue,
  nameOrId: string,
): Promise<string | undefined> {
  try {
    if (SNAPSHOT_ID.test(nameOrId)) {
      const { id } = await requests.call('getSnapshot', { params: { id: nameOrId } });
      return id;
    }
    if (!/^[a-z0-9][a-z0-9-]{0,62}$/.test(nameOrId)) return undefined;
    const { snapshots } = await requests.call('listSnapshots', { query: { name: nameOrId } });
    const tenant = tenantOf(principal);
    return snapshots.find(({ id }) => ownerOfSnapshot(id)?.tenant === tenant)?.id;
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

// Names of templates that the operator has given: `sandboxd templates set`. They are for all tenants, and hold at once
// in a running daemon.

export const OPERATOR_NAME = /^[A-Za-z0-9](?:[A-Za-z0-9._/:@-]{0,254}[A-Za-z0-9])?$/;

/** What a name leads to: a profile, an image, or the id of a snapshot. */
type NamedTarget = { readonly target: string; readonly setAtMs: number };

export class OperatorNames {
  readonly #table: Table<NamedTarget>;

  constructor(store: Store) {
    this.#table = store.table('e2b_names');
  }

  list(): readonly (NamedTarget & { readonly name: string })[] {
    return this.#table.all().map(({ id, record }) => ({ name: id, ...record }));
  }

  /** Also names that were set a moment ago by the command. */
  find(name: string): string | undefined {
    return OPERATOR_NAME.test(name) ? this.#table.latest(name)?.target : undefined;
  }

  async set(name: string, target: string): Promise<void> {
    await this.#table.put(name, { target, setAtMs: Date.now() });
  }

  /** False if there is none. */
  async remove(name: string): Promise<boolean> {
    if (this.#table.latest(name) === undefined) return false;
    await this.#table.remove(name);
    return true;
  }
}
