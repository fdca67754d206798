// Numbers and words in the query of a request.
import { AppError } from '../../lib/errors.ts';
import { type HttpContext, show } from '../context.ts';

/** A whole number of the query, `min` at least; undefined when it is absent. AppError invalid_argument. */
export function readCount(c: HttpContext, name: string, min: number): number | undefined {
  const value = c.req.query(name);
  if (value === undefined || value === '') return undefined;
  const number = /^-?\d{1,16}$/.test(value) ? Number(value) : Number.NaN;
  if (Number.isSafeInteger(number) && number >= min) return number;
  throw new AppError(
    'invalid_argument',
    `query ${name} must be a whole number of at least ${min}, got ${show(value)}`,
  );
}

/** One of `choices`; undefined when it is absent. AppError invalid_argument. */
export function readChoice<T extends string>(
  c: HttpContext,
  name: string,
  choices: readonly T[],
): T | undefined {
  const value = c.req.query(name);
  if (value === undefined || value === '') return undefined;
  const choice = choices.find((candidate) => candidate === value);
  if (choice !== undefined) return choice;
  throw new AppError(
    'invalid_argument',
    `query ${name} must be one of ${choices.join(', ')}, got ${show(value)}`,
  );
}
