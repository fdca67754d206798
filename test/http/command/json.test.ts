// --json of each verb: what it prints is JSON, its errors are, too, and exit codes stay.
import { join } from 'node:path';
import t from 'tap';
import { VERBS } from '../../../client/src/command/verbs.ts';
import type { Images } from '../../../host-agent/src/images/index.ts';
import { runCommand } from '../../support/command.ts';
import { FakeImages } from '../fake-images.ts';
import { serve, UNKNOWN_ID } from '../support.ts';

t.setTimeout(300_000);

/** Words of each verb that succeed, and some that fail; what goes on line by line is tested where it has something to say. */
type Case = {
  readonly fine?: readonly string[];
  readonly wrong?: readonly string[];
  /** Not JSON, whatever is asked for: a script, an archive, bytes. */
  readonly isOther?: true;
};

const COMMAND_ID = 'cmd_0123456789abc';

t.test('each verb', async (t) => {
  const images = new FakeImages();
  const { url, sandboxes } = await serve(t, { images: images.store as Images });
  sandboxes.script = (exec) => {
    exec.output('stdout', 'out\n');
    exec.exit({ exitCode: 0 });
  };
  sandboxes.serviceCalls.status = async () => ({ state: 'idle' });
  const home = t.testdir({ file: 'content' });
  const env = { SANDBOXD_HOST: url, XDG_CONFIG_HOME: home, TMPDIR: home, VISUAL: 'echo text >' };
  const { id } = sandboxes.add();
  const spare = sandboxes.add().id;
  const { id: snapshot } = await sandboxes.snapshot(id);
  const archive = join(home, 'saved.snap');
  const cases: Record<string, Case> = {
    run: { fine: ['base', 'true'], wrong: ['nosuch:', 'true'] },
    exec: { fine: [id, 'true'], wrong: [UNKNOWN_ID, 'true'] },
    code: { wrong: [UNKNOWN_ID, join(home, 'file')] },
    commands: { fine: [id], wrong: [UNKNOWN_ID] },
    attach: { wrong: [UNKNOWN_ID, COMMAND_ID] },
    wait: { fine: [id, COMMAND_ID], wrong: [id, 'nonsense'] },
    kill: { fine: [id, COMMAND_ID], wrong: [UNKNOWN_ID, COMMAND_ID] },
    ps: { fine: [] },
    update: { fine: ['--label', 'a=b', id], wrong: ['--no-name', UNKNOWN_ID] },
    inspect: { fine: [id], wrong: [UNKNOWN_ID] },
    pause: { fine: [spare] },
    resume: { fine: [spare] },
    stats: { fine: ['--no-stream'], wrong: [UNKNOWN_ID] },
    rm: { fine: [spare] },
    cp: {
      fine: [join(home, 'file'), `${id}:/srv/file`],
      wrong: [join(home, 'file'), `${UNKNOWN_ID}:/srv/file`],
    },
    ls: { fine: [`${id}:/srv`], wrong: [`${UNKNOWN_ID}:/srv`] },
    watch: { wrong: [`${UNKNOWN_ID}:/srv`] },
    cat: { wrong: [`${UNKNOWN_ID}:/srv/file`] },
    mkdir: { fine: [`${id}:/srv/new`], wrong: [`${UNKNOWN_ID}:/srv/new`] },
    mv: { fine: [`${id}:/srv/file`, '/srv/new'], wrong: [`${UNKNOWN_ID}:/srv/file`, '/srv/new'] },
    edit: { fine: [`${id}:/srv/file`], wrong: [`${UNKNOWN_ID}:/srv/file`] },
    logs: { wrong: [UNKNOWN_ID] },
    forward: { wrong: [UNKNOWN_ID, '0:80'] },
    connect: { wrong: [id, '80'] },
    ssh: { wrong: [id] },
    ports: { fine: ['publish', id, '8080:80'], wrong: [UNKNOWN_ID] },
    network: { fine: [id], wrong: [UNKNOWN_ID] },
    egress: { wrong: [UNKNOWN_ID] },
    secret: { fine: ['ls'], wrong: ['set', 'name', '--host', 'a.test', '--file', join(home, 'none')] },
    open: { wrong: [id, '3000'] },
    service: { fine: ['status', id], wrong: ['status', UNKNOWN_ID] },
    snapshot: { fine: [id], wrong: [UNKNOWN_ID] },
    snapshots: { fine: [] },
    diff: { fine: [snapshot, snapshot], wrong: [snapshot, 'snap_0000000000000'] },
    tree: { fine: [snapshot], wrong: ['snap_0000000000000'] },
    fork: { fine: ['-n', '2', snapshot], wrong: ['snap_0000000000000'] },
    rollback: { fine: [id, snapshot], wrong: [spare, snapshot] },
    export: { fine: ['-o', archive, snapshot], wrong: ['-o', archive, 'snap_0000000000000'] },
    import: { fine: [archive], wrong: [join(home, 'none')] },
    images: { fine: [] },
    pull: { fine: ['nginx'], wrong: ['nosuch'] },
    rmi: { fine: ['nginx'] },
    events: { wrong: ['--no-follow'] },
    mcp: { wrong: ['--tool', 'nosuch'] },
    checks: { fine: [] },
    keys: { fine: [] },
    hosts: { fine: [] },
    context: { fine: ['list'], wrong: ['use', 'nosuch'] },
    version: { fine: [] },
    completion: { fine: ['bash'], isOther: true },
  };
  t.same(Object.keys(cases).sort(), VERBS.map(({ name }) => name).sort(), 'each verb is here');
  for (const [verb, { fine, wrong, isOther }] of Object.entries(cases)) {
    const ask = (words?: readonly string[]) => (words ? runCommand(words, env) : undefined);
    const [ended, failed] = await Promise.all([
      ask(fine && ['--json', verb, ...fine]),
      ask(wrong && [verb, '--json', ...wrong]),
    ]);
    if (ended !== undefined) {
      const { code, stdout, stderr } = ended;
      t.equal(code, 0, `${verb}: ${stderr}`);
      t.not(stdout, '', verb);
      if (isOther) continue;
      t.doesNotThrow(() => JSON.parse(stdout), `${verb}: ${stdout}`);
    }
    if (failed === undefined) continue;
    t.not(failed.code, 0, verb);
    t.equal(failed.stdout, '', verb);
    const last = failed.stderr.trim().split('\n').at(-1) ?? '';
    t.match(JSON.parse(last), { error: /./ }, `${verb}: ${failed.stderr}`);
  }
});

