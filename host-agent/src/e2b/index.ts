// The front for clients of E2B.
export { E2bFront, type E2bFrontOptions } from './front.ts';
export { PortAccess, refuseAs } from './port-access.ts';
export { SandboxRecords } from './sandbox-records.ts';
