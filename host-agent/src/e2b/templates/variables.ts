// Variables of a build. Values that name others are bounded, since each step may make them many times longer.
import { MAX_SANDBOX_ENV_CHARS } from '@sandboxd/api';
import { StepError } from './step-error.ts';

const MAX_VALUE_CHARS = 64 * 1024;
/** Of what a login shell prints. */
const MAX_PRINTED_CHARS = 256 * 1024;
const NAMED = /\\\$|\$(?:\{(\w+)\}|([A-Za-z_]\w*))/g;

type Variables = Readonly<Record<string, string>>;

/**
 * `own` with the pairs. `$NAME` and `${NAME}` in a value are what they were before, in `own` or else in `guest`.
 * StepError.
 */
export function setVariables(
  own: Variables,
  pairs: readonly (readonly [string, string])[],
  guest: ReadonlyMap<string, string>,
): Variables {
  const before = new Map([...guest, ...Object.entries(own)]);
  const after = new Map(Object.entries(own));
  for (const [name, value] of pairs) {
    after.set(name, substitute(name, value, before));
    assertFit(after);
  }
  return Object.fromEntries(after);
}

function substitute(name: string, value: string, known: ReadonlyMap<string, string>): string {
  let chars = value.length;
  // Before the text is made: it may be longer than memory.
  return value.replace(NAMED, (text, braced, bare) => {
    const put = text === '\\$' ? '$' : (known.get(braced ?? bare) ?? '');
    chars += put.length - text.length;
    if (chars > MAX_VALUE_CHARS)
      throw new StepError(
        `the value of ${name.slice(0, 64)} would have more than ${MAX_VALUE_CHARS} characters`,
      );
    return put;
  });
}

function assertFit(variables: ReadonlyMap<string, string>): void {
  let chars = 0;
  for (const [name, value] of variables) chars += name.length + value.length;
  if (chars > MAX_SANDBOX_ENV_CHARS)
    throw new StepError(
      `variables of a template have at most ${MAX_SANDBOX_ENV_CHARS} characters in names and values`,
    );
}

/** What `env` prints, as it comes. */
export class PrintedVariables {
  readonly #pieces: string[] = [];
  #chars = 0;

  /** StepError when it is too much. */
  add(text: string): void {
    this.#chars += text.length;
    if (this.#chars > MAX_PRINTED_CHARS)
      throw new StepError(`the login shell printed more than ${MAX_PRINTED_CHARS} characters of variables`);
    this.#pieces.push(text);
  }

  read(): ReadonlyMap<string, string> {
    const lines = this.#pieces.join('').split('\n');
    return new Map(
      lines.flatMap((line) => {
        const at = line.indexOf('=');
        return at > 0 ? [[line.slice(0, at), line.slice(at + 1)] as const] : [];
      }),
    );
  }
}
