// The npm package of the library: what is in it, and whether another program can be made with it.
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { buildClient } from '../../../scripts/build-client.ts';

t.setTimeout(120_000);
const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, '../../..');

const CONSUMER = `
import { Client, CommandError, NotFoundError, type SandboxInfo } from '@sandboxd/client';
const client = new Client({ host: 'http://127.0.0.1:1', retries: 0 });
export async function use(): Promise<string> {
  await using sandbox = await client.sandboxes.create({ memory_mib: 512, network: { enabled: true, allowlist: ['a.b'] } });
  const info: SandboxInfo = await sandbox.info();
  for await (const { stream, text } of sandbox.exec(['make'], { stdin: 'x' })) console.log(stream, text, info.vcpus);
  // @ts-expect-error a number is no command
  sandbox.exec(5);
  // @ts-expect-error there is no such field
  await client.sandboxes.create({ memory: 5 });
  return sandbox.exec(['make']).text();
}
try {
  await client.health();
} catch (error) {
  console.log(error instanceof CommandError, error instanceof NotFoundError, (error as Error).name);
}
`;

t.test('it needs no other package, and browsers no module of Node', async (t) => {
  const home = t.testdir({});
  const folder = join(home, 'node_modules/@sandboxd/client');
  mkdirSync(join(home, 'node_modules/@sandboxd'), { recursive: true });
  await buildClient(folder);
  const about = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  t.notOk(about.dependencies);
  const importsOf = (name: string) =>
    [...readFileSync(join(folder, name), 'utf8').matchAll(/^import .*from "([^"]+)"/gm)].map(
      ([, from]) => from,
    );
  t.ok(importsOf('index.js').every((from) => builtinModules.includes(from?.replace('node:', '') ?? '')));
  t.same(importsOf('browser.js'), []);
  t.notMatch(readFileSync(join(folder, 'browser.js'), 'utf8'), /require\(|from "node:/);

  symlinkSync(join(ROOT, 'node_modules/@types'), join(home, 'node_modules/@types'));
  writeFileSync(join(home, 'package.json'), '{"type":"module"}');
  writeFileSync(join(home, 'consumer.ts'), CONSUMER);
  const options = [
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2024',
    '--lib',
    'es2024,esnext.disposable',
  ];
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  await run(process.execPath, [tsc, ...options, '--types', 'node', 'consumer.ts'], { cwd: home }).catch(
    ({ stdout }: { stdout: string }) => t.fail(stdout),
  );
  const { stdout } = await run(process.execPath, ['consumer.js'], { cwd: home });
  t.equal(stdout.trim(), 'false false ConnectionError');
});
