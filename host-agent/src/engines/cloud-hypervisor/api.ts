// A client of the VMM's REST interface. The server is one thread that also runs the VM's control loop: it handles one
// request at a time, and a long one (saving memory) delays all others.
import { Client } from 'undici';
import { AppError } from '../../lib/errors.ts';
import { loadScaledTimeout } from '../../lib/load-scaled-timeout.ts';
import { connectUnix } from '../../lib/socket-link.ts';
import { VmmRefusal } from '../control.ts';
import type { MemoryRestoreMode, NetConfig, VmConfig } from './vm-config.ts';

/** Longer than any real answer. A compromised VMM must neither fill our memory nor keep us parsing. */
const MAX_ANSWER_BYTES = 512 * 1024;
/** Maximum request size of version 53.0. */
const MAX_REQUEST_BYTES = 51_200;

type VmmPing = { readonly version: string; readonly pid: number };

type VmInfo = {
  /** `Created`, `Running`, `Paused`, … */
  readonly state: string;
};

/** `timeoutMs` is for an idle host; it is scaled with the load. */
export type CallOptions = { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined };

/** Types of the request bodies, so that the compiler finds misspelt keys: the VMM ignores unknown keys. */
type RequestBodies = {
  readonly 'vm.create': VmConfig;
  readonly 'vm.boot': undefined;
  readonly 'vm.pause': undefined;
  readonly 'vm.resume': undefined;
  readonly 'vm.snapshot': { readonly destination_url: string };
  readonly 'vm.restore': {
    readonly source_url: string;
    readonly memory_restore_mode: MemoryRestoreMode;
    readonly resume: boolean;
  };
  readonly 'vm.add-net': NetConfig;
  readonly 'vm.resize-disk': { readonly id: string; readonly desired_size: number };
};

export class VmmApi {
  readonly #socketPath: string;

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  /**
   * Resolves on any 2xx. Rejects with ApiError if the VMM refuses, AppError internal after the timeout (the VMM may
   * still complete the request), the signal's reason, or the system error of the connection.
   */
  async put<E extends keyof RequestBodies>(
    endpoint: E,
    body: RequestBodies[E],
    options: CallOptions,
  ): Promise<void> {
    await this.#call('PUT', endpoint, body === undefined ? undefined : JSON.stringify(body), options);
  }

  async ping(options: CallOptions): Promise<VmmPing> {
    const { version, pid } = parseObject('vmm.ping', await this.#call('GET', 'vmm.ping', undefined, options));
    return { version: String(version), pid: Number(pid) };
  }

  /** Rejects with ApiError if there is no VM. */
  async info(options: CallOptions): Promise<VmInfo> {
    const info = parseObject('vm.info', await this.#call('GET', 'vm.info', undefined, options));
    return { state: String(info.state) };
  }

  async #call(
    method: 'GET' | 'PUT',
    endpoint: string,
    body: string | undefined,
    { timeoutMs, signal: outer }: CallOptions,
  ): Promise<string> {
    const bytes = Buffer.from(body ?? '');
    if (bytes.length > MAX_REQUEST_BYTES) {
      const message = `${endpoint} would have ${bytes.length} bytes, and the VMM takes ${MAX_REQUEST_BYTES}; shorten the boot arguments`;
      throw new AppError('invalid_argument', message);
    }
    using limit = loadScaledTimeout({
      timeoutMs,
      reason: (waitedMs) =>
        new AppError('internal', `the VMM did not answer ${endpoint} within ${waitedMs} ms`),
      outer,
    });
    const { signal } = limit;
    // One connection per call: one that timed out must not be reused, and keep-alive gains nothing.
    const client = new Client('http://localhost', {
      connect: (_options, callback) => {
        connectUnix(this.#socketPath, signal).then(
          (socket) => callback(null, socket),
          (error: Error) => callback(error, null),
        );
      },
      headersTimeout: 0,
      bodyTimeout: 0,
      maxResponseSize: MAX_ANSWER_BYTES,
    });
    try {
      const answer = await client.request({
        method,
        path: `/api/v1/${endpoint}`,
        signal,
        headers: {
          accept: 'application/json',
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        // Never a stream: the server supports Content-Length only.
        ...(body !== undefined && { body: bytes }),
      });
      const text = await answer.body.text();
      if (answer.statusCode >= 200 && answer.statusCode < 300) return text;
      throw new ApiError(endpoint, answer.statusCode, parseReasons(text));
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    } finally {
      await client.destroy();
    }
  }
}

function parseObject(endpoint: string, text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  } catch {
    // The error below reports it.
  }
  throw new Error(`${endpoint}: the answer is not an object: ${text.slice(0, 200)}`);
}

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
