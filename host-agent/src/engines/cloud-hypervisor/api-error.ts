// Error answers of the VMM, parsed from each format that it uses.
import { VmmRefusal } from '../control.ts';

/** The VMM answered a request with an error. */
export class ApiError extends VmmRefusal {
  override readonly name = 'ApiError';
  readonly status: number;
  /** From the outermost to the root cause; empty if the answer had no text. */
  readonly reasons: readonly string[];

  constructor(endpoint: string, status: number, reasons: readonly string[]) {
    super(`${endpoint}: ${reasons.length === 0 ? `status ${status} without a reason` : reasons.join(': ')}`);
    this.status = status;
    this.reasons = reasons;
  }

  says(pattern: RegExp): boolean {
    return this.reasons.some((reason) => pattern.test(reason));
  }
}

/** The VMM has no VM. Versions since 53.0 report this by the HTTP status only. */
export function isNoVm(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 404 || error.says(/VM is not created/));
}

/** A restored VM is still reading memory from its source and cannot be saved yet. */
export function isStillRestoring(error: unknown): boolean {
  return error instanceof ApiError && error.says(/restore is still in progress/i);
}

/**
 * Parses the reasons from an error body: usually an array of texts; from the HTTP layer an object whose text has raw
 * line ends (invalid JSON); sometimes empty.
 */
export function parseReasons(body: string): string[] {
  const text = body.trim();
  if (text === '') return [];
  try {
    const value: unknown = JSON.parse(text);
    if (Array.isArray(value))
      return value.map((reason) => oneLine(String(reason))).filter((reason) => reason !== '');
    if (typeof value === 'object' && value !== null && 'error' in value)
      return [oneLine(String(value.error))];
  } catch {
    const inner = /^\{\s*"error"\s*:\s*"([\s\S]*)"\s*\}$/.exec(text)?.[1];
    return [oneLine(inner ?? text)];
  }
  return [oneLine(text)];
}

/** With RUST_BACKTRACE set, a backtrace follows the cause. */
const BACKTRACE = /\n\s*Stack backtrace:[\s\S]*/;

function oneLine(text: string): string {
  return text.replace(BACKTRACE, '').trim().replace(/\s+/g, ' ').slice(0, 2000);
}
