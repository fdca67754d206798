// `sandbox open`: a link to a port of a sandbox.
import { spawn } from 'node:child_process';
import { UsageError } from '@sandboxd/api/command-line';
import { SandboxdError } from '../../errors.ts';
import { toSeconds } from '../units.ts';
import type { Verb } from '../verb.ts';

const MAX_PORT = 65_535;

export const open: Verb = {
  name: 'open',
  operands: '<sandbox> <port>',
  completes: ['sandbox', []],
  summary: 'Print a link to a port of a sandbox, for a browser',
  details:
    'The link opens the port to every client that has it, until it expires. The daemon needs an ingress (--ingress-listen).',
  flags: {
    browser: { type: 'boolean', short: 'b', help: 'open the link in a browser of this machine' },
    expires: { type: 'string', placeholder: 'duration', help: 'such as 30m; default: a day' },
  },
  example: 'sandbox open $ID 3000',
  async run({ operands: [id = '', word = ''], isSet, text }, { client, terminal, signal, isJson }) {
    const port = /^\d{1,5}$/.test(word) ? Number(word) : 0;
    if (port < 1 || port > MAX_PORT)
      throw new UsageError(`${JSON.stringify(word)} is not a port from 1 to ${MAX_PORT}`);
    const expires = text('expires');
    const link = await client.sandboxes.get(id).ports.link(port, {
      ...(expires !== undefined && { expiresS: toSeconds('expires', expires) }),
      signal,
    });
    if (isJson) terminal.printJson(link);
    else terminal.print(link.url);
    if (isSet('browser')) await openBrowser(link.url);
    return 0;
  },
};

function openBrowser(url: string): Promise<void> {
  if (!/^https?:\/\//.test(url)) throw new SandboxdError('the link of the daemon is not a web address');
  const program = process.platform === 'darwin' ? 'open' : 'xdg-open';
  return new Promise((resolve, reject) => {
    const child = spawn(program, [url], { stdio: 'ignore', detached: true });
    child.once('error', (cause) =>
      reject(new SandboxdError(`cannot run ${program}: ${cause.message}`, { cause })),
    );
    child.once('spawn', () => {
      child.unref();
      resolve();
    });
  });
}
