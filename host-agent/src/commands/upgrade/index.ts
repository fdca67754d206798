// `sandboxd upgrade --check`: what this build would make of a data directory of another one. It changes nothing.
import { UsageError } from '@sandboxd/api/command-line';
import { ConfigError } from '../../config/index.ts';
import { worstOf } from '../../lib/findings.ts';
import { VERSION } from '../../lib/version.ts';
import type { Command } from '../command.ts';
import { fault, realHost } from '../doctor/host.ts';
import { examine, type Report, renderGroup } from '../doctor/index.ts';
import { loadSharedConfig, SHARED_FLAGS } from '../shared-config.ts';
import { data } from './data.ts';

const EXIT = { ok: 0, warning: 1, fault: 2 } as const;

export const upgrade: Command = {
  name: 'upgrade',
  operands: '',
  summary:
    'with --check, and of the new version: say what it would do with the data directory; exits with 0 when nothing is needed, 1 with warnings, 2 when it would not start',
  flags: {
    ...SHARED_FLAGS,
    check: { type: 'boolean', help: 'check only; there is nothing else, as apt installs packages' },
    json: { type: 'boolean', help: 'print the report as JSON' },
  },
  run: async (input, signal) => {
    if (!input.isSet('check'))
      throw new UsageError('only `sandboxd upgrade --check` exists: a package is installed by apt');
    const findings = await read();
    const report: Report = [{ group: `data for sandboxd ${VERSION}`, findings }];
    if (input.isSet('json'))
      process.stdout.write(
        `${JSON.stringify({ version: VERSION, worst: worstOf(report), findings }, null, 2)}\n`,
      );
    else process.stdout.write(renderGroup(report[0]?.group ?? '', findings));
    process.exitCode = EXIT[worstOf(report)];

    async function read() {
      try {
        return await examine(data, realHost(loadSharedConfig(input)), signal);
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error;
        // The new version may not know a setting of the old one.
        return error.problems.map((problem) =>
          fault('settings', problem, 'change the settings before the upgrade, or the daemon does not start'),
        );
      }
    }
  },
};
