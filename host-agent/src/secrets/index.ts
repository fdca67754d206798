// Secrets that guests can use and never hold: stored ones, and what binds sandboxes to them.
export {
  type BindingChanges,
  type BindingReference,
  changeBindings,
  type OpenedSecret,
  openBindings,
  placeholdersOf,
  type StoredBinding,
  toReferences,
  wipe,
} from './bindings.ts';
export { SandboxSecrets } from './sandbox-secrets.ts';
export { isSealKeyOfDaemon, markSealKey } from './seal-key-mark.ts';
export { type SecretChange, type SecretInfo, SecretStore, type SecretToStore } from './secret-store.ts';
export { SecretSources, SOURCE_TTL_MS, type SourceEntry, type SourceNames } from './sources.ts';
