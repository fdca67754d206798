import pino from 'pino';
import t from 'tap';
import { openIsolation } from '../../../../host-agent/src/engines/isolation.ts';
import { Jail } from '../../../../host-agent/src/engines/jail/jail.ts';
import { HELPERS } from '../../../support/helper-programs.ts';
import { TEST_CGROUPS, TEST_UIDS } from '../../../support/jailed.ts';

/** A jail on a host without cgroups. */
const jail = { program: HELPERS.jail, uids: TEST_UIDS, cgroups: { ...TEST_CGROUPS, mount: '/dev/null' } };

function makeLog() {
  const lines: Record<string, unknown>[] = [];
  return { lines, log: pino({ base: null }, { write: (text) => void lines.push(JSON.parse(text)) }) };
}

t.test('a part that the host does not have is named once, and the rest holds', async (t) => {
  const { lines, log } = makeLog();
  const isolation = await openIsolation({ jail, isRequired: false, log });
  t.ok(isolation.jail);
  t.match(isolation.report, { enabled: true, missing: [/^cgroup version 2 \(/] });
  t.match(lines, [{ msg: /not support all parts of the VMM jail/, missing: isolation.report.missing }]);
  t.equal(lines.length, 1);
});

t.test('where isolation is required that is no jail', async (t) => {
  const { lines, log } = makeLog();
  await t.rejects(openIsolation({ jail, isRequired: true, log }), {
    code: 'unsupported',
    message:
      /^require_isolation: the jail of VMMs is not whole on this host: cgroup version 2 \(.*; mend that/,
  });
  t.same(lines, []);
});

t.test('missing isolation is reported in the log and to clients', async (t) => {
  const { lines, log } = makeLog();
  t.same(await openIsolation({ jail: undefined, isRequired: false, log }), {
    report: { enabled: false, missing: [] },
  });
  t.match(lines, [{ msg: /^insecure_no_jail: / }]);
});

t.test('a jail that lacks nothing is worth no word, and will do where one is required', async (t) => {
  const { lines, log } = makeLog();
  const { open } = Jail;
  t.teardown(() => {
    Jail.open = open;
  });
  const whole = { missing: [] as readonly string[] } as Jail;
  Jail.open = async () => whole;
  for (const isRequired of [false, true])
    t.strictSame(await openIsolation({ jail, isRequired, log }), {
      jail: whole,
      report: { enabled: true, missing: [] },
    });
  t.same(lines, []);
});
