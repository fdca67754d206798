// API keys: which clients may call this daemon, and what their policies and tenants' quotas allow.
export { Attempts } from './attempts.ts';
export type { Holding, LimitUse } from './holding.ts';
export { Limits, type LimitsOptions } from './limits.ts';
export { isLinkToken, LINK_PARAMETER, type Link, LinkRegistry } from './links.ts';
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
  type KeyChange,
  type KeyRecord,
  QUOTA_KEYS,
  type Quota,
  quota,
} from './record.ts';
export {
  type Found,
  KeyMark,
  KeyRegistry,
  type KeyRegistryOptions,
  type ListedKey,
  type NewKey,
  stateOf,
} from './registry.ts';
