// What a create or a build begins with, by the name of a template: what a client has built, a snapshot, what the
// operator has named, a profile, or a container image.
import { NotFoundError } from '@sandboxd/client';
import type { Principal } from '../../keys/index.ts';
import { E2bError } from '../errors.ts';
import type { Requests } from '../rest.ts';
import type { OperatorNames } from './operator-names.ts';
import type { Defaults, TemplateRecords } from './template-records.ts';

export type Source =
  | { readonly kind: 'profile'; readonly profile: string | undefined }
  | { readonly kind: 'image'; readonly image: string }
  | { readonly kind: 'snapshot'; readonly id: string; readonly defaults: Defaults | undefined };

/** All that has names. */
export type Catalogue = { readonly records: TemplateRecords; readonly names: OperatorNames };
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

/** E2bError 404. */
export async function findTemplate(asker: Asker, catalogue: Catalogue, templateId: string): Promise<Source> {
  const built = catalogue.records.findBuild(asker.principal, templateId);
  if (built !== undefined) return { kind: 'snapshot', id: built.snapshotId, defaults: built.defaults };
  const source = await findGiven(asker, catalogue, templateId);
  if (source !== undefined) return source;
  const ours = profileFor(templateId.replace(DEFAULT_SUFFIX, ''));
  throw new E2bError(
    404,
    ours === undefined
      ? `template '${templateId}' not found: it is no template, profile, image or snapshot of this host`
      : `template '${templateId}' needs the profile ${ours}: sandboxd profiles bake ${ours}`,
  );
}

/** Whether the name is that of something other than a template that a client has built. */
export async function isGivenName(asker: Asker, catalogue: Catalogue, name: string): Promise<boolean> {
  const isReserved = profileFor(name.replace(DEFAULT_SUFFIX, '')) !== undefined;
  return isReserved || (await findGiven(asker, catalogue, name)) !== undefined;
}

async function findGiven(
  { requests }: Asker,
  { names, records }: Catalogue,
  templateId: string,
): Promise<Source | undefined> {
  const given = templateId.replace(DEFAULT_SUFFIX, '');
  const name = names.find(templateId) ?? names.find(given) ?? given;
  const snapshot = await findSnapshot(requests, name);
  if (snapshot !== undefined)
    return { kind: 'snapshot', id: snapshot, defaults: records.defaultsOf(snapshot) };
  const { profiles: known } = await requests.call('listProfiles');
  const ours = profileFor(name);
  if (ours !== undefined && known.includes(ours)) return { kind: 'profile', profile: ours };
  if (known.includes(name)) return { kind: 'profile', profile: name };
  if (name === DEFAULT_TEMPLATE) return { kind: 'profile', profile: undefined };
  return /[/:.]/.test(name) ? { kind: 'image', image: name } : undefined;
}

function profileFor(name: string): string | undefined {
  return Object.hasOwn(PROFILES, name) ? PROFILES[name] : undefined;
}

/** Its id. */
export async function findSnapshot(requests: Requests, nameOrId: string): Promise<string | undefined> {
  try {
    if (/^snap_[0-9a-v]{13}$/.test(nameOrId)) {
      const { id } = await requests.call('getSnapshot', { params: { id: nameOrId } });
      return id;
    }
    if (!/^[a-z0-9][a-z0-9-]{0,62}$/.test(nameOrId)) return undefined;
    const { snapshots } = await requests.call('listSnapshots', { query: { name: nameOrId } });
    return snapshots[0]?.id;
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}
