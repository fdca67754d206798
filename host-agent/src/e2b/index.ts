// The front for clients of E2B.

export { SHARED_HEADER } from './control/template-facts.ts';
export { NEXT_TOKEN, tokenOf, toPage } from './control/views.ts';
export { EVERY_ORIGIN, serveCors } from './cors.ts';
export { E2bError, SandboxGoneError } from './errors.ts';
export { E2bFront, type E2bFrontOptions } from './front.ts';
export { toOwnerRequest } from './owner.ts';
export { PortAccess, refuse, refuseAs, TOKEN_HEADERS } from './port-access.ts';
export { Rest } from './rest.ts';
export { forgetDeleted, SandboxRecords, toE2bId, toOwnId } from './sandbox-records.ts';
export { ENVD_PORT, findTarget, toBaseUrl } from './target.ts';
export { Builder } from './templates/builder.ts';
export { OPERATOR_NAME, OperatorNames } from './templates/find-template.ts';
export { SharedTemplates } from './templates/shared-templates.ts';
export { DEFAULT_TAG, readName } from './templates/template-name.ts';
export { TemplateRecords } from './templates/template-records.ts';
