// The checks of doctor as the daemon runs them: by a program of the test, and by doctor itself.
import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { HostChecks } from '../../../../host-agent/src/app/host-checks.ts';

const REPORT = { version: '1', worst: 'warning', groups: [{ group: 'machine', findings: [] }] };

/** A program that is called in place of doctor; `calls` has one line for each call. */
function open(t: Test, script: string) {
  const dir = t.testdir({ run: {} });
  const [program, calls, run] = [join(dir, 'doctor'), join(dir, 'calls'), join(dir, 'run')];
  writeFileSync(program, `#!/bin/sh\necho "$@" >> ${calls}\n${script}\n`);
  chmodSync(program, 0o700);
  const checks = new HostChecks({ command: [program, 'doctor'], settings: '{"a": 1}', dir: run });
  return { checks, run, calls: () => readFileSync(calls, 'utf8').trim().split('\n') };
}

t.test('one run serves all who ask, with the settings of the daemon, and leaves no file', async (t) => {
  const { checks, run, calls } = open(
    t,
    `cat "\${4#--config=}" >> "$0.settings"; echo '${JSON.stringify(REPORT)}'; exit 1`,
  );
  const [first, second] = await Promise.all([checks.read(), checks.read()]);
  t.match(first, { ...REPORT, checked_at: /^\d{4}-/ });
  t.equal(first, second);
  t.equal(await checks.read(), first);
  t.same(calls(), [`doctor --quick --json --config=${join(run, 'doctor-settings.json')}`]);
  t.equal(readFileSync(join(run, '../doctor.settings'), 'utf8'), '{"a": 1}');
  t.same(readdirSync(run), []);
});

t.test('a doctor that fails is a fault', async (t) => {
  for (const script of ['echo "sandboxd: no" >&2; exit 1', 'echo "{half"; exit 0', 'kill -9 $$']) {
    const { checks, run } = open(t, script);
    t.match(
      await checks.read(),
      {
        worst: 'fault',
        groups: [{ group: 'checks', findings: [{ level: 'fault', seen: /cannot be run: ./ }] }],
      },
      script,
    );
    t.same(readdirSync(run), []);
  }
});
