// Snapshots and their forks.
import { z } from 'zod';
import { integer, optional, optionalText, rule, text, withDefault } from '../input/fields.ts';
import { queryInteger, querySwitch } from '../input/query.ts';
import {
  DEFAULT_LIST_ENTRIES,
  MAX_COMMENT_CHARS,
  MAX_COMPARED_PATH_BYTES,
  MAX_LIST_ENTRIES,
  MAX_SECONDS,
  type RequestLimits,
} from '../limits.ts';
import { count, dateTime, warnings, word } from './answers.ts';
import { FILE_TYPES } from './file.ts';
import { sandboxId, snapshotId } from './id.ts';
import { labelSelectors, labels, labelsPatch, nameFilter, objectName } from './label.ts';
import { publish } from './network.ts';
import { nextCursor, pageQuery, unreachableHosts } from './page.ts';
import { SANDBOX_STATES, sandboxEnv } from './sandbox.ts';
import { secretChanges } from './secret.ts';

export const snapshot = z
  .object({
    id: snapshotId,
    created_at: dateTime('creation time'),
    source_id: sandboxId.describe('source sandbox'),
    parent_snapshot_id: snapshotId
      .optional()
      .describe(
        'the snapshot that the source sandbox continued from: of which it is a fork, or the last one that was taken ' +
          'of it. It may be deleted',
      ),
    dir: word('directory of the snapshot on the host'),
    mem_path: word('file with the memory of the guest'),
    rootfs_path: word('file with the writable layer'),
    state_path: word('file with the device state'),
    memory_mib: count('memory, MiB'),
    vcpus: count('virtual CPUs'),
    name: objectName.optional().describe('name of the snapshot, unique among those of its tenant'),
    labels: labels.optional().describe('labels by key; absent if there are none'),
    comment: word('comment').optional(),
    expires_at: dateTime('when it is deleted; absent: never').optional(),
    automatic: z
      .literal(true)
      .optional()
      .describe(
        'an idle timeout took it, so keep_last of the sandbox may delete it; absent: a client asked for it',
      ),
    storage: z
      .enum(['local', 'uploading', 'stored', 'remote'])
      .optional()
      .describe(
        'local: only on this host, until it is uploaded to the snapshot store. uploading: being sent. stored: on this ' +
          'host and in the snapshot store. remote: only there; the first use fetches it. Absent without a snapshot store',
      ),
    storage_error: word('why the last upload failed; it is repeated').optional(),
    disk_bytes: count('disk space of its files; present where one snapshot is shown').optional(),
    unique_bytes: count(
      'the part of disk_bytes that no other file shares; present where one snapshot is shown',
    ).optional(),
    warnings,
  })
  .describe('a snapshot');

export const snapshotList = z
  .object({
    snapshots: z.array(snapshot).describe('oldest first'),
    next_cursor: nextCursor,
    unreachable_hosts: unreachableHosts,
    store_error: word(
      'why the snapshot store could not be asked: snapshots that are only there may be missing',
    ).optional(),
  })
  .describe('snapshots');

/** Of a snapshot, deleted or not, or of a sandbox. */
const treeNode = z.object({
  kind: z.enum(['snapshot', 'sandbox']).describe('what it is'),
  id: z.union([snapshotId, sandboxId]).describe('its id'),
  parent_id: snapshotId.optional().describe('the snapshot that it came from; absent at the top of the tree'),
  created_at: dateTime('creation time'),
  name: objectName.optional().describe('its name; absent if it has none'),
  source_id: sandboxId.optional().describe('source sandbox of a snapshot'),
  state: z.enum(SANDBOX_STATES).optional().describe('state of a sandbox'),
  deleted: z.literal(true).optional().describe('a snapshot that was deleted, and that others came from'),
});

export const snapshotTree = z
  .object({ nodes: z.array(treeNode).describe('oldest first'), next_cursor: nextCursor })
  .describe('the tree of a snapshot, as a list');

export const snapshotTreeQuery = pageQuery;

const WITH_ERROR = 'must be the id or the name of a snapshot';
const CURSOR_ERROR = 'must be a next_cursor of an earlier page';

