// `sandboxd snapshots …`: the verbs of `sandbox`, under the name that operators look for. A daemon answers them: it alone knows what is whole.
import { type Command, type Group, UsageError } from '../command.ts';

const exportOne: Command = {
  name: 'export',
  operands: '<snapshot>',
  summary: 'write a snapshot as one file, for another host',
  flags: {
    output: {
      type: 'string',
      short: 'o',
      placeholder: 'file',
      help: 'the file; - or none: standard output',
    },
  },
  run: ({ names, text }) => {
    const [id, ...more] = names;
    if (id === undefined || more.length > 0) throw new UsageError('one snapshot is needed');
    return ask(['export', '--output', text('output') ?? '-', '--', id]);
  },
};

const importOne: Command = {
  name: 'import',
  operands: '<file|->',
  summary: 'make a snapshot of what another host exported',
  flags: {
    'disk-only': { type: 'boolean', help: 'boot it from its disk; what was in its memory is lost' },
  },
  run: ({ names, isSet }) => {
    const [file, ...more] = names;
    if (file === undefined || more.length > 0)
      throw new UsageError('one file is needed, or - for standard input');
    return ask(['import', ...(isSet('disk-only') ? ['--disk-only'] : []), '--', file]);
  },
};

export const snapshots: Group = {
  name: 'snapshots',
  summary:
    'Snapshots on their way to another host. The daemon is asked that SANDBOXD_HOST and SANDBOXD_API_KEY name, or the context of `sandbox`.',
  commands: [exportOne, importOne],
};

async function ask(words: readonly string[]): Promise<void> {
  const { runProgram } = await import('@sandboxd/client/command');
  await runProgram(words);
}
