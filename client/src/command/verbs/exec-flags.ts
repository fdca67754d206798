// Flags shared by `run` and `exec`.

import type { Input } from '@sandboxd/api/command-line';
import type { ExecOptions } from '../../exec/exec.ts';
import { toEnvironment } from '../units.ts';
import type { Flags } from '../verb.ts';

export const EXEC_FLAGS: Flags = {
  interactive: { type: 'boolean', short: 'i', help: 'forward standard input to the command' },
  tty: { type: 'boolean', short: 't', help: 'allocate a terminal for the command' },
  env: {
    type: 'string',
    short: 'e',
    multiple: true,
    placeholder: 'NAME=value',
    help: 'set a variable; NAME alone passes your own value',
  },
  workdir: { type: 'string', short: 'w', placeholder: 'path', help: 'working directory' },
  user: {
    type: 'string',
    short: 'u',
    placeholder: 'name[:group]',
    help: 'user of the command; default: root',
  },
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
