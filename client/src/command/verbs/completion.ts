// `sandbox completion`: what a shell needs to complete words, made of the table of verbs.
import { toBash, toFish, toZsh } from '../completions.ts';
import { UsageError, type Verb } from '../verb.ts';

const SHELLS = { bash: toBash, zsh: toZsh, fish: toFish } as const;
const NAMES = Object.keys(SHELLS);

export function completion(others: readonly Verb[]): Verb {
  const self: Verb = {
    name: 'completion',
    operands: `<${NAMES.join('|')}>`,
    completes: [NAMES],
    summary: 'Print what a shell needs to complete words of this command',
    flags: {},
    count: [1, 1],
    example: 'source <(sandbox completion bash)',
    async run({ operands: [shell = ''] }, { terminal }) {
      const render = Object.hasOwn(SHELLS, shell) ? SHELLS[shell as keyof typeof SHELLS] : undefined;
      if (render === undefined)
        throw new UsageError(
          `there is no completion for ${JSON.stringify(shell)}; say one of ${NAMES.join(', ')}`,
        );
      terminal.stdout.write(render([...others, self]));
      return 0;
    },
  };
  return self;
}
