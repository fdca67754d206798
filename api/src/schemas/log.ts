// The durable log of a sandbox.
import { z } from 'zod';
import { queryChoice, queryInteger } from '../input/query.ts';
import { count, unixMs } from './answers.ts';

export const LOG_SOURCES = ['service', 'exec'] as const;
export const LOG_STREAMS = ['stdout', 'stderr', 'event'] as const;

export const logsQuery = z.object({
  since: queryInteger(-1, undefined, -1, {
    description:
      'byte offset to start at, from next_offset of an earlier page; -1: the last 64 KiB; beyond the end: an ' +
      'empty page',
  }),
  source: queryChoice([...LOG_SOURCES, 'all'], 'all', { description: 'source of the records' }),
});

export const logRecord = z
  .object({
    source: z.enum(LOG_SOURCES).describe('source of the output: service or exec'),
    stream: z.enum(LOG_STREAMS).describe('stdout, stderr, or event for a message of the daemon'),
    text: z
      .string()
      .describe('a chunk of output, not necessarily a whole line; U+FFFD replaces invalid UTF-8'),
    time_ms: unixMs('time of the record'),
  })
  .describe('a chunk of output or a message of the daemon');

export const logsResponse = z
  .object({
    next_offset: count('value of since for the next page'),
    records: z.array(logRecord).describe('records in order, at most 5000'),
  })
  .describe('a page of the log');
