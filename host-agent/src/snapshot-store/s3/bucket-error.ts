// Failures of the bucket, in the words of the operator who can mend them.
import { AppError, type ErrorCode, errnoOf, toError } from '../../lib/errors.ts';

/** Where a bucket is, for messages. */
export type Place = { readonly bucket: string; readonly endpoint: string };

type BucketErrorOptions = {
  /** The same request may succeed a moment later. */
  readonly isTransient: boolean;
  readonly status?: number;
  readonly cause?: unknown;
  readonly code?: ErrorCode;
};

export class BucketError extends AppError {
  readonly isTransient: boolean;
  /** HTTP status; absent when there was no answer. */
  readonly status: number | undefined;

  constructor(message: string, { isTransient, status, cause, code = 'upstream' }: BucketErrorOptions) {
    // What no host of ours has written, and is the same the next time.
    super(code, message, { cause, ...(code === 'internal' && { stage: 'store' }) });
    this.isTransient = isTransient;
    this.status = status;
  }
}

export type FailedAnswer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
};

/** Codes of servers whose disk or quota is full. */
const FULL = /StorageFull|InsufficientStorage|InsufficientCapacity|QuotaExceeded|NoSpace/i;
const MAX_DETAIL_CHARS = 200;

/** Of an answer that is not a success. `nowMs`: of this host, when the answer came. */
export function toAnswerError(
  { status, headers, body }: FailedAnswer,
  { bucket, endpoint }: Place,
  nowMs: number,
): BucketError {
  const text = body.toString('utf8');
  const code = readElement(text, 'Code') ?? '';
  const detail = [code, readElement(text, 'Message')].filter(Boolean).join(': ').slice(0, MAX_DETAIL_CHARS);
  const what = `the snapshot store s3://${bucket} at ${endpoint}`;
  const fail = (message: string, isTransient = false) => new BucketError(message, { isTransient, status });
  if (code === 'RequestTimeTooSkewed') {
    const serverMs = Date.parse(String(headers.date ?? ''));
    const s = Math.round(Math.abs(nowMs - serverMs) / 1000);
    const by = Number.isNaN(serverMs) ? '' : ` by ${s} s`;
    return fail(`the clock of this host differs from the one of ${what}${by}; set it`);
  }
  if (status === 507 || FULL.test(code)) return fail(`${what} is full (${status} ${detail})`, true);
  if (code === 'NoSuchBucket' || (status === 404 && code === ''))
    return fail(`${what} does not exist (${status} ${detail}); create the bucket`);
  if (status === 301 || status === 307 || code === 'AuthorizationHeaderMalformed') {
    const region = headers['x-amz-bucket-region'] ?? readElement(text, 'Region') ?? 'another region';
    return fail(`${what} is in ${region} (${status}); set snapshot_store_region`);
  }
  if (status === 401 || status === 403)
    return fail(`${what} refuses the credentials (${status} ${detail}); check them and what they permit`);
  // 409: of two conditional writes at the same time.
  const isTransient = (status >= 500 && status !== 501) || [408, 409, 429].includes(status);
  return fail(`${what} answered ${status} ${detail}`.trim(), isTransient);
}

/** Of a request without an answer. */
export function toConnectionError(error: unknown, { bucket, endpoint }: Place): BucketError {
  const { message } = toError(error);
  const errno = errnoOf(error) ?? '';
  const isUntrusted = /CERT|SELF_SIGNED|UNABLE_TO|ERR_TLS/.test(errno);
  const advice = isUntrusted ? '; name its authority with snapshot_store_ca_file' : '';
  return new BucketError(
    `cannot reach the snapshot store s3://${bucket} at ${endpoint}: ${message || errno}${advice}`,
    { isTransient: !isUntrusted, cause: error },
  );
}

/** The text of the first element of this name. */
export function readElement(xml: string, name: string): string | undefined {
  const found = new RegExp(`<${name}>([^<]{0,4096})</${name}>`).exec(xml)?.[1];
  return found === undefined ? undefined : decodeEntities(found);
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

function decodeEntities(text: string): string {
  return text.replaceAll(/&(?:#(\d{1,6})|#x([0-9a-fA-F]{1,5})|(\w+));/g, (whole, decimal, hex, name) => {
    if (decimal) return String.fromCodePoint(Number(decimal));
    if (hex) return String.fromCodePoint(Number.parseInt(hex, 16));
    return ENTITIES[name] ?? whole;
  });
}
