// The durable log of a sandbox.
import { z } from 'zod';
import { queryChoice, queryInteger } from '../input/query.ts';
import { count, unixMs } from './answers.ts';

export const LOG_SOURCES = ['service', 'exec'] as const;
export const LOG_STREAMS = ['stdout', 'stderr', 'event'] as const;

export const logsQuery = z.object({
  since: queryInteger(-1, undefined, -1, {
    description:
      'byte offset that a previous next_offset gave; -1 is the last 64 KiB; beyond the end is an empty page',
  }),
  source: queryChoice([...LOG_SOURCES, 'all'], 'all', { description: 'whose records' }),
});

export const logRecord = z
  .object({
    source: z.enum(LOG_SOURCES).describe('service or exec'),
    stream: z.enum(LOG_STREAMS).describe('stdout, stderr, or event: what the daemon says of it'),
    text: z.string().describe('a piece of output as it was produced, no line; U+FFFD for what is no UTF-8'),
    time_ms: unixMs('when'),
  })
  .describe('one piece of output, or one event');

export const logsResponse = z
  .object({
    next_offset: count('since of the next page'),
    records: z.array(logRecord).describe('in order, at most 5000'),
  })
  .describe('a page of the log');
