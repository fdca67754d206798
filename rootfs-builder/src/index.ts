// The bakery's public interface: profiles, the guest kernel, and writable layers.
export { BuilderError, type BuilderErrorCode, describeError } from './errors.ts';
export {
  digestInit,
  type EnsureKernelOptions,
  ensureKernel,
  KERNEL_FORMAT,
  type ResolvedKernel,
  resolveKernel,
  seedKernel,
} from './kernel/kernels.ts';
export { copyReserved, copySparse, createWritableLayer, ensurePristineLayer } from './layer.ts';
export { hostAddon } from './lib/host-addon.ts';
export { tryLock } from './lib/lock.ts';
export { judgeMark, processMark } from './lib/process-mark.ts';
export type { Progress, ProgressEvent } from './lib/progress.ts';
export { builtinProfileNames, openRecipeBook, readRecipe } from './recipe/book.ts';
export { parseRecipe, type Recipe, type RecipeService } from './recipe/recipe.ts';
export { findRecipe, type RecipeBook, recipeDigest, resolveRecipe } from './recipe/resolve.ts';
export { type AgentImage, ensureAgentImage } from './rootfs/agent-image.ts';
export { type BakeOptions, type BakeResult, bakeProfile, requireBakingHost } from './rootfs/bake.ts';
export { makeRootImage } from './rootfs/ext4.ts';
export { type ProfileManifest, ROOTFS_FORMAT } from './rootfs/manifest.ts';
export {
  listProfileNames,
  listProfiles,
  type ResolvedProfile,
  resolveProfile,
  verifyProfile,
} from './rootfs/profiles.ts';
export { KEPT_BAKES, type PruneResult, pruneBakes } from './rootfs/prune.ts';
