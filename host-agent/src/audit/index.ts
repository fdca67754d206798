// The audit trail: who did what, and what was refused. A room of its own, apart from logs/: those are of one sandbox each, for
// whoever may see it, and lose their oldest without a trace; this is the operator's, of everybody, and shows what is missing.
export { ANCHOR_TABLE, type Anchors } from './anchor.ts';
export { AUDIT_DIR } from './files.ts';
export type { AuditEntry, Link, RequestEntry } from './line.ts';
export { AuditTrail, type AuditTrailOptions } from './trail.ts';
export { type Verified, verifyTrail } from './verify.ts';
