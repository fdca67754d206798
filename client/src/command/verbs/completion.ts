// `sandbox completion`: prints completion scripts.

import { UsageError } from '@sandboxd/api/command-line';
import { BASH, FISH, ZSH } from '../completions.ts';
import type { Verb } from '../verb.ts';

const SHELLS: Readonly<Record<string, string>> = { bash: BASH, zsh: ZSH, fish: FISH };
const NAMES = Object.keys(SHELLS);

export const completion: Verb = {
  name: 'completion',
  operands: `<${NAMES.join('|')}>`,
  completes: [NAMES],
  summary: 'Print the completion script of a shell',
  flags: {},
  example: 'source <(sandbox completion bash)',
  async run({ operands: [shell = ''] }, { terminal }) {
    const script = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined;
    if (script === undefined)
      throw new UsageError(
        `there is no completion for ${JSON.stringify(shell)}; known are ${NAMES.join(', ')}`,
      );
    terminal.stdout.write(script);
    return 0;
  },
};
