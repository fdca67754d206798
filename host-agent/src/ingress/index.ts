// The ingress: URLs of ports of sandboxes.
export { Access, type AccessRequest, type Grant, noPort } from './access.ts';
export { ADDRESS_HEADERS, Addresses, type PublicAddress, type Sought } from './addresses.ts';
export { Gateway, type GatewayOptions } from './gateway.ts';
export { isGrpc } from './grpc.ts';
export { toRelayedHeaders } from './headers.ts';
export { ParkedAccess, type ParkedPorts, refuseParked } from './parked-access.ts';
export type { PortHost, PortStream, SandboxPorts } from './port-host.ts';
export { RateLimits } from './rate-limits.ts';
export { IngressServer, type IngressServerOptions, type ServedGateway } from './server.ts';
