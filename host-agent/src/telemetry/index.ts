export { openTelemetry } from './open.ts';
export type { RequestSpan, Telemetry } from './telemetry.ts';
