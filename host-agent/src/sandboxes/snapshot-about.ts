// What clients say about a snapshot: its name, unique among the snapshots of a tenant, its labels and a comment.
import { type Labels, labels, MAX_COMMENT_CHARS, objectName, text } from '@sandboxd/api';
import { z } from 'zod';
import type { Owner } from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';
import { changeLabels } from '../lib/labels.ts';

export type About = {
  readonly name?: string | undefined;
  readonly labels?: Labels | undefined;
  readonly comment?: string | undefined;
};

/** `undefined` keeps a field, `null` removes it. Labels that are not named stay. */
export type AboutPatch = {
  readonly name?: string | null | undefined;
  readonly labels?: Readonly<Record<string, string | null>> | undefined;
  readonly comment?: string | null | undefined;
};

/** In the manifest of an exported snapshot, which any program may have written. */
export const aboutSchema = z.object({
  name: objectName.optional(),
  labels: labels.optional(),
  comment: text().max(MAX_COMMENT_CHARS).optional(),
});

/** Only the fields that say something. */
export function toAbout({ name, labels = {}, comment }: About): About {
  return {
    ...(name && { name }),
    ...(Object.keys(labels).length > 0 && { labels: { ...labels } }),
    ...(comment && { comment }),
  };
}

/** AppError invalid_argument if there are too many labels then. */
export function changeAbout(
  about: About,
  { name = about.name, labels = {}, comment = about.comment }: AboutPatch,
) {
  return toAbout({
    name: name ?? undefined,
    labels: changeLabels(about.labels, labels),
    comment: comment ?? undefined,
  });
}

type Named = { readonly id: string; readonly owner: Owner | undefined; readonly name: string | undefined };

export class SnapshotNames {
  readonly #all: () => Iterable<Named>;
  readonly #reserved = new Set<string>();

  constructor(all: () => Iterable<Named>) {
    this.#all = all;
  }

  /** Until disposed; by then the snapshot has the name, or does not exist. AppError conflict names the holder. */
  reserve(owner: Owner | undefined, name: string | undefined): Disposable {
    const key = JSON.stringify([owner?.tenant, name]);
    if (name === undefined) return { [Symbol.dispose]: () => undefined };
    const holder = this.#find(owner, name);
    if (holder !== undefined) {
      const advice = 'use another name, rename that one or delete it';
      throw new AppError('conflict', `the name ${name} is that of snapshot ${holder.id}; ${advice}`);
    }
    if (this.#reserved.has(key))
      throw new AppError('conflict', `the name ${name} is that of a snapshot that is being taken or renamed`);
    this.#reserved.add(key);
    return { [Symbol.dispose]: () => this.#reserved.delete(key) };
  }

  isFree(owner: Owner | undefined, name: string): boolean {
    return (
      this.#find(owner, name) === undefined && !this.#reserved.has(JSON.stringify([owner?.tenant, name]))
    );
  }

  #find(owner: Owner | undefined, name: string): Named | undefined {
    for (const each of this.#all()) {
      if (each.name === name && each.owner?.tenant === owner?.tenant) return each;
    }
    return undefined;
  }
}