export const diffRequest = z
  .object(
    {
      with: text(WITH_ERROR, /^(?:snap_[0-9a-v]{13}|[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)$/).describe(
        'id or name of the other snapshot: what is only there is added',
      ),
      limit: withDefault(
        integer(1, MAX_LIST_ENTRIES, ''),
        DEFAULT_LIST_ENTRIES,
        'maximum number of files in the page; a page can be shorter',
      ),
      cursor: optionalText(
        text(CURSOR_ERROR, /^[A-Za-z0-9_-]*$/).max(Math.ceil(MAX_COMPARED_PATH_BYTES / 3) * 4, {
          error: CURSOR_ERROR,
        }),
        'next_cursor of the previous page',
      ),
    },
    { error: 'must be a JSON object' },
  )
  .describe('with which snapshot to compare');

const comparedAttributes = {
  kind: z.enum(FILE_TYPES).describe('kind of the file'),
  size_bytes: count('size of the content in bytes; absent unless it is a file or a symbolic link').optional(),
  mode: word('permissions in octal, such as 0644'),
  uid: count('user id of the owner'),
  gid: count('group id'),
};

export const DIFFERENCES = ['kind', 'content', 'mode', 'owner', 'xattrs'] as const;

const difference = z.object({
  path: word('absolute path; bytes that are not UTF-8 are shown as U+FFFD'),
  path_base64: word('the path as base64, if it is not UTF-8').optional(),
  change: z
    .enum(['added', 'removed', 'changed'])
    .describe('added: only in the snapshot of `with`. removed: only in the other one. changed: in both'),
  ...comparedAttributes,
  differs: z
    .array(z.enum(DIFFERENCES))
    .optional()
    .describe(
      'of a changed one: what is different. content: of a file, the target of a link, the number of a device. ' +
        'xattrs: extended attributes, such as capabilities and access lists',
    ),
  before: z
    .object(comparedAttributes)
    .optional()
    .describe('of a changed one: what it was; the fields beside are of the snapshot of `with`'),
});

export const snapshotDiff = z
  .object({
    files: z
      .array(difference)
      .describe('depth first; a directory, then what is in it, in the order of the bytes of their names'),
    next_cursor: nextCursor,
    warnings,
  })
  .describe('files that differ between the disks of two snapshots');

const COMMENT_ERROR = `must be a text of at most ${MAX_COMMENT_CHARS} characters`;
const comment = text(COMMENT_ERROR).max(MAX_COMMENT_CHARS, { error: COMMENT_ERROR });

export const snapshotRequest = z
  .object(
    {
      name: optionalText(objectName, 'name, unique among the snapshots of the tenant'),
      labels: optional(labels, 'labels by key'),
      comment: optionalText(comment, 'comment'),
      expires_s: withDefault(
        integer(0, MAX_SECONDS, ' seconds, 0 for never'),
        0,
        'seconds after which the snapshot is deleted, 0 for never',
      ),
    },
    { error: 'must be a JSON object' },
  )
  .describe('what to remember about a snapshot; the body is optional');

export const changeSnapshotRequest = z
  .object(
    {
      name: objectName.nullable().optional().describe('name; null removes it'),
      labels: optional(labelsPatch, 'labels to set, or with null to remove; others stay'),
      comment: comment.nullable().optional().describe('comment; null removes it'),
      expires_s: integer(0, MAX_SECONDS, ' seconds, 0 for never')
        .nullable()
        .optional()
        .meta({ description: 'seconds from now after which the snapshot is deleted; 0 or null: never' }),
    },
    { error: 'must be a JSON object' },
  )
  .describe('changes of a snapshot; absent fields stay');

export const snapshotsQuery = pageQuery.extend({
  label: labelSelectors,
  name: nameFilter,
});

export const importSnapshotQuery = z.object({
  disk_only: querySwitch(
    '1',
    true,
    '1: import only the disk; forks then cold-boot, so engine, CPU and kernel may differ',
  ),
});

export const rollbackRequest = z
  .object({ snapshot_id: snapshotId }, { error: 'must be a JSON object' })
  .describe('the snapshot to go back to');

/** What one fork has of its own. */
const forkChild = z
  .object(
    {
      publish,
      name: optionalText(objectName, 'name of this fork'),
      labels: withDefault(
        labelsPatch,
        {},
        'changes of its labels, after those for all forks; null removes one',
      ),
      env: sandboxEnv('its environment variables, added to those of all forks'),
    },
    { error: 'must be an object' },
  )
  .describe('what one of the forks has of its own; every field is optional');

export function forkRequest({ fork }: RequestLimits) {
  const childrenError = `must be an array of at most ${fork} objects, one for each fork`;
  const fields = z.object(
    {
      count: withDefault(
        integer(0, fork, ' (0 leaves it to the query or to children)'),
        0,
        'number of forks; overrides count of the query unless it is 0',
      ),
      children: optional(
        z.array(forkChild, { error: childrenError }).min(1).max(fork, { error: childrenError }),
        'what each fork has of its own, one entry for each, in the order of the answer; count may be absent then',
      ),
      publish,
      name: optionalText(objectName, 'name of the only fork; forks do not inherit the name'),
      labels: withDefault(
        labelsPatch,
        {},
        'changes of the labels that forks inherit from the source sandbox; null removes a label',
      ),
      env: sandboxEnv('environment variables, added to those that forks inherit from the source sandbox'),
      secrets: optional(
        secretChanges,
        'changes of the secrets that forks inherit from the source sandbox; null drops one',
      ),
    },
    { error: 'must be a JSON object' },
  );
  const withOneName = rule(
    fields,
    'name needs a count of 1, from the body or the query',
    ({ count, name }) => name === undefined || count <= 1,
    { error: 'name needs count 1, because names are unique, got {value}', path: ['count'] },
  );
  const withOnePublisher = rule(
    withOneName,
    'publish needs a count of 1, from the body or the query',
    ({ count, publish }) => publish.length === 0 || count <= 1,
    { error: 'publish needs count 1, because host ports are exclusive, got {value}', path: ['count'] },
  );
  const withChildren = rule(
    withOnePublisher,
    'children has as many entries as count, if both are given',
    ({ count, children }) => children === undefined || count === 0 || count === children.length,
    { error: 'must be the number of children if both are given, got {value}', path: ['count'] },
  );
  return rule(
    withChildren,
    'with children, name and publish are in its entries',
    ({ children, name, publish }) => children === undefined || (name === undefined && publish.length === 0),
    { error: 'takes the place of name and publish, which belong in its entries', path: ['children'] },
  ).describe('options of the forks; the body is optional');
}

/** An invalid count is an error even if the count of the body overrides it. */
export function forkQuery({ fork }: RequestLimits) {
  return z.object({
    count: queryInteger(1, fork, 1, {
      description: 'number of forks; count of the body overrides it',
      error: `{name} in the query must be an integer from 1 to ${fork}, got {value}`,
    }),
  });
}
