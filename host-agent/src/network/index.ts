export type { HostSideRecord } from './host-side.ts';
export { Network, type NetworkOptions } from './network.ts';
export type { PortMode } from './port-control.ts';
export type { PublishedPort } from './port-holder.ts';
export { findOrdinaryPorts, hasOpenConnection } from './published.ts';
export { specialKind } from './resolver/client.ts';
export { HostUpstream } from './resolver/upstream.ts';
export type { NetworkSlot } from './subnet.ts';
