// Upload and download of files.
import { z } from 'zod';
import { optional, optionalText, text, withDefault } from '../input/fields.ts';
import { queryChoice, queryInteger, querySwitch } from '../input/query.ts';
import {
  DEFAULT_FILE_BYTES,
  DEFAULT_LIST_ENTRIES,
  MAX_LIST_DEPTH,
  MAX_LIST_ENTRIES,
  MAX_PATH_BYTES,
  MAX_WATCHED_DIRECTORIES,
} from '../limits.ts';
import { count, dateTime, flag, warnings, word } from './answers.ts';
import { fileAttributesPatch, fileAttributesQuery } from './file-attributes.ts';
import { nextCursor } from './page.ts';

const PATH_ERROR = '{name} must be an absolute path of the guest, got {value}';
const MISSING_ERROR = 'the query parameter {name} is missing; give an absolute path of the guest';
const NUL_ERROR = '{name} must be an absolute path of the guest without a NUL character, got {value}';

const path = z
  .string({ error: MISSING_ERROR })
  .min(1, { error: MISSING_ERROR, abort: true })
  .regex(/^(?:\/|$)/, { error: PATH_ERROR })
  .regex(/^[^\0]*$/, { error: NUL_ERROR });

export const readFileQuery = z.object({
  path: path.describe('absolute path of a file in the guest; with format=tar, of a file or directory'),
  max_bytes: queryInteger(1, undefined, DEFAULT_FILE_BYTES, {
    description: 'maximum number of bytes to return; X-Truncated is true if the file is longer',
  }),
  format: queryChoice(['raw', 'tar'], 'raw', {
    description: 'raw: the bytes of one file; tar: a directory or file as a tar archive',
  }),
});

export const pushResult = z
  .object({
    files: count('number of regular files written'),
    bytes: count('total size of their contents in bytes'),
    warnings,
  })
  .describe('number of files and bytes written');

// ---- single files ----

/** Four characters for every three bytes. */
const MAX_BASE64_CHARS = Math.ceil(MAX_PATH_BYTES / 3) * 4;
const BASE64_ERROR = 'must be base64 of the bytes of an absolute path of the guest';
const BASE64 = /^\/?(?:[A-Za-z0-9+/_-]*={0,2})$/;
const MODE = /^0?[0-7]{1,4}$/;
const MODE_ERROR = 'must be permissions in octal, such as 0644';
const USER_ERROR = 'must be name|uid[:group|gid]';
const MAX_USER_CHARS = 256;
const OWNER = 'the user whose rights apply, as name|uid[:group|gid]; it owns what is created; default: root';
const ROOT =
  'absolute path of a directory that is the root for all paths of the request: neither .. nor a symbolic link ' +
  'leads out of it; default: /';

const queryText = (description: string, pattern: RegExp, error: string, maxChars: number) =>
  z
    .string()
    .max(maxChars, { error: `query {name} is longer than ${maxChars} characters` })
    .regex(new RegExp(`^$|${pattern.source}`), { error: `query {name} ${error}, got {value}` })
    .optional()
    .transform((value) => value || undefined)
    .meta({ description });

export const pushFilesQuery = z.object({
  path: path.describe(
    'absolute path of the target directory in the guest; it and its parents are created if missing',
  ),
  owner: queryText(
    'who owns what is created, as name|uid[:group|gid]; default: root',
    /^[^\0]+$/,
    USER_ERROR,
    MAX_USER_CHARS,
  ),
});

/** A NUL has an error of its own in bodies. */
const bodyAbsolute = 'must be an absolute path of the guest';
const absolute = `${bodyAbsolute} without a NUL character`;
const ABSOLUTE = /^\/[^\0]*$/;

/** A file, for whom it is looked up, and below which root. */
const place = {
  path: queryText('absolute path of the file in the guest', ABSOLUTE, absolute, MAX_PATH_BYTES),
  path_base64: queryText(
    'the path as base64 of its bytes, if they are not UTF-8',
    BASE64,
    BASE64_ERROR,
    MAX_BASE64_CHARS,
  ),
  root: queryText(ROOT, ABSOLUTE, absolute, MAX_PATH_BYTES),
  user: queryText(OWNER, /^[^\0]+$/, USER_ERROR, MAX_USER_CHARS),
};

