// `sandboxd snapshots …`: aliases of `sandbox export` and `import`. They call a daemon, which alone knows which
// snapshots are complete.
import type { Command, Group } from '../command.ts';

const exportOne: Command = {
  name: 'export',
  operands: '<snapshot>',
  summary: 'export a snapshot as one file for another host',
  flags: {
    output: {
      type: 'string',
      short: 'o',
      placeholder: 'file',
      help: 'output file; default, or -: standard output',
    },
  },
  run: ({ operands, text }) => {
    const [id = ''] = operands;
    return runClient(['export', '--output', text('output') ?? '-', '--', id]);
  },
};

const importOne: Command = {
  name: 'import',
  operands: '<file|->',
  summary: 'import a snapshot that another host exported',
  flags: {
    'disk-only': { type: 'boolean', help: 'discard its memory, so that its sandboxes boot from its disk' },
  },
  run: ({ operands, isSet }) => {
    const [file = ''] = operands;
    return runClient(['import', ...(isSet('disk-only') ? ['--disk-only'] : []), '--', file]);
  },
};

export const snapshots: Group = {
  name: 'snapshots',
  summary:
    'Transfer of snapshots between hosts. Calls the daemon of SANDBOXD_HOST and SANDBOXD_API_KEY, or of the context of `sandbox`.',
  commands: [exportOne, importOne],
};

async function runClient(args: readonly string[]): Promise<void> {
  const { runProgram } = await import('@sandboxd/client/command');
  await runProgram(args);
}
