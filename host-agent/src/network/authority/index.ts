export { subjectHash } from './certificate.ts';
export { type Leaf, Leaves } from './leaves.ts';
export { type Authority, makeAuthority } from './make-authority.ts';
export { needsAuthority } from './needs-authority.ts';
