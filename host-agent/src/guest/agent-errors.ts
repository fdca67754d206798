// Converts errors of the guest agent, or of the connection to it, to AppErrors. Each kind of call has its own meaning
// of refusals.
import {
  AgentError,
  type AgentErrorCode,
  type Result,
  type StreamLoss,
  toAgentErrorCode,
} from '@sandboxd/proto';
import { AppError, type ErrorCode, isAppError, toError } from '../lib/errors.ts';

/** Maximum length of a guest's reason that is passed on. */
const MAX_MESSAGE_CHARS = 4096;
const NOT_REACHED = 'the guest agent cannot be reached: ';

type Meaning = {
  readonly codes: Partial<Record<AgentErrorCode, ErrorCode>>;
  /** The code of every other refusal. */
  readonly otherwise: ErrorCode;
  /** Precedes the reason of such a refusal. */
  readonly prefix?: string;
  /** Follows the reason of the other refusals. */
  readonly advice?: string;
  /** The part of the call that may be too long for one message. */
  readonly long: string;
};

const FILES: Meaning = {
  codes: {
    not_found: 'not_found',
    busy: 'exhausted',
    cancelled: 'cancelled',
    unsupported: 'unsupported',
    internal: 'internal',
  },
  otherwise: 'invalid_argument',
  long: 'the path is',
};

const MEANINGS = {
  exec: {
    codes: { busy: 'exhausted' },
    otherwise: 'guest_unreachable',
    prefix: NOT_REACHED,
    advice: '; try again when some have ended',
    long: 'cmd and env are',
  },
  command: {
    codes: {
      not_found: 'not_found',
      conflict: 'conflict',
      busy: 'exhausted',
      cancelled: 'cancelled',
      unsupported: 'unsupported',
    },
    otherwise: 'guest_unreachable',
    prefix: 'the guest agent could not do it: ',
    long: 'cmd and env are',
  },
  files: FILES,
  /** Calls about single files. */
  file: {
    ...FILES,
    codes: { ...FILES.codes, conflict: 'conflict', precondition: 'precondition_failed' },
  },
  /** A push fails because of its archive, so none of its errors is "not found". */
  push: { ...FILES, codes: { ...FILES.codes, not_found: 'invalid_argument' } },
  port: {
    codes: {
      not_found: 'port_not_listening',
      busy: 'exhausted',
      cancelled: 'cancelled',
      unsupported: 'unsupported',
    },
    otherwise: 'guest_unreachable',
    prefix: 'the guest agent could not do it: ',
    long: 'the request is',
  },
  service: {
    codes: { conflict: 'conflict', invalid: 'invalid_argument' },
    otherwise: 'guest_unreachable',
    prefix: 'the guest agent could not do it: ',
    long: 'the service is',
  },
} as const satisfies Record<string, Meaning>;

/** For a call that the guest refused or that could not be sent. An AppError is returned unchanged. */
export function toCallError(error: unknown, kind: keyof typeof MEANINGS): AppError {
  if (isAppError(error)) return error;
  const cause = toError(error);
  const { codes, otherwise, prefix = '', advice = '', long }: Meaning = MEANINGS[kind];
  if (cause instanceof RangeError)
    return new AppError('invalid_argument', `${long} too long: ${cause.message}`, { cause });
  if (!(cause instanceof AgentError)) return unreachable(cause);
  const known = codes[cause.code];
  const message = known === undefined ? `${prefix}${cause.message}` : `${cause.message}${advice}`;
  return new AppError(known ?? otherwise, message, { cause });
}

/** Removes control characters from a guest's text, which is shown in logs and on terminals, and truncates it. */
export function toWords(text: string, maxChars = MAX_MESSAGE_CHARS): string {
  return text.slice(0, maxChars).replace(/\p{Cc}/gu, ' ');
}

/** The refusal in a result; undefined if there is none. */
export function refusalOf({ error }: Result): AgentError | undefined {
  if (!error) return undefined;
  const message = toWords(error.message ?? '') || 'no reason given';
  return new AgentError(toAgentErrorCode(error.code ?? ''), message);
}

export function unreachable(cause: Error): AppError {
  return new AppError('guest_unreachable', `${NOT_REACHED}${cause.message}`, { cause });
}

/** For an invalid answer. */
export function badAnswer(what: string): AppError {
  return new AppError('guest_unreachable', `the guest agent gave ${what}`);
}

export function causeOf(loss: StreamLoss): Error {
  return loss.kind === 'lost' ? loss.cause : new Error(`its connection was ${loss.kind}`);
}

/**
 * For a call that was aborted by the loss of the guest; `what` names the operation. A VM that died is an internal
 * error; a silent agent is guest_unreachable.
 */
export async function toLossError(
  loss: StreamLoss,
  what: string,
  explainLoss?: () => Promise<string | undefined>,
): Promise<AppError> {
  const reason = await explainLoss?.();
  if (reason === undefined)
    return new AppError(
      'guest_unreachable',
      `the guest agent was lost while ${what}: ${causeOf(loss).message}`,
    );
  return new AppError('internal', `the sandbox died while ${what}: ${reason}; delete it and create another`);
}

/** Clamps a number from a guest to a count. */
export function count(value: number): number {
  return Number.isFinite(value) ? Math.min(Math.max(0, value), Number.MAX_SAFE_INTEGER) : 0;
}

/** Clamps a time from a guest to one that a Date can have, in milliseconds. */
export function unixMs(value: number): number {
  return Math.min(count(value), 8.64e15);
}
