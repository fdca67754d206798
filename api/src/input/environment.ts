// Environment variables by name.
import { z } from 'zod';
import { MAX_FOUND_PROBLEMS } from '../limits.ts';
import { findTextProblem, TEXT } from './fields.ts';

type Environment = Readonly<Record<string, string>>;

const NAME_ERROR =
  '{name} must have names that are not empty, hold no = and no NUL, and are whole characters, got {value}';

/**
 * Not a `z.record`, because that drops a variable with the name `__proto__`. This schema returns the object unchanged.
 * Its JSON Schema is written by hand.
 */
export const environment = z
  .unknown()
  .superRefine((value, context) => {
    const refuse = (message: string, ...path: string[]) =>
      context.addIssue({ code: 'custom', message, path });
    if (value === null || value === undefined) return;
    if (typeof value !== 'object' || Array.isArray(value)) return refuse('must be an object of strings');
    let found = 0;
    for (const [name, text] of Object.entries(value)) {
      const isNamed = name !== '' && !/[=\0]/.test(name) && name.isWellFormed();
      const problem = findTextProblem(text);
      if (!isNamed) refuse(NAME_ERROR);
      if (problem !== undefined) refuse(problem, name);
      if (!isNamed || problem !== undefined) found += 1;
      if (found === MAX_FOUND_PROBLEMS) return;
    }
  })
  .meta({
    type: 'object',
    propertyNames: { type: 'string', minLength: 1, allOf: [TEXT, { ...TEXT, pattern: '^[^=]*$' }] },
    additionalProperties: TEXT,
  }) as unknown as z.ZodType<Environment, Environment>;
