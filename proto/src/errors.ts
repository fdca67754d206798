// Errors of the agent protocol: the codes of a result's error, and the violation that closes a connection.

/** Codes of an `Error` message; an unknown code is read as `internal`. */
export const AGENT_ERROR_CODES = [
  'invalid',
  'not_found',
  'is_directory',
  'not_directory',
  'permission_denied',
  'read_only',
  'no_space',
  'conflict',
  'precondition',
  'busy',
  'cancelled',
  'unsupported',
  'internal',
] as const;
export type AgentErrorCode = (typeof AGENT_ERROR_CODES)[number];

/** A call that failed in the guest agent. */
export class AgentError extends Error {
  override readonly name = 'AgentError';
  readonly code: AgentErrorCode;

  constructor(code: AgentErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The peer violated the protocol; the connection must be closed. */
export class ProtocolViolation extends Error {
  override readonly name = 'ProtocolViolation';
}

export function toAgentErrorCode(text: string): AgentErrorCode {
  return AGENT_ERROR_CODES.find((code) => code === text) ?? 'internal';
}
