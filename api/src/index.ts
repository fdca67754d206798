// The REST API as data. It imports no other module. The daemon, the client library, the command line, the OpenAPI
// document and key policies are built from it. A route is one entry in routes/, with its schemas in schemas/. A limit
// is one line in limits.ts.
export * from './errors.ts';
export * from './exec-frames.ts';
export { text } from './input/fields.ts';
export * from './input/host-sockets.ts';
export * from './input/port-ranges.ts';
export * from './input/problems.ts';
export { show } from './input/shown.ts';
export { findUnknownParameters } from './input/unknown-fields.ts';
export * from './json-schema.ts';
export * from './limits.ts';
export * from './openapi/document.ts';
export type { DocumentedAnswer, DocumentedOperation } from './openapi/operation.ts';
export * from './routes/index.ts';
export * from './routes/route.ts';
export { errorResponse } from './schemas/answers.ts';
export * from './schemas/command.ts';
export * from './schemas/commands.ts';
export * from './schemas/event.ts';
export * from './schemas/exec.ts';
export * from './schemas/exec-output.ts';
export * from './schemas/file.ts';
export * from './schemas/host-pattern.ts';
export * from './schemas/id.ts';
export * from './schemas/image.ts';
export * from './schemas/label.ts';
export * from './schemas/link.ts';
export * from './schemas/log.ts';
export * from './schemas/meta.ts';
export * from './schemas/network.ts';
export * from './schemas/network-rule.ts';
export * from './schemas/policy.ts';
export * from './schemas/port.ts';
export * from './schemas/sandbox.ts';
export * from './schemas/service.ts';
export * from './schemas/snapshot.ts';
export * from './schemas/stats.ts';
