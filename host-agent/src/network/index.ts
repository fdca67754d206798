export type { HostSideRecord } from './host-side.ts';
export { Network, type NetworkOptions } from './network.ts';
export { hasOpenConnection } from './open-connections.ts';
export { findOrdinaryPorts } from './ordinary-ports.ts';
export type { PublishedPort } from './port-holder.ts';
export { HostUpstream } from './resolver/upstream.ts';
export type { NetworkSlot } from './slot.ts';
export { specialKind } from './special-ranges.ts';
