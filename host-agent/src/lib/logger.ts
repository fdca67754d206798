// The daemon's log: JSON lines, or readable lines on a terminal. Formatted in this process (no worker), so it can be
// bundled. API keys in text of clients are hidden before it is stored or shown to others.
import { type DestinationStream, type Logger, pino, stdTimeFunctions } from 'pino';
import { PinoPretty } from 'pino-pretty';

type LoggerOptions = {
  readonly level: string;
  readonly format: 'auto' | 'json' | 'pretty';
  /** Default: standard error. */
  readonly destination?: DestinationStream;
};

/** Buffer for lines that could not be written (a full disk). When it is full, lines are lost. */
const MAX_UNWRITTEN_BYTES = 1024 * 1024;

/**
 * Lines carry `requestId` and `sandbox` where they apply; errors are in `err` with their causes. API keys that a client
 * put into a path, host or image name are redacted: whole lines are searched, whatever the field.
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

/**
 * Never throws: a daemon whose terminal is closed or whose log disk is full keeps running and can shut down gracefully.
 */
function openStandardError(): DestinationStream {
  // Synchronous writes: the last line before a crash must not be lost.
  const stream = pino.destination({ fd: 2, sync: true, maxLength: MAX_UNWRITTEN_BYTES });
  stream.on('error', () => undefined);
  return stream;
}

/** A character, literal or percent-encoded any number of times; `codes` are its two hex digits. */
const either = (plain: string, codes: string): string => `(?:${plain}|%(?:25)*${codes})`;

/** Case-insensitive: a host name is lower-cased, and most of a key survives that. */
const PREFIXES = [
  `${either('s', '[57]3')}${either('b', '[46]2')}${either('k', '[46]b')}`,
  `${either('e', '[46]5')}${either('2', '32')}${either('b', '[46]2')}`,
];
const KEY = new RegExp(
  `(?:${PREFIXES.join('|')})${either('_', '5f')}${either('[\\w-]', '[0-9a-f]{2}')}{4,}`,
  'gi',
);

/** The text without keys. What is left of a truncated key is redacted as well. */
export function hideKeys(text: string): string {
  return text.replace(KEY, 'sbk_…');
}

export function hasKey(text: string): boolean {
  return text.search(KEY) !== -1;
}
