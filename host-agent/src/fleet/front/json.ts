// What hosts answer is checked as what clients send.
import type { z } from 'zod';
import { AppError } from '../../lib/errors.ts';
import type { Host } from '../catalogue.ts';
import type { HostAnswer } from './host-connections.ts';

/** Undefined for what is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Undefined for an answer of another form. */
export function readAnswer<T>(
  schema: z.ZodType<T>,
  found: Pick<HostAnswer, 'body'> | undefined,
): T | undefined {
  return schema.safeParse(found && parseJson(found.body.toString())).data;
}

/** Of one host, which nothing takes the place of. AppError upstream for an answer of another form. */
export function readAnswerOf<T>(schema: z.ZodType<T>, { name }: Pick<Host, 'name'>, found: HostAnswer): T {
  const data = readAnswer(schema, found);
  if (data !== undefined) return data;
  throw new AppError('upstream', `the host ${name} answers with what is not an answer to this request`);
}
