// `sandbox diff`: files that differ between two snapshots.
import type { FileDifference } from '../../contract.ts';
import { formatBytes } from '../terminal.ts';
import type { Verb } from '../verb.ts';
import { KINDS } from './files.ts';

/** As `git diff --name-status` has them. */
const LETTERS: Readonly<Record<string, string>> = { added: 'A', removed: 'D', changed: 'M' };

export const diff: Verb = {
  name: 'diff',
  operands: '<snapshot> <snapshot>',
  completes: ['snapshot', 'snapshot'],
  summary: 'List the files that differ between two snapshots',
  details: 'A: only in the second one. D: only in the first one. M: in both, but changed.',
  flags: {
    long: {
      type: 'boolean',
      short: 'l',
      help: 'show permissions, owner and size, with the former size, and what differs',
    },
  },
  example: 'sandbox diff before after',
  async run({ operands: [from = '', to = ''], isSet }, { client, terminal, signal, isJson }) {
    const isLong = isSet('long');
    const files: FileDifference[] = [];
    for await (const each of client.snapshots.get(from).diff(to, { signal })) {
      // A long list appears as it arrives.
      if (isJson || isLong) files.push(each);
      else terminal.print(`${LETTERS[each.change] ?? '?'} ${toName(each)}`);
    }
    if (isJson) terminal.printJson({ files });
    else if (isLong)
      terminal.table(
        ['', 'MODE', 'OWNER', 'SIZE', 'DIFFERS', 'PATH'],
        files.map((each) => [
          LETTERS[each.change] ?? '?',
          `${KINDS[each.kind] ?? '?'}${each.mode}`,
          `${each.uid}:${each.gid}`,
          toSize(each),
          each.differs?.join(',') ?? '',
          toName(each),
        ]),
      );
    return 0;
  },
};

function toName({ path, kind }: FileDifference): string {
  return kind === 'directory' && path !== '/' ? `${path}/` : path;
}

function toSize({ size_bytes, before }: FileDifference): string {
  const [now, then] = [size_bytes, before?.size_bytes].map((size) =>
    size === undefined ? '' : formatBytes(size),
  );
  return then === now || !then ? (now ?? '') : `${now || '-'} (${then})`;
}
