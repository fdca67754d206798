// How much all watches of files may use: their number, and the directories that they watch together.
import { AgentError, MAX_FILE_WATCHES, MAX_WATCHED_DIRECTORIES } from '@sandboxd/proto';

export class WatchBudget {
  #watches = 0;
  #directories = 0;

  /** Throws AgentError. */
  open(): void {
    if (this.#watches >= MAX_FILE_WATCHES)
      throw new AgentError('busy', `there are ${MAX_FILE_WATCHES} watches of files already; end some`);
    this.#watches += 1;
  }

  close(): void {
    this.#watches -= 1;
  }

  /** False when there are too many directories. */
  add(): boolean {
    if (this.#directories >= MAX_WATCHED_DIRECTORIES) return false;
    this.#directories += 1;
    return true;
  }

  remove(count: number): void {
    this.#directories -= count;
  }
}
