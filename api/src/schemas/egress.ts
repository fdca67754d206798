// The egress log of a sandbox.
import { z } from 'zod';
import { queryChoice, queryInteger, querySwitch } from '../input/query.ts';
import { count, dateTime, word } from './answers.ts';

export const EGRESS_PROTOCOLS = ['tls', 'http', 'postgres', 'tcp', 'udp', 'icmp', 'dns', 'other'] as const;
export const EGRESS_LOG_MODES = ['all', 'denied', 'off'] as const;

export const egressQuery = z.object({
  since: queryInteger(-1, undefined, -1, {
    description:
      'byte offset to start at, from next_offset of an earlier page; -1: the last 64 KiB; beyond the end: an ' +
      'empty page',
  }),
  verdict: queryChoice(['allowed', 'denied', 'all'], 'all', { description: 'only records of this verdict' }),
  follow: querySwitch(
    '1',
    true,
    '1: a stream, which continues with new records until the sandbox is deleted',
  ),
});

export const egressRecord = z
  .object({
    at: dateTime('when it ended or was denied'),
    verdict: z
      .enum(['allowed', 'denied', 'missing'])
      .describe('missing: here are records missing, and reason says why'),
    reason: word('why'),
    generation: z.int().min(1).describe('number of the policy that judged').optional(),
    rule: word('the rule, entry of the allowlist or preset that allows it').optional(),
    protocol: z.enum(EGRESS_PROTOCOLS).describe('protocol; dns: a question for a name').optional(),
    name: word('host name').optional(),
    address: word('IPv4 address').optional(),
    port: z.int().min(0).max(65_535).describe('port of the host').optional(),
    bytes_up: count('bytes that the guest sent').optional(),
    bytes_down: count('bytes that the guest received').optional(),
    ms: count('duration of the connection or the request, in milliseconds').optional(),
    method: word('method of the request, where requests are read').optional(),
    path: word('its path, without the query, at most 1024 characters').optional(),
    status: z.int().min(100).max(999).describe('status of its answer').optional(),
    dropped: count('number of missing records, where it is known').optional(),
  })
  .describe('a connection, a request, or a question for a name');

export const egressResponse = z
  .object({
    next_offset: count('value of since for the next page'),
    records: z.array(egressRecord).describe('records in order, at most 5000'),
  })
  .describe('a page of the egress log');
