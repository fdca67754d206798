// The manifest beside every baked root filesystem: what it was made from and how to tell that it is intact.
import { z } from 'zod';

/** Raise when a bake of the same inputs would give a different image. */
export const ROOTFS_FORMAT = 2;

export const profileManifestSchema = z.object({
  formatVersion: z.literal(ROOTFS_FORMAT),
  name: z.string(),
  description: z.string(),
  /** Identifies the inputs (format, recipe, package versions, agent, npm runtime). */
  digest: z.string(),
  recipeDigest: z.string(),
  treeDigest: z.string(),
  agentDigest: z.string(),
  suite: z.string(),
  packages: z.record(z.string(), z.string()),
  /** `package@version` of the npm runtime in the image. */
  npmRuntime: z.string().optional(),
  env: z.record(z.string(), z.string()),
  workdir: z.string(),
  /** Identifies the bytes. Saved memory of a guest fits this image only, not another bake of the same inputs. */
  rootfsSha256: z.string(),
  sizeBytes: z.number().int(),
  entries: z.number().int(),
  /** Modification time given to the image, for a cheap check that nobody touched it. */
  rootfsMtimeMs: z.number().int(),
  createdAt: z.string(),
});

export type ProfileManifest = z.infer<typeof profileManifestSchema>;
