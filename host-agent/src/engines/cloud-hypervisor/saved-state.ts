// The VMM's saved device state. Its format is private to the VMM, so it is read and changed only for a version that was
// tested. Each component's state is JSON within a text, so unchanged parts keep all digits of their numbers.
import { AppError } from '../../lib/errors.ts';

/** Version for which the tests with real guests passed. */
const KNOWN_MAJOR = '53';

/** Whether the saved state of this version has the known format. */
export function knowsSavedState(version: string): boolean {
  return version.split('.')[0] === KNOWN_MAJOR;
}

type Json = Record<string, unknown>;

export class SavedState {
  readonly #outer: Json;

  constructor(text: string) {
    this.#outer = JSON.parse(text) as Json;
  }

  /** The state of a component, by its path. AppError if the format is unknown. */
  read(...path: readonly string[]): string {
    const { state } = this.#data(path);
    if (typeof state !== 'string') throw unknownForm(`${path.join(' / ')} has no state`);
    return state;
  }

  write(path: readonly string[], state: string): void {
    this.#data(path).state = state;
  }

  toString(): string {
    return JSON.stringify(this.#outer);
  }

  #data(path: readonly string[]): Json {
    let part = this.#outer;
    for (const name of path) part = at(at(part, 'snapshots'), name);
    return at(part, 'snapshot_data');
  }
}

function at(value: Json, key: string): Json {
  const found = value[key];
  if (typeof found === 'object' && found !== null) return found as Json;
  throw unknownForm(`it has no ${key}`);
}

export function unknownForm(what: string): AppError {
  return new AppError('internal', `the saved state has a form that is not known: ${what}`, {
    stage: 'restore',
  });
}
