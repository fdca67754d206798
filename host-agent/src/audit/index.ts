// The audit trail: who did what, and what was refused. Separate from logs/: a log belongs to one sandbox, its tenant
// can read it, and its oldest records are dropped. The audit trail is the operator's, covers all tenants, and makes
// missing lines detectable.
export { ANCHOR_TABLE, type Anchors, AUDIT_DIR } from './files.ts';
export type { AuditEntry, Link, RequestEntry } from './line.ts';
export { AuditTrail, type AuditTrailOptions } from './trail.ts';
export { type Verified, verifyTrail } from './verify.ts';
