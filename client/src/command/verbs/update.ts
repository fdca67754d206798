// `sandbox update`: changes what clients say about a sandbox, a snapshot or an image.
import { type Input, UsageError } from '@sandboxd/api/command-line';
import type { SnapshotChanges, UpdateOptions } from '../../contract.ts';
import { resolveWord } from '../names.ts';
import { toLabelChanges, toSeconds } from '../units.ts';
import type { Session, Verb } from '../verb.ts';

/** Flags for each kind. */
const FLAGS = {
  sandbox: [
    'name',
    'no-name',
    'label',
    'timeout',
    'idle-timeout',
    'idle-action',
    'timeout-action',
    'auto-resume',
  ],
  snapshot: ['name', 'no-name', 'label', 'comment', 'no-comment'],
  image: ['label'],
} as const;

const PLURALS = { sandbox: 'sandboxes', snapshot: 'snapshots', image: 'images' } as const;

export const update: Verb = {
  name: 'update',
  operands: '<sandbox|snapshot|image>',
  completes: ['id'],
  resolvesNames: true,
  summary: 'Change name, labels or timeouts of a sandbox, a snapshot or an image',
  details:
    'All changes are made, or none. Snapshots have a comment and no timeouts, images have labels only; --image says that the argument is an image.',
  flags: {
    image: { type: 'boolean', help: 'the argument is an image' },
    name: { type: 'string', placeholder: 'name', help: 'new name' },
    'no-name': { type: 'boolean', help: 'remove the name' },
    label: {
      type: 'string',
      short: 'l',
      multiple: true,
      placeholder: 'key=value|key-',
      help: 'set a label; key- removes it',
    },
    comment: { type: 'string', placeholder: 'text', help: 'new comment of a snapshot' },
    'no-comment': { type: 'boolean', help: 'remove the comment of a snapshot' },
    timeout: {
      type: 'string',
      placeholder: 'time',
      help: 'lifetime from now, such as 30s or 2h; 0s removes it',
    },
    'idle-timeout': { type: 'string', placeholder: 'time', help: 'idle timeout; 0s removes it' },
    'idle-action': {
      type: 'string',
      placeholder: 'delete|snapshot|pause',
      help: 'action after the idle timeout',
    },
    'timeout-action': {
      type: 'string',
      placeholder: 'delete|pause',
      help: 'action at the end of its lifetime',
    },
    'auto-resume': {
      type: 'string',
      placeholder: 'on|off',
      help: 'whether use of it resumes it when it is paused',
    },
  },
  example: 'sandbox update --label team=compilers --timeout 2h $ID',
  async run(input, session) {
    const [word = ''] = input.operands;
    const { client, terminal, signal, isJson } = session;
    const isImage = input.isSet('image');
    checkFlags(isImage ? 'image' : undefined, input);
    const id = isImage ? word : await resolveWord('id', word, () => client, signal);
    if (!isImage) checkFlags(id.startsWith('snap_') ? 'snapshot' : 'sandbox', input);
    const changed = await change(id, input, session);
    if (isJson) terminal.printJson(changed);
    else terminal.print('digest' in changed ? changed.digest : changed.id);
    return 0;
  },
};

function change(id: string, input: Input, { client, signal }: Session) {
  const labels = toLabelChanges(input.texts('label'));
  if (input.isSet('image')) return client.images.change(id, { user_labels: labels, signal });
  if (id.startsWith('snap_')) {
    const changes: SnapshotChanges = {
      ...toNamed(input),
      ...toComment(input),
      ...(Object.keys(labels).length > 0 && { labels }),
    };
    return client.snapshots.get(id).change({ ...changes, signal });
  }
  const [timeout, idleTimeout, idleAction] = ['timeout', 'idle-timeout', 'idle-action'].map(input.text);
  const [timeoutAction, autoResume] = ['timeout-action', 'auto-resume'].map(input.text);
  const changes: UpdateOptions = {
    ...toNamed(input),
    ...(Object.keys(labels).length > 0 && { labels }),
    ...(timeout !== undefined && { timeout_s: toSeconds('timeout', timeout) }),
    ...(idleTimeout !== undefined && { idle_timeout_s: toSeconds('idle-timeout', idleTimeout) }),
    ...(idleAction !== undefined && { idle_action: idleAction as 'delete' }),
    ...(timeoutAction !== undefined && { timeout_action: timeoutAction as 'delete' }),
    ...(autoResume !== undefined && { auto_resume: toSwitch('auto-resume', autoResume) }),
  };
  return client.sandboxes.update(id, changes, { signal });
}

function toNamed(input: Input): { name?: string | null } {
  const name = input.text('name');
  return { ...(name !== undefined && { name }), ...(input.isSet('no-name') && { name: null }) };
}

function toComment(input: Input): { comment?: string | null } {
  const comment = input.text('comment');
  return { ...(comment !== undefined && { comment }), ...(input.isSet('no-comment') && { comment: null }) };
}

/** Throws UsageError. */
function toSwitch(flag: string, text: string): boolean {
  if (text === 'on' || text === 'off') return text === 'on';
  throw new UsageError(`--${flag} must be on or off, not ${JSON.stringify(text)}`);
}

/** Throws UsageError. `kind` is undefined before it is known. */
function checkFlags(kind: keyof typeof FLAGS | undefined, { text, texts, isSet }: Input): void {
  const all = [...new Set(Object.values(FLAGS).flat())];
  const given = all.filter((flag) => text(flag) !== undefined || texts(flag).length > 0 || isSet(flag));
  for (const flag of ['name', 'comment'] as const)
    if (text(flag) !== undefined && isSet(`no-${flag}`))
      throw new UsageError(`--${flag} and --no-${flag} exclude each other`);
  const known: readonly string[] = kind === undefined ? all : FLAGS[kind];
  const unfit = given.find((flag) => !known.includes(flag));
  if (unfit !== undefined)
    throw new UsageError(
      `--${unfit} is not for ${PLURALS[kind ?? 'image']}, which have --${known.join(', --')}`,
    );
  if (given.length === 0)
    throw new UsageError(`a flag is missing: ${known.map((flag) => `--${flag}`).join(', ')}`);
}
