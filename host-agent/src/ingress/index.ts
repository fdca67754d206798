// The ingress: URLs of ports of sandboxes.
export { Access } from './access.ts';
export { Addresses, type PublicAddress, type Sought } from './addresses.ts';
export { Gateway } from './gateway.ts';
export type { PortHost, PortStream, SandboxPorts } from './port-host.ts';
export { RateLimits } from './rate-limits.ts';
export { IngressServer } from './server.ts';
