// API keys: which clients may call this daemon, and what their policies and tenants' quotas allow.
export { Attempts } from './attempts.ts';
export type { Holding, LimitUse } from './holding.ts';
export { Limits, type LimitsOptions } from './limits.ts';
export { isLinkToken, LINK_PARAMETER, type Link, LinkRegistry } from './links.ts';
export { KeyMark } from './mark.ts';
export {
  clampTimeout,
  type RequestedNetwork,
  type RequestedResources,
  type RequestedSecret,
} from './policy.ts';
export type { RequestContext, SnapshotMaker } from './principal.ts';
export {
  ANONYMOUS,
  assertAccess,
  assertMayChangeImages,
  assertOperation,
  canSee,
  type KeyHolder,
  mayDo,
  OPERATOR,
  type Owner,
  ownerOf,
  type Principal,
  policyOf,
  sharerOf,
  tenantOf,
} from './principal.ts';
export {
  concernsTenants,
  hashKey,
  KEY_NAME,
  type KeyChange,
  type KeyForm,
  type KeyRecord,
  mintKey,
  QUOTA_KEYS,
  type Quota,
  quota,
  toKeyId,
} from './record.ts';
export {
  type Found,
  KeyRegistry,
  type KeyRegistryOptions,
  type ListedKey,
  type NewKey,
  stateOf,
} from './registry.ts';
