// `sandbox watch`: changes in a directory of a sandbox.

import type { WatchEvent } from '../../contract.ts';
import { SandboxdError } from '../../errors.ts';
import type { Verb } from '../verb.ts';
import { toVisible } from '../visible.ts';
import { options, placeOf, USER } from './files.ts';

export const watch: Verb = {
  name: 'watch',
  operands: '<sandbox:path>',
  completes: ['place'],
  summary: 'Show changes in a directory of a sandbox as they happen',
  details:
    'Begins with a line `armed`: every change after it is shown. After `overflow` some were lost. A write is shown again when the program closes the file.',
  flags: {
    ...USER,
    recursive: { type: 'boolean', short: 'R', help: 'watch the directories in it, too' },
  },
  example: 'sandbox watch -R $ID:/srv',
  async run(input, session) {
    const { id, path } = placeOf(input.operands[0]);
    const { client, terminal, isJson } = session;
    const { files } = client.sandboxes.get(id);
    const recursive = input.isSet('recursive');
    for await (const event of files.watch(path, { recursive, ...options(input, session) })) {
      if (isJson) await terminal.writeJson(event);
      else if (event.type !== 'end') await terminal.write(`${toVisible(describe(event))}\n`);
      if (event.type === 'end') throw new SandboxdError(`${path} is not watched any more: ${event.message}`);
    }
    return 0;
  },
};

function describe({ type, path, from, directory, closed, directories }: WatchEvent): string {
  const facts = [
    ...(from === undefined ? [] : [from, '→']),
    ...(path === undefined ? [] : [`${path}${directory ? '/' : ''}`]),
    ...(closed ? ['(closed)'] : []),
    ...(directories === undefined
      ? []
      : [`${directories} ${directories === 1 ? 'directory' : 'directories'}`]),
  ];
  return [type.padEnd(8), ...facts].join(' ');
}
