export { subjectHash } from './certificate.ts';
export { type Leaf, Leaves } from './leaves.ts';
export { type Authority, makeAuthority, needsAuthority } from './make-authority.ts';
