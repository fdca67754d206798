// Building blocks of answers. Fields without a value are absent from them, not null.
import { z } from 'zod';
import { ERROR_CODES } from '../errors.ts';

// One schema for all fields of a kind: making one costs some 50 µs at the daemon's start, describing it a tenth of that.
const text = z.string();
const natural = z.int().min(0);
const integer = z.int();
const yes = z.literal(true);
const instant = z.iso.datetime();

export const word = (description: string) => text.describe(description);
export const count = (description: string) => natural.describe(description);
/** Absent when it is not so. */
export const flag = (description: string) => yes.describe(description).optional();
export const dateTime = (description: string) => instant.describe(description);
export const unixMs = (description: string) => integer.describe(`${description}, Unix milliseconds`);

/** Of the answer to a request that makes or changes something. */
export const warnings = z
  .array(text)
  .describe(
    'fields and parameters of the request that mean nothing, and what may have been meant; absent when there are none',
  )
  .optional();

export const errorCode = z
  .enum(ERROR_CODES)
  .describe('which kind of failure it is, for programs; later daemons may know more');

/** The body of every answer from 400 on. */
export const errorResponse = z
  .object({
    error: word('what failed, the value seen, what to do: a sentence for a person'),
    code: errorCode,
  })
  .describe('why the request failed');
