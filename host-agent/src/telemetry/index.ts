export type { RequestSpan, Telemetry } from './telemetry.ts';
export { openTelemetry } from './telemetry.ts';