const tooLong = (maxChars: number) => ({ error: `must have at most ${maxChars} characters` });
const bodyPath = (description: string) =>
  optionalText(text(bodyAbsolute, ABSOLUTE).max(MAX_PATH_BYTES, tooLong(MAX_PATH_BYTES)), description);
const bodyBase64 = (description: string) =>
  optionalText(text(BASE64_ERROR, BASE64).max(MAX_BASE64_CHARS, tooLong(MAX_BASE64_CHARS)), description);
const bodyUser = optionalText(text(USER_ERROR).max(MAX_USER_CHARS, tooLong(MAX_USER_CHARS)), OWNER);
const NOT_OBJECT = { error: 'must be a JSON object' };
const bodyMode = (description: string) => optionalText(text(MODE_ERROR, MODE), description);

const bodyPlace = {
  path: bodyPath('absolute path in the guest'),
  path_base64: bodyBase64('the path as base64 of its bytes, if they are not UTF-8'),
  root: bodyPath(ROOT),
  user: bodyUser,
};

const withAttributes = querySwitch('true', true, 'true: with the extended attributes of the namespace user');

export const statFileQuery = z.object({
  ...place,
  with_attributes: withAttributes,
  follow: querySwitch('false', false, 'false: describe a symbolic link itself instead of what it leads to'),
});

export const listFilesQuery = z.object({
  ...place,
  with_attributes: withAttributes,
  depth: queryInteger(1, MAX_LIST_DEPTH, 1, {
    description: 'levels of directories to list; links are not followed',
  }),
  limit: queryInteger(1, MAX_LIST_ENTRIES, DEFAULT_LIST_ENTRIES, {
    description: 'maximum number of entries in the page; a page can be shorter',
  }),
  cursor: queryText(
    'next_cursor of the previous page; entries that were added or deleted since then cause no gaps or repeats',
    /^[A-Za-z0-9_-]+$/,
    'must be a next_cursor of an earlier page',
    MAX_BASE64_CHARS,
  ),
});

export const readContentQuery = z.object(place);

export const writeContentQuery = z.object({
  ...place,
  mode: queryText(
    'permissions in octal, such as 0600; default: those of the existing file without set-user-id bits, otherwise 0644',
    MODE,
    MODE_ERROR,
    5,
  ),
  parents: querySwitch('false', false, 'false: missing directories of the path are an error'),
  attributes: fileAttributesQuery,
});

export const watchFilesQuery = z.object({
  ...place,
  recursive: querySwitch(
    'true',
    true,
    `true: watch the directories in it, too, at all levels; at most ${MAX_WATCHED_DIRECTORIES} in all watches of a ` +
      'sandbox',
  ),
});

export const removeFilesQuery = z.object({
  ...place,
  recursive: querySwitch('true', true, 'true: remove a directory with everything in it'),
});

export const makeDirectoryRequest = z
  .object(
    {
      ...bodyPlace,
      mode: bodyMode('permissions in octal; default: 0755'),
      parents: withDefault(z.boolean({ error: 'must be true or false' }), true, 'make missing parents, too'),
      may_exist: withDefault(
        z.boolean({ error: 'must be true or false' }),
        false,
        'an existing directory is not an error; it stays as it is',
      ),
    },
    NOT_OBJECT,
  )
  .describe('a directory to make');

const target = {
  to: bodyPath('absolute path of the new name in the guest'),
  to_base64: bodyBase64('the new name as base64 of its bytes, if they are not UTF-8'),
  overwrite: withDefault(
    z.boolean({ error: 'must be true or false' }),
    false,
    'replace a file, link or empty directory of that name; otherwise an existing name is an error',
  ),
};

export const moveFileRequest = z
  .object({ ...bodyPlace, ...target }, NOT_OBJECT)
  .describe('a file or directory to move');

export const copyFileRequest = z
  .object(
    {
      ...bodyPlace,
      ...target,
      recursive: withDefault(
        z.boolean({ error: 'must be true or false' }),
        false,
        'copy a directory with everything in it',
      ),
    },
    NOT_OBJECT,
  )
  .describe('a file or directory to copy');

