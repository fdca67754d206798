export {
  EgressLog,
  type EgressLogMode,
  type EgressPage,
  type EgressQuery,
  type EgressRecord,
  type StoredEgress,
} from './egress-log.ts';
export { hasOpenConnection } from './flows.ts';
export type { HostSideRecord } from './host-side.ts';
export { Network } from './network.ts';
export type { NetworkOptions } from './network-options.ts';
export type { AppliedPreset, NamedPresets, NetworkPolicy } from './network-policy.ts';
export { findOrdinaryPorts } from './ordinary-ports.ts';
export { EgressPolicy, type Traffic, type Verdict } from './policy.ts';
export type { PortMode } from './port-control.ts';
export type { PublishedPort } from './port-holder.ts';
export { isSamePort } from './published.ts';
export { HostUpstream } from './resolver/upstream.ts';
export { specialKind } from './special-addresses.ts';
export type { NetworkSlot } from './subnet.ts';