t.test('an error has its status and request; a command its exit code', async (t) => {
  const { url, sandboxes } = await serve(t);
  sandboxes.script = (exec) => {
    exec.output('stdout', 'out');
    exec.output('stderr', 'err');
    exec.exit({ exitCode: 3 });
  };
  const env = { SANDBOXD_HOST: url, XDG_CONFIG_HOME: t.testdir({}) };
  const { id } = sandboxes.add();
  const unknown = await runCommand(['--json', 'inspect', UNKNOWN_ID], env);
  t.match(JSON.parse(unknown.stderr), {
    error: /does not exist/,
    code: 'not_found',
    status: 404,
    request_id: /^req_/,
  });
  for (const words of [
    ['exec', id, 'x'],
    ['run', '--rm', 'base', 'x'],
  ]) {
    const { code, stdout, stderr } = await runCommand(['--json', ...words], env);
    t.match({ code, stderr }, { code: 3, stderr: '' });
    t.match(JSON.parse(stdout), { sandbox: /^sbx_/, stdout: 'out', stderr: 'err', exit_code: 3 });
  }
  t.equal(sandboxes.list().length, 1, '--rm removed its own');
  t.match(await runCommand(['--json', 'exec', '-i', id, 'x'], env), {
    code: 2,
    stderr: /^\{"error":"--json is for/,
  });
  const both = await runCommand(['--json', 'rm', UNKNOWN_ID, id], env);
  t.equal(both.code, 1);
  t.match(JSON.parse(both.stdout), {
    removed: 1,
    deleted: [id],
    failed: [{ id: UNKNOWN_ID, error: /does not exist/ }],
  });
  const nobody = { ...env, SANDBOXD_HOST: 'http://127.0.0.1:1' };
  t.match(await runCommand(['--json', 'ps'], nobody), {
    code: 1,
    stdout: '',
    stderr: /^\{"error":"[^"]*127\.0\.0\.1:1/,
  });
  const version = await runCommand(['--json', 'version'], nobody);
  t.equal(version.code, 1, 'the daemon is part of what is asked');
  t.match(JSON.parse(version.stdout), { command: String, error: String });
});
