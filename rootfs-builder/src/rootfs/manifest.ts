// The manifest of a baked root file system: its inputs, and the data to check its integrity.
import { z } from 'zod';

/** Increase when a bake of the same inputs would produce a different image. */
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
  service: z
    .object({
      cmd: z.array(z.string()),
      cwd: z.string().optional(),
      user: z.string().optional(),
      env: z.record(z.string(), z.string()).optional(),
      readyPort: z.number().int(),
    })
    .optional(),
  /** Identifies the bytes. A snapshot's memory needs exactly this image, not another bake of the same inputs. */
  rootfsSha256: z.string(),
  sizeBytes: z.number().int(),
  entries: z.number().int(),
  /** Modification time assigned to the image, for a cheap check that it is unmodified. */
  rootfsMtimeMs: z.number().int(),
  createdAt: z.string(),
});

export type ProfileManifest = z.infer<typeof profileManifestSchema>;