export const changeFileRequest = z
  .object(
    {
      ...bodyPlace,
      mode: bodyMode('new permissions in octal'),
      owner: optionalText(
        text(USER_ERROR).max(MAX_USER_CHARS, tooLong(MAX_USER_CHARS)),
        'new owner, as name|uid[:group|gid]; without a group, the group stays',
      ),
      modified_at: optional(
        z.iso.datetime({ error: 'must be a time as 2026-01-31T12:00:00Z', offset: true }),
        'new modification time',
      ),
      attributes: optional(
        fileAttributesPatch,
        'extended attributes of the namespace user, by their names without that prefix; null removes one, others stay',
      ),
    },
    NOT_OBJECT,
  )
  .describe('attributes to change; absent ones stay as they are');

export const FILE_TYPES = [
  'file',
  'directory',
  'symlink',
  'fifo',
  'socket',
  'character-device',
  'block-device',
] as const;

export const fileEntry = z
  .object({
    name: word('last part of the path'),
    path: word('absolute path below the root of the request; bytes that are not UTF-8 are shown as U+FFFD'),
    path_base64: word('the path as base64, if it is not UTF-8').optional(),
    type: z.enum(FILE_TYPES).describe('kind of the file'),
    size_bytes: count('size of the content in bytes'),
    mode: word('permissions in octal, such as 0644'),
    uid: count('user id of the owner'),
    gid: count('group id'),
    user: word('name of the owner, if the guest has one').optional(),
    group: word('name of the group, if the guest has one').optional(),
    modified_at: dateTime('modification time'),
    links: count('number of hard links'),
    target: word('target of a symbolic link; bytes that are not UTF-8 are shown as U+FFFD').optional(),
    target_base64: word('the target as base64, if it is not UTF-8').optional(),
    attributes: z
      .record(z.string(), z.string())
      .optional()
      .describe(
        'with with_attributes: extended attributes of the namespace user, without that prefix; those that are not ' +
          'UTF-8 are left out, and those beyond 64 KiB',
      ),
    etag: word('ETag of the file: changes with its content and attributes'),
    warnings,
  })
  .describe('a file of the guest');

export const WATCH_EVENTS = [
  'armed',
  'create',
  'write',
  'attrib',
  'remove',
  'rename',
  'overflow',
  'end',
] as const;
export const WATCH_ENDS = ['removed', 'unreadable', 'limit', 'lost', 'stopping'] as const;

export const watchEvent = z
  .object({
    type: z
      .enum(WATCH_EVENTS)
      .describe(
        'armed: every change from here on is reported. create: a new entry, or another one in place of it. write: ' +
          'new content. attrib: other permissions, owner or time. remove: the entry is gone. rename: it has a new ' +
          'name. overflow: changes were lost, list the directory again. end: nothing follows',
      ),
    path: word(
      'absolute path below the root of the request; bytes that are not UTF-8 are shown as U+FFFD',
    ).optional(),
    path_base64: word('the path as base64, if it is not UTF-8').optional(),
    from: word('of a rename: the former path').optional(),
    from_base64: word('the former path as base64, if it is not UTF-8').optional(),
    directory: flag('the entry is a directory'),
    closed: flag('of a write: the program has closed the file'),
    directories: count('of armed and overflow: number of directories that are watched').optional(),
    reason: z
      .enum(WATCH_ENDS)
      .optional()
      .describe(
        'of end. removed: the directory was removed, moved or unmounted. unreadable: the user may no longer read it. ' +
          'limit: there are too many directories. lost: the sandbox ended, or does not respond. stopping: the daemon ' +
          'stops',
      ),
    message: word('of end: the reason as a sentence').optional(),
  })
  .describe('one change in a watched directory');

export type WatchEventBody = z.output<typeof watchEvent>;

export const fileList = z
  .object({
    entries: z.array(fileEntry).describe('depth first; names of each directory in the order of their bytes'),
    next_cursor: nextCursor,
  })
  .describe('entries of a directory');

export const copyResult = fileEntry
  .extend({ left_out: count('number of sockets, FIFOs and devices that were not copied') })
  .describe('the copy');

export const removeResult = z
  .object({ removed: count('number of files and directories removed'), warnings })
  .describe('what was removed');
