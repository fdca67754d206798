// Calls of API routes over any transport, for programs that bring their own.
export { readLines } from './lines.ts';
export { Requests } from './requests.ts';
export type { Transport, WireAnswer, WireRequest } from './transport.ts';
