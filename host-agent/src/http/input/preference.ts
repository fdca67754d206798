// The Prefer header (RFC 7240): `handling=strict` turns warnings into errors.
import { type HttpContext, headerOf } from '../context.ts';

/** The value of Preference-Applied. */
export const STRICT = 'handling=strict';
export const PREFERENCE_APPLIED = 'Preference-Applied';

/** The first `handling` counts. Unknown preferences are ignored. */
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
