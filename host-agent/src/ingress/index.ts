// The ingress: URLs of ports of sandboxes.
export { Access, type AccessRequest, type Grant } from './access.ts';
export { ADDRESS_HEADERS, Addresses, type PublicAddress, type Sought } from './addresses.ts';
export { Gateway } from './gateway.ts';
export type { PortHost, PortStream, SandboxPorts } from './port-host.ts';
export { RateLimits } from './rate-limits.ts';
export { IngressServer, type ServedGateway } from './server.ts';
