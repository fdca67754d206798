// What clients ask of the network of a sandbox, and get.
import type { NetworkRule } from '@sandboxd/api';
import type { EgressLogMode, NetworkPolicy, Verdict } from '../network/index.ts';
import type { BindingChanges } from '../secrets/index.ts';
import type { AuthorityInfo } from './authorities.ts';
import type { BoundSecretInfo } from './secrets.ts';

/** Absent lists stay as they are. */
export type NetworkChange = {
  readonly allowlist?: readonly string[] | undefined;
  readonly rules?: readonly NetworkRule[] | undefined;
  readonly presets?: readonly string[] | undefined;
  readonly log?: EgressLogMode | undefined;
  /** Null removes one; others stay. */
  readonly secrets?: BindingChanges | undefined;
  /** Secrets that are not in `secrets` are removed. */
  readonly replacesSecrets?: true | undefined;
  readonly ifGeneration?: number | undefined;
};

export type NetworkState = NetworkPolicy & {
  readonly generation: number;
  readonly guestIp: string;
  readonly gateway: string;
  readonly secrets: readonly BoundSecretInfo[];
  /** Of its lineage; absent: no policy has needed one. */
  readonly ca?: AuthorityInfo;
};

export type ChangedNetwork = NetworkState & { readonly closed: number };

export type ExplainedVerdict = Verdict & { readonly generation: number };
