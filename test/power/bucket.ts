// The bucket of hosts whose power is cut. It keeps its own, so that after a cut it has what it had at that moment.
import type { StoredObject } from '../support/s3/server.ts';

type Change = { readonly key: string; readonly object: StoredObject | undefined; readonly position: number };

export class JournaledObjects extends Map<string, StoredObject> {
  readonly #position: () => number;
  readonly #journal: Change[] = [];
  #isRecording = true;

  constructor(position: () => number) {
    super();
    this.#position = position;
  }

  override set(key: string, object: StoredObject): this {
    this.#note(key, object);
    return super.set(key, object);
  }

  override delete(key: string): boolean {
    this.#note(key, undefined);
    return super.delete(key);
  }

  stopRecording(): void {
    this.#isRecording = false;
  }

  /** Has what it had at a position of the disk. */
  rewind(position: number): void {
    this.stopRecording();
    this.clear();
    for (const change of this.#journal) {
      if (change.position > position) break;
      // The server changes objects in place.
      if (change.object === undefined) this.delete(change.key);
      else this.set(change.key, { ...change.object });
    }
  }

  #note(key: string, object: StoredObject | undefined): void {
    if (this.#isRecording) this.#journal.push({ key, object, position: this.#position() });
  }
}
