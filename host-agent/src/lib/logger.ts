// The daemon's log: JSON lines, or readable ones on a terminal, made in this process (no worker, so it can be bundled).
import { type DestinationStream, type Logger, pino, stdTimeFunctions } from 'pino';
import { PinoPretty } from 'pino-pretty';

export type LoggerOptions = {
  readonly level: string;
  readonly format: 'auto' | 'json' | 'pretty';
  /** Where lines go; standard error when absent. */
  readonly destination?: DestinationStream;
};

/** Lines carry `requestId` and `sandbox` where there is one; errors are in `err` with their causes. */
export function createLogger({ level, format, destination }: LoggerOptions): Logger {
  const isPretty = format === 'pretty' || (format === 'auto' && process.stderr.isTTY);
  // Synchronous writes: the last line before a crash is the one that matters.
  const plain = destination ?? pino.destination({ fd: 2, sync: true });
  const stream = isPretty
    ? PinoPretty({ destination: plain as NodeJS.WritableStream, sync: true, ignore: 'pid,hostname' })
    : plain;
  return pino(
    {
      level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    stream,
  );
}
