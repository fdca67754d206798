// The MCP server, for programs that bring their own connections to agents.
export { answerMessage } from './http.ts';
export { type Admission, type Bounds, makeAdmission } from './scope.ts';
export { TOOL_NAMES, TRANSFER_NAMES } from './server.ts';
