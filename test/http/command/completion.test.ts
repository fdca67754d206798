// Completion in the shells themselves, with a daemon to ask.
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import type { Images } from '../../../host-agent/src/images/index.ts';
import { COMMAND, runCommand } from '../../support/command.ts';
import { openPty } from '../../support/pty.ts';
import { FakeImages } from '../fake-images.ts';
import { serve } from '../support.ts';

t.setTimeout(300_000);
const run = promisify(execFile);

/** A home with the command in PATH, the scripts of its shells, and files to complete. */
async function connect(t: Test) {
  const { url, sandboxes } = await serve(t, { images: new FakeImages().store as Images });
  const { id } = sandboxes.add();
  const snapshot = (await sandboxes.snapshot(id)).id;
  const home = t.testdir({ bin: {}, files: { 'notes.txt': '', 'name with blanks': '' }, fpath: {} });
  const program = COMMAND.map((word) => `'${word}'`).join(' ');
  writeFileSync(join(home, 'bin/sandbox'), `#!/bin/sh\nexec ${program} "$@"\n`, { mode: 0o755 });
  const env = {
    HOME: home,
    HISTFILE: '/dev/null',
    XDG_CONFIG_HOME: join(home, 'config'),
    XDG_DATA_HOME: join(home, 'data'),
    ZDOTDIR: home,
    SANDBOXD_HOST: url,
    SANDBOXD_API_KEY: '',
    SANDBOXD_CA: '',
    PATH: `${join(home, 'bin')}:${process.env.PATH}`,
  };
  for (const [shell, name] of [
    ['bash', 'completion.bash'],
    ['zsh', 'fpath/_sandbox'],
    ['fish', 'completion.fish'],
  ] as const) {
    const { code, stdout } = await runCommand(['completion', shell], env);
    t.equal(code, 0);
    writeFileSync(join(home, name), stdout);
  }
  return { id, snapshot, home, env };
}

t.test('bash, as its readline calls it', async (t) => {
  const { id, snapshot, home, env } = await connect(t);
  const complete = async (...words: string[]): Promise<string[]> => {
    const script = `source ${home}/completion.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sandbox; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const options = { encoding: 'utf8', env: { ...process.env, ...env }, cwd: join(home, 'files') } as const;
    return (await run('bash', ['-c', script, 'bash', ...words], options)).stdout.trim().split('\n');
  };
  t.same(await complete('sandbox', 'sna'), ['snapshot', 'snapshots']);
  t.same(await complete('sandbox', 'run', '--mem'), ['--memory']);
  t.same(await complete('sandbox', 'run', ''), ['base', 'nginx:alpine']);
  t.same(await complete('sandbox', 'exec', '-it', 'sb'), [id]);
  t.same(await complete('sandbox', 'rm', ''), [id, snapshot]);
  t.same((await complete('sandbox', 'cp', 'n')).sort(), ['name with blanks', 'notes.txt']);
  t.same(await complete('sandbox', 'cp', 'notes.txt', 'sb'), [`${id}:`]);
  t.same(
    await complete('sandbox', '--host', 'http://127.0.0.1:1', 'exec', ''),
    [''],
    'nobody there is no error',
  );
});

t.test('bash, with keys', async (t) => {
  const { id, home, env } = await connect(t);
  const rc = join(home, 'rc');
  writeFileSync(rc, `PS1='ready> '\nbind 'set bell-style none'\nsource <(sandbox completion bash)\n`);
  const pty = await openPty(t, ['bash', '--noprofile', '--rcfile', rc, '-i'], env);
  await pty.shows('ready> ');
  pty.type('echo sandbox exec; sandbox insp\t');
  await pty.shows('sandbox inspect ');
  pty.type(`sb\t`);
  await pty.shows(`sandbox inspect ${id} `);
  pty.type('\r');
  await pty.shows(`"id": "${id}"`);
});

t.test('fish', async (t) => {
  const { id, snapshot, home, env } = await connect(t);
  const complete = async (line: string): Promise<string[]> => {
    const script = `source ${home}/completion.fish; complete -C '${line}'`;
    const options = { encoding: 'utf8', env: { ...process.env, ...env }, cwd: join(home, 'files') } as const;
    return (await run('fish', ['--no-config', '-c', script], options)).stdout.trim().split('\n').sort();
  };
  t.same(await complete('sandbox sna'), [
    'snapshot\tTake a snapshot of a sandbox, which keeps running',
    'snapshots\tList the snapshots',
  ]);
  t.match(await complete('sandbox run --mem'), [/^--memory\tmemory, such as/]);
  t.same(await complete('sandbox exec -it '), [`${id}\tbase`]);
  t.same(await complete('sandbox rm '), [`${id}\tbase`, `${snapshot}\tof ${id}`].sort());
  t.same(await complete('sandbox run --pull '), ['always', 'missing', 'never']);
  t.match(await complete('sandbox cp no'), [/^notes\.txt/]);
  t.same(await complete(`sandbox cp notes.txt sb`), [`${id}:\tbase`]);
});

t.test('zsh, with keys', async (t) => {
  const { id, home, env } = await connect(t);
  mkdirSync(join(home, 'zsh'), { recursive: true });
  const setUp = [
    `PS1='ready> '`,
    'unsetopt beep',
    `zstyle ':completion:*' list-prompt ''`,
    `fpath=(${home}/fpath $fpath)`,
    `autoload -U compinit; compinit -u -d ${home}/zsh/dump`,
    `cd ${home}/files`,
  ];
  writeFileSync(join(home, '.zshrc'), `${setUp.join('\n')}\n`);
  const pty = await openPty(t, ['zsh', '-i'], env);
  await pty.shows('ready> ');
  // The first one writes what all have in common.
  pty.type('sandbox sna\t\t');
  await pty.shows(/snapshot +-- Take a snapshot of a sandbox/);
  await pty.shows(/snapshots +-- List the snapshots/);
  pty.type('\x15sandbox insp\tsb\t\r');
  await pty.shows(`"id": "${id}"`);
  // What is typed while a command runs is not zsh's yet.
  await pty.shows(/"id"[\s\S]*ready> /);
  pty.type('\x15sandbox cp no\tsb\t/srv/x; echo done=$?\r');
  // What zsh writes itself has escape sequences within.
  await pty.shows(`notes.txt → ${id}:/srv/x`);
  await pty.shows(/done=\d/);

  await t.test('and by source, as the page has it', async (t) => {
    const other = t.testdir({});
    writeFileSync(
      join(other, '.zshrc'),
      `PS1='ready> '\nautoload -U compinit; compinit -u -d ${other}/dump\nsource <(sandbox completion zsh)\n`,
    );
    const sourced = await openPty(t, ['zsh', '-i'], { ...env, ZDOTDIR: other });
    await sourced.shows('ready> ');
    sourced.type('sandbox insp\tsb\t\r');
    await sourced.shows(`"id": "${id}"`);
  });
});
