// `sandbox version`: versions of the command and of the daemon's API.
import about from '../../../../package.json' with { type: 'json' };
import type { Verb } from '../verb.ts';

export const version: Verb = {
  name: 'version',
  operands: '',
  summary: 'Show the versions of the command and of the daemon’s API',
  flags: {},
  example: 'sandbox version',
  async run(_, { client, terminal, signal, isJson, host }) {
    const daemon = await client.interfaceVersion({ signal, timeoutMs: 5000 }).catch((error: Error) => error);
    const seen = daemon instanceof Error ? { error: daemon.message } : { interface: daemon };
    if (isJson) terminal.printJson({ command: about.version, host, ...seen });
    else {
      terminal.print(`command    ${about.version}`);
      terminal.print(
        `daemon     ${host}: ${daemon instanceof Error ? daemon.message : `interface ${daemon}`}`,
      );
    }
    return daemon instanceof Error ? 1 : 0;
  },
};
