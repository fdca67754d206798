// `sandbox exec`: runs a command in a sandbox.
import { attach, attachJson } from '../attach.ts';
import { toSeconds } from '../units.ts';
import type { Verb } from '../verb.ts';
import { EXEC_FLAGS, toExecOptions } from './exec-flags.ts';

export const exec: Verb = {
  name: 'exec',
  operands: '<sandbox> <command…>',
  completes: ['sandbox', 'path'],
  summary: 'Run a command in a sandbox',
  details:
    'The exit code is the command’s: 128 + n after signal n, 124 after a timeout, 127 for an unknown program. The first Ctrl-C goes to the command, the second kills it.',
  flags: {
    ...EXEC_FLAGS,
    timeout: {
      type: 'string',
      placeholder: 'time',
      help: 'kill the command after this time, such as 30s or 10m',
    },
  },
  commandFrom: 1,
  example: 'sandbox exec -it $ID bash',
  async run(input, session) {
    const [id = '', ...cmd] = input.operands;
    const timeout = input.text('timeout');
    const limit = timeout === undefined ? {} : { timeoutS: toSeconds('timeout', timeout) };
    const options = { ...toExecOptions(input), ...limit };
    const sandbox = session.client.sandboxes.get(id);
    return (session.isJson ? attachJson : attach)(sandbox, cmd, options, session);
  },
};
