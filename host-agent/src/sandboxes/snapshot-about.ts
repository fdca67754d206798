// What clients say about a snapshot: its name, unique among the snapshots of a tenant, its labels and a comment.
import { isDeepStrictEqual } from 'node:util';
import { type Labels, labels, MAX_COMMENT_CHARS, objectName, text } from '@sandboxd/api';
import { z } from 'zod';
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

export type SnapshotWishes = About & {
  /** Seconds from now until it is deleted; 0 or absent: never. */
  readonly expiresS?: number | undefined;
};

/** `keepLast`: see IdleRule. */
export type Automatic = { readonly keepLast?: number };

export type SnapshotPatch = AboutPatch & {
  /** The same; `undefined` keeps its expiry. */
  readonly expiresS?: number | undefined;
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

/** The fields that differ. */
export function findChanges(before: About, after: About): string[] {
  const old = toAbout(before);
  const fields = ['name', 'labels', 'comment'] as const;
  return fields.filter((field) => !isDeepStrictEqual(old[field], after[field]));
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
