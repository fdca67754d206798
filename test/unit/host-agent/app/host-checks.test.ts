// The checks of doctor as the daemon runs them: by a program of the test, and by doctor itself.
import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { HostChecks } from '../../../../host-agent/src/app/host-checks.ts';
import type { Finding } from '../../../../host-agent/src/lib/findings.ts';

const WARNING = { name: 'clock', level: 'warning', seen: 'late', advice: 'install chrony' };
const REPORT = { version: '1', worst: 'warning', groups: [{ group: 'machine', findings: [WARNING] }] };

/** A program that is called in place of doctor; `calls` has one line for each call. */
function open(t: Test, script: string, more: readonly Finding[] = []) {
  const dir = t.testdir({ run: {} });
  const [program, calls, run] = [join(dir, 'doctor'), join(dir, 'calls'), join(dir, 'run')];
  writeFileSync(program, `#!/bin/sh\necho "$@" >> ${calls}\n${script}\n`);
  chmodSync(program, 0o700);
  const stop = new AbortController();
  const checks = new HostChecks({
    ...{ command: [program, 'doctor'], settings: '{"a": 1}', dir: run, stopping: stop.signal },
    more: async () => more,
  });
  return { checks, run, stop, calls: () => readFileSync(calls, 'utf8').trim().split('\n') };
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

t.test('the settings file is judged by the daemon, which knows it', async (t) => {
  const none = { name: 'careless', level: 'ok', seen: 'none' };
  const report = { ...REPORT, groups: [...REPORT.groups, { group: 'settings', findings: [none] }] };
  const script = `echo '${JSON.stringify(report)}'`;
  const fault: Finding = { name: 'config', level: 'fault', seen: 'others can write it', advice: 'chown' };
  const { worst, groups } = await open(t, script, [fault]).checks.read();
  t.equal(worst, 'fault');
  t.same(groups.at(-1), { group: 'settings', findings: [fault] });
  t.same((await open(t, script).checks.read()).groups.at(-1), { group: 'settings', findings: [none] });
});

t.test('a daemon that stops ends it', async (t) => {
  const { checks, run, stop } = open(t, 'exec sleep 60');
  const report = checks.read();
  stop.abort();
  t.match(await report, { worst: 'fault' });
  t.same(readdirSync(run), []);
});
