// The body of a request, for secrets that may be in one: streamed, and only where nothing else depends on its bytes.
import type { BoundSecret, Destination, SecretUse } from './bound-secret.ts';
import { usableAt } from './bound-secret.ts';
import type { Headers } from './request-head.ts';
import { StreamReplacer } from './stream-replacer.ts';

/** Signed or checked by the client, so a changed body fails at the server. */
const DIGESTS = new Set(['content-md5', 'digest', 'content-digest', 'repr-digest', 'x-amz-content-sha256']);

export type BodySubstitution = {
  readonly replacer: StreamReplacer;
  /** False: the length is not known before the end, so it is sent chunked. */
  readonly keepsLength: boolean;
  /** Secrets that it may have. */
  readonly names: readonly string[];
  /** Of what was replaced so far. */
  uses(): SecretUse[];
};

/** Undefined: the body is sent as it is. `headers`: of the request. */
export function substituteBody(
  headers: Headers,
  secrets: readonly BoundSecret[],
  destination: Destination,
): BodySubstitution | undefined {
  const usable = usableAt(secrets, destination).filter(({ forms }) => forms.includes('body'));
  if (usable.length === 0 || !isReplaceable(headers)) return undefined;
  const encode = encoderOf(headers);
  const found = new Set<string>();
  const replacements = usable.flatMap(({ name, placeholder, value }) =>
    placeholder === null
      ? []
      : [
          {
            find: Buffer.from(placeholder),
            by: Buffer.from(encode(value)),
            onFound: () => void found.add(name),
          },
        ],
  );
  if (replacements.length === 0) return undefined;
  return {
    replacer: new StreamReplacer(replacements),
    keepsLength: replacements.every(({ find, by }) => find.length === by.length),
    names: usable.map(({ name }) => name),
    uses: () => [...found].map((secret) => ({ secret, form: 'body' })),
  };
}

/** Encoded bodies and those with a digest are not, nor those in parts. */
function isReplaceable(headers: Headers): boolean {
  return headers.every(([name, value]) => {
    const lower = name.toLowerCase();
    if (lower === 'content-encoding') return value.trim().toLowerCase() === 'identity';
    return !DIGESTS.has(lower) && !(lower === 'content-type' && /^\s*multipart\//i.test(value));
  });
}

/** A value is written as the type of the body has it. */
function encoderOf(headers: Headers): (value: Buffer) => Buffer {
  const [, type = ''] = headers.find(([name]) => name.toLowerCase() === 'content-type') ?? [];
  const essence = type.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (/[/+]json$|^application\/x-ndjson$/.test(essence))
    return (value) => Buffer.from(JSON.stringify(value.toString('latin1')).slice(1, -1), 'latin1');
  if (essence === 'application/x-www-form-urlencoded')
    return (value) => Buffer.from(encodeURIComponent(value.toString('latin1')), 'latin1');
  return (value) => value;
}
