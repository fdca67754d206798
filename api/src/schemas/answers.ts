// Building blocks of responses. A field without a value is absent, not null.
import { z } from 'zod';
import { ERROR_CODES } from '../errors.ts';

// All fields of a kind share one schema: creating a schema costs about 50 µs at daemon start, describing it a tenth of
// that.
const text = z.string();
const natural = z.int().min(0);
const integer = z.int();
const yes = z.literal(true);
const instant = z.iso.datetime();

export const word = (description: string) => text.describe(description);
export const count = (description: string) => natural.describe(description);
/** True or absent. */
export const flag = (description: string) => yes.describe(description).optional();
export const dateTime = (description: string) => instant.describe(description);
export const unixMs = (description: string) => integer.describe(`${description}, Unix milliseconds`);

/** A field of the response to a request that changes something. */
export const warnings = z
  .array(text)
  .describe('unknown fields and parameters of the request, with suggestions; absent if there are none')
  .optional();

export const errorCode = z
  .enum(ERROR_CODES)
  .describe('machine-readable error code; later daemons may add codes');

/** The body of every response with status 400 or above. */
export const errorResponse = z
  .object({
    error: word('human-readable message: what failed, the value, what to do'),
    code: errorCode,
  })
  .describe('why the request failed');
