// Flags of what runs a command: `run` and `exec`.
import type { ExecOptions } from '../../exec/exec.ts';
import { toEnvironment } from '../units.ts';
import type { Flags, Input } from '../verb.ts';

export const EXEC_FLAGS: Flags = {
  interactive: { type: 'boolean', short: 'i', help: 'your input goes to the command' },
  tty: { type: 'boolean', short: 't', help: 'the command has a terminal' },
  env: {
    type: 'string',
    short: 'e',
    multiple: true,
    placeholder: 'NAME=value',
    help: 'a variable; NAME alone passes yours on',
  },
  workdir: { type: 'string', short: 'w', placeholder: 'path', help: 'directory to run in' },
  user: { type: 'string', short: 'u', placeholder: 'name[:group]', help: 'who to run as; root by default' },
};

export function toExecOptions({ text, texts, isSet }: Input) {
  const [cwd, user] = [text('workdir'), text('user')];
  const options: ExecOptions = {
    env: toEnvironment(texts('env')),
    ...(cwd !== undefined && { cwd }),
    ...(user !== undefined && { user }),
  };
  return { ...options, isInteractive: isSet('interactive'), hasTerminal: isSet('tty') };
}
