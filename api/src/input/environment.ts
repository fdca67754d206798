// Environment variables by name.
import { z } from 'zod';
import { TEXT } from './fields.ts';

type Environment = Readonly<Record<string, string>>;

const NAME_ERROR =
  '{name} must have names that are not empty, hold no = and no NUL, and are whole characters, got {value}';
const WHOLE_ERROR = 'must be a string of whole characters; it holds half of a surrogate pair';

/**
 * Not a `z.record`, which drops a variable of the name `__proto__`: the object that came is kept as it is. In JSON Schema it is
 * described by hand.
 */
export const environment = z
  .unknown()
  .superRefine((value, context) => {
    const refuse = (message: string, ...path: string[]) =>
      context.addIssue({ code: 'custom', message, path });
    if (value === null || value === undefined) return;
    if (typeof value !== 'object' || Array.isArray(value)) return refuse('must be an object of strings');
    for (const [name, text] of Object.entries(value)) {
      if (name === '' || /[=\0]/.test(name) || !name.isWellFormed()) refuse(NAME_ERROR);
      if (typeof text !== 'string') refuse('must be a string', name);
      else if (text.includes('\0')) refuse('must be a string without a NUL character', name);
      else if (!text.isWellFormed()) refuse(WHOLE_ERROR, name);
    }
  })
  .meta({
    type: 'object',
    propertyNames: { type: 'string', minLength: 1, allOf: [TEXT, { ...TEXT, pattern: '^[^=]*$' }] },
    additionalProperties: TEXT,
  }) as unknown as z.ZodType<Environment, Environment>;
