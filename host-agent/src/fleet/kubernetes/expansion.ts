// `$(NAME)` in values and commands of pods that others made. What comes out is bounded, since each step may make it
// many times longer.
import { AppError } from '../../lib/errors.ts';

/** Texts that have a limit together. */
export class Expansion {
  readonly #what: string;
  readonly #maxChars: number;
  #chars = 0;

  /** `what`: in errors. */
  constructor(what: string, maxChars: number) {
    this.#what = what;
    this.#maxChars = maxChars;
  }

  /** `$(NAME)` of what is known; `$$(NAME)` stays as `$(NAME)`. AppError invalid_argument when it is too much. */
  expand(value: string, env: Readonly<Record<string, string>>): string {
    // Before the text is made: it may be longer than memory.
    this.count(value.length);
    return value.replace(/\$\$|\$\(([^()]*)\)/g, (found, name: string | undefined) => {
      const put = name === undefined ? '$' : Object.hasOwn(env, name) ? (env[name] ?? '') : found;
      this.count(put.length - found.length);
      return put;
    });
  }

  /** A text that is not expanded. AppError invalid_argument when it is too much. */
  count(chars: number): void {
    this.#chars += chars;
    if (this.#chars > this.#maxChars)
      throw new AppError('invalid_argument', `${this.#what} has more than ${this.#maxChars} characters`);
  }
}
