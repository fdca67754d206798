// Streams of HTTP/2: how they end, and their fields.
import { constants, type Http2Stream, type OutgoingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import { toBody } from './refusals.ts';
import type { Headers } from './request-head.ts';

const { NGHTTP2_NO_ERROR } = constants;

/** Resets it. With `close`, Node may end it first, as if it were whole. */
export function cut(stream: Http2Stream): void {
  stream.destroy(new Error('the other end was cut'));
}

/** A stream that is reset ends as well, and what came of it is not all. */
export function endWith(from: Http2Stream, onWhole: () => void, onCut: () => void): void {
  from.once('end', () => (from.rstCode === NGHTTP2_NO_ERROR && !from.aborted ? onWhole() : onCut()));
}

export function toFields(headers: Headers): OutgoingHttpHeaders {
  // Names are of the guest or the server: none means a property of all objects.
  const fields: Record<string, string | string[]> = Object.create(null);
  for (const [name, value] of headers) {
    const before = fields[name];
    if (before === undefined) fields[name] = value;
    else if (Array.isArray(before)) before.push(value);
    else fields[name] = [before, value];
  }
  return fields;
}

export function refuseStream(guest: ServerHttp2Stream, status: number, reason: string): void {
  if (guest.destroyed || guest.closed) return;
  guest.respond({ ':status': status, 'content-type': 'text/plain' });
  guest.end(toBody(reason));
  guest.resume();
}

export function withoutLength(headers: Headers): Headers {
  return headers.filter(([name]) => name !== 'content-length');
}
