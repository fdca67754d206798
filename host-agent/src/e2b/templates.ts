// Templates of E2B by their names: a profile, a snapshot by id or name, or a container image.
import { NotFoundError } from '@sandboxd/client';
import { E2bError } from './errors.ts';
import type { Requests } from './rest.ts';

export type Template =
  | { readonly kind: 'profile'; readonly profile: string | undefined }
  | { readonly kind: 'image'; readonly image: string }
  | { readonly kind: 'snapshot'; readonly id: string };

/** What the SDKs ask for by default: this profile if the host has it, else the daemon's own default. */
const DEFAULT_TEMPLATE = 'base';
/** Profiles for names that the SDKs ask for by themselves. */
const PROFILES: Readonly<Record<string, string>> = {
  [DEFAULT_TEMPLATE]: 'e2b-base',
  'code-interpreter-v1': 'code',
  'code-interpreter': 'code',
};

/** E2bError 404. */
export async function findTemplate(requests: Requests, templateId: string): Promise<Template> {
  const name = templateId.replace(/:default$/, '');
  const snapshot = await findSnapshot(requests, name);
  if (snapshot !== undefined) return { kind: 'snapshot', id: snapshot };
  const { profiles: known } = await requests.call('listProfiles');
  const ours = Object.hasOwn(PROFILES, name) ? PROFILES[name] : undefined;
  if (ours !== undefined && known.includes(ours)) return { kind: 'profile', profile: ours };
  if (known.includes(name)) return { kind: 'profile', profile: name };
  if (name === DEFAULT_TEMPLATE) return { kind: 'profile', profile: undefined };
  if (ours !== undefined)
    throw new E2bError(
      404,
      `template '${templateId}' needs the profile ${ours}: sandboxd profiles bake ${ours}`,
    );
  if (/[/:.]/.test(name)) return { kind: 'image', image: name };
  throw new E2bError(
    404,
    `template '${templateId}' not found: it is no profile, image or snapshot of this host`,
  );
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
