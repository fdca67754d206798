// `sandbox exec`: a command in a sandbox.
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
    'The exit code is the command’s: 128 + n when signal n ended it, 124 when its time was over, 127 when there is no such program. The first Ctrl-C goes to the command, the second ends it.',
  flags: {
    ...EXEC_FLAGS,
    timeout: { type: 'string', placeholder: 'time', help: 'kill it after that, such as 30s or 10m' },
  },
  commandFrom: 1,
  count: [2, Number.POSITIVE_INFINITY],
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
