// The front for clients of E2B.

export { forgetDeleted } from './forget-deleted.ts';
export { E2bFront, type E2bFrontOptions } from './front.ts';
export { PortAccess, refuseAs, TOKEN_HEADERS } from './port-access.ts';
export { Rest } from './rest.ts';
export { SandboxRecords } from './sandbox-records.ts';
export { Builder } from './templates/builder.ts';
export { OPERATOR_NAME, OperatorNames } from './templates/operator-names.ts';
export { TemplateRecords } from './templates/template-records.ts';
