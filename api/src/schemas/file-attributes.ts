// Extended attributes of files: those of Linux in the namespace `user`, without that prefix.
import { z } from 'zod';
import { findTextProblem, TEXT } from '../input/fields.ts';

/** Of Linux, without the prefix. */
const MAX_NAME_BYTES = 250;
/** Of one request, names and values together. */
const MAX_BYTES = 4096;
const NAME = /^[!-~]+$/;
const OBJECT_ERROR = 'must be an object of strings';
const NAME_ERROR = `{name} must have names of 1 to ${MAX_NAME_BYTES} printable ASCII characters without spaces`;
const SIZE_ERROR = `{name} must have at most ${MAX_BYTES} bytes in names and values`;

export type FileAttributes = Readonly<Record<string, string>>;

/** What is wrong; undefined for valid attributes. */
function findProblem(given: unknown, isRemovable: boolean): string | undefined {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return OBJECT_ERROR;
  const encoder = new TextEncoder();
  let bytes = 0;
  for (const [name, value] of Object.entries(given)) {
    if (!NAME.test(name) || name.length > MAX_NAME_BYTES) return NAME_ERROR;
    const problem = value === null && isRemovable ? undefined : findTextProblem(value, OBJECT_ERROR);
    if (problem !== undefined) return problem;
    bytes += name.length + encoder.encode(value ?? '').length;
    if (bytes > MAX_BYTES) return SIZE_ERROR;
  }
  return undefined;
}

/** A query parameter with a JSON object. */
export const fileAttributesQuery = z
  .string()
  .optional()
  .transform((text, context): FileAttributes | undefined => {
    if (!text) return undefined;
    const given = parse(text);
    const problem = findProblem(given, false);
    if (problem === undefined) return given as FileAttributes;
    context.addIssue({ code: 'custom', message: `query {name}: ${problem.replace('{name} ', '')}` });
    return z.NEVER;
  })
  .meta({
    description:
      'extended attributes of the namespace user as a JSON object of texts, by their names without that prefix; the ' +
      'file has no others',
  });

/** Changes, as in a JSON merge patch: `null` removes an attribute, and others stay. Not a `z.record`: see labels. */
export const fileAttributesPatch = z
  .unknown()
  .superRefine((given, context) => {
    const problem = given === null || given === undefined ? undefined : findProblem(given, true);
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem });
  })
  .meta({
    type: 'object',
    propertyNames: { type: 'string', maxLength: MAX_NAME_BYTES, pattern: NAME.source },
    additionalProperties: { ...TEXT, type: ['string', 'null'] },
    'x-rules': [`at most ${MAX_BYTES} bytes in names and values`],
  }) as unknown as z.ZodType<
  Readonly<Record<string, string | null>>,
  Readonly<Record<string, string | null>>
>;

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
