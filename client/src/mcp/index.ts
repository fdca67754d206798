// The MCP server, for programs that bring their own connections to agents and to a daemon.
export type { Transport, WireAnswer, WireRequest } from '../connection/transport.ts';
export { answerMessage } from './http.ts';
export { type Bounds, covers, Scope } from './scope.ts';
export { TOOL_NAMES, TRANSFER_NAMES } from './server.ts';
