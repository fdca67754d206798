// Names of templates: `name` or `name:tag`.
import { E2bError } from '../errors.ts';

type TemplateName = { readonly name: string; readonly tag: string | undefined };

/** The tag of a build that is given none. */
export const DEFAULT_TAG = 'default';
const NAME = /^[a-z0-9](?:[a-z0-9._-]{0,126}[a-z0-9])?$/;
const TAG = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** Undefined for text of another form. */
export function readName(text: string): TemplateName | undefined {
  const [name = '', tag, more] = text.split(':', 3);
  if (!NAME.test(name) || more !== undefined || (tag !== undefined && !TAG.test(tag))) return undefined;
  return { name, tag };
}

/** E2bError 400. */
export function parseName(text: string): TemplateName {
  const read = readName(text);
  if (read !== undefined) return read;
  throw new E2bError(
    400,
    `${JSON.stringify(text.slice(0, 200))} is not the name of a template: it has at most 128 of a-z, 0-9, ., _ and -, ` +
      'and may have a tag behind a colon',
  );
}

/** E2bError 400. */
export function parseTag(text: string): string {
  if (TAG.test(text)) return text;
  throw new E2bError(
    400,
    `${JSON.stringify(text.slice(0, 200))} is not a tag: it has at most 128 letters, digits, ., _ and -`,
  );
}
