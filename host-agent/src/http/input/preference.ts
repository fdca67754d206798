// What a client prefers (RFC 7240): `Prefer: handling=strict` makes what would be a warning a refusal.
import { type HttpContext, headerOf } from '../context.ts';

/** What an answer says in Preference-Applied. */
export const STRICT = 'handling=strict';
export const PREFERENCE_APPLIED = 'Preference-Applied';

/** Of preferences that are said twice the first counts; what is not known is ignored. */
export function isStrict(c: HttpContext): boolean {
  return isStrictHeader(headerOf(c, 'prefer'));
}

export function isStrictHeader(prefer: string | undefined): boolean {
  for (const preference of prefer?.split(',') ?? []) {
    const [, value] = /^\s*handling\s*=\s*"?([^";\s]*)/i.exec(preference) ?? [];
    if (value !== undefined) return value.toLowerCase() === 'strict';
  }
  return false;
}
