// The front for clients of E2B.

export { NEXT_TOKEN, tokenOf, toPage } from './control/lists.ts';
export { EVERY_ORIGIN, serveCors } from './cors.ts';
export { E2bError } from './errors.ts';
export { forgetDeleted } from './forget-deleted.ts';
export { E2bFront, type E2bFrontOptions } from './front.ts';
export { PortAccess, refuse, refuseAs, TOKEN_HEADERS } from './port-access.ts';
export { Rest } from './rest.ts';
export { SandboxRecords, toOwnId } from './sandbox-records.ts';
export { findTarget } from './target.ts';
export { Builder } from './templates/builder.ts';
export { OPERATOR_NAME, OperatorNames } from './templates/operator-names.ts';
export { TemplateRecords } from './templates/template-records.ts';
