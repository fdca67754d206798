// What a sandbox's root filesystem is made of. Today that is a profile; an image is the same thing with another name.
import { AppError } from '../lib/errors.ts';
import type { Profiles } from './profiles.ts';

/** What a create asks for. `name` of a profile, or an image's reference or digest. */
export type RootfsRequest = { readonly kind: 'profile' | 'image'; readonly name: string };

/** The same, found: all that a sandbox needs of it, also long after the profile was baked or the image pulled anew. */
export type RootfsSource = RootfsRequest & {
  /** SHA-256 of the root filesystem's bytes, which the page cache in a saved guest's memory mirrors. */
  readonly digest: string;
  readonly rootfsPath: string;
  /** What commands have in their environment, the request's own variables above it. */
  readonly env: Readonly<Record<string, string>>;
  readonly workdir: string;
};

/** AppError invalid_argument naming the known profiles, unsupported for an image, `internal` when it is damaged. */
export async function findRootfs(profiles: Profiles, { kind, name }: RootfsRequest): Promise<RootfsSource> {
  if (kind === 'image')
    throw new AppError('unsupported', 'image support is not enabled on this daemon; create from a profile');
  const { digest, rootfsPath, env, workdir } = await profiles.get(name);
  return { kind, name, digest, rootfsPath, env, workdir };
}
