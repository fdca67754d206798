// The daemon's log: JSON lines, or readable ones on a terminal, made in this process (no worker, so it can be bundled).
import { type DestinationStream, type Logger, pino, stdTimeFunctions } from 'pino';
import { PinoPretty } from 'pino-pretty';
import { hideKeys } from './hide-keys.ts';

export type LoggerOptions = {
  readonly level: string;
  readonly format: 'auto' | 'json' | 'pretty';
  /** Where lines go; standard error when absent. */
  readonly destination?: DestinationStream;
};

/** Lines that could not be written (a full disk) and are kept until they can; later ones are lost then. */
const MAX_UNWRITTEN_BYTES = 1024 * 1024;

/**
 * Lines carry `requestId` and `sandbox` where there is one; errors are in `err` with their causes. A key that a client put
 * where none belongs (a path, a host, the name of an image) is in none: lines are searched whole, whatever field has it.
 */
export function createLogger({ level, format, destination }: LoggerOptions): Logger {
  const isPretty = format === 'pretty' || (format === 'auto' && process.stderr.isTTY);
  const plain = destination ?? openStandardError();
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
    withoutKeys(stream),
  );
}

export function withoutKeys(destination: DestinationStream): DestinationStream {
  return { write: (line) => destination.write(hideKeys(line)) };
}

/** Never throws: a daemon whose terminal is closed, or whose log has no space, goes on and stops in order. */
function openStandardError(): DestinationStream {
  // Synchronous writes: the last line before a crash is the one that matters.
  const stream = pino.destination({ fd: 2, sync: true, maxLength: MAX_UNWRITTEN_BYTES });
  stream.on('error', () => undefined);
  return stream;
}
