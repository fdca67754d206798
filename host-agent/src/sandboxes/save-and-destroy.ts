// Saves a guest that was created only to be saved, and destroys it.
import type { ResourceContext } from './resources/resource.ts';
import type { Sandbox } from './sandbox.ts';
import type { SavedManifest } from './saved/manifest.ts';
import { type SaveInput, saveGuest } from './saved/save.ts';

export type SaveAndDestroyInput = Pick<SaveInput, 'dir' | 'signal'> & {
  readonly options: SavedManifest['options'];
  readonly owner?: string | undefined;
};

/** Resolves after the sandbox is removed: nothing may write to its memory file when it is first restored. */
export async function saveAndDestroy(
  { engines, kernel }: Pick<ResourceContext, 'engines' | 'kernel'>,
  sandbox: Sandbox,
  { options, owner, ...input }: SaveAndDestroyInput,
): ReturnType<typeof saveGuest> {
  const saved = await saveGuest({
    ...input,
    vm: sandbox.vm,
    guest: sandbox.guest,
    layerPath: sandbox.paths.layerPath,
    manifest: {
      compatibility: engines.current.compatibility(),
      kernelDigest: kernel.digest,
      options,
      ...(owner !== undefined && { owner }),
    },
    staysPaused: true,
  });
  await sandbox.remove();
  return saved;
}
