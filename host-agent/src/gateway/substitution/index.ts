// Secrets in requests of guests, and their redaction in the answers: pure of any connection.
export { type RedactedAnswer, Redaction, ReplacingStream, type UnreadableAnswer } from './answer.ts';
export { type BoundSecret, type Destination, judgeSecret, type SecretUse, usableAt } from './bound-secret.ts';
export { type BodySubstitution, substituteBody } from './request-body.ts';
export {
  type Headers,
  type RefusedHead,
  type RequestHead,
  type SubstitutedHead,
  substituteHead,
  withReadableAnswer,
} from './request-head.ts';
export { FrameRedaction, RedactingFrames } from './web-socket.ts';
