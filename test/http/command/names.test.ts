// Names and labels of sandboxes on the command line.
import t, { type Test } from 'tap';
import { runCommand } from '../../support/command.ts';
import { serve } from '../support.ts';

async function connect(t: Test) {
  const { url, sandboxes } = await serve(t);
  const env = { SANDBOXD_HOST: url, XDG_CONFIG_HOME: t.testdir() };
  const { id } = sandboxes.add();
  return { sandboxes, id, run: (words: readonly string[]) => runCommand(words, env) };
}

t.test('a name is taken wherever an id is', async (t) => {
  const { run, id, sandboxes } = await connect(t);
  const info = sandboxes.get(id).info;
  Object.assign(info, { name: 'web', labels: { team: 'a' } });
  const other = sandboxes.add();
  t.same(JSON.parse((await run(['inspect', 'web'])).stdout)[0].id, id);
  t.match(await run(['exec', 'web', 'true']), { code: 0 });
  t.match(await run(['ls', 'web:/srv']), { code: 0 });
  t.match(await run(['inspect', 'api']), { code: 1, stderr: /there is no sandbox with the name api/ });
  t.equal((await run(['ps', '-q', '--label', 'team=a', '--state', 'running'])).stdout, `${id}\n`);
  t.match(
    await run(['update', 'web', '--label', 'b=c', '--label', 'team-', '--timeout', '1h', '--no-name']),
    {
      code: 0,
      stdout: `${id}\n`,
    },
  );
  t.match(sandboxes.patches, [{ name: null, labels: { b: 'c', team: null }, timeoutS: 3600 }]);
  t.match(await run(['update', 'web']), { code: 2, stderr: /a flag is missing/ });
  Object.assign(other, { name: 'web' });
  t.match(await run(['inspect', 'web']), {
    code: 2,
    stderr: /several sandboxes have the name web: sbx_.*; give an id/,
  });
  Object.assign(other, { name: 'api' });
  t.match(await run(['rm', 'nosuch', 'api']), { code: 1, stdout: `${other.id}\n`, stderr: /name nosuch/ });
  await run(['run', '-d', '--name', 'new', '--label', 'a=b', 'base']);
  t.match(sandboxes.created.at(-1), { name: 'new', labels: { a: 'b' } });
});
