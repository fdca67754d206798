// The npm package of the library: what is in it, and whether another program can be made with it.
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import t from 'tap';
import { buildClient } from '../../../scripts/build-client.ts';

t.setTimeout(300_000);
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

const CONTENT = [
  'CHANGELOG.md',
  'LICENSE',
  'README.md',
  'browser.js',
  'index.js',
  'package.json',
  'parts',
  'sandbox.js',
  'types',
];

/** What npm makes of the built package, and what it installs of that, with no registry. */
async function install(home: string): Promise<string> {
  const built = join(home, 'built');
  await buildClient(built);
  const npm = { cwd: home, env: { ...process.env, npm_config_cache: join(home, 'cache') } };
  const { stdout } = await run('npm', ['pack', '--json', built], npm);
  writeFileSync(join(home, 'package.json'), '{"type":"module"}');
  const [{ filename }] = JSON.parse(stdout);
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', join(home, filename)], npm);
  return join(home, 'node_modules/@sandboxd/client');
}

t.test('it needs no other package, and browsers no module of Node', async (t) => {
  const home = t.testdir({});
  const folder = await install(home);
  t.same(readdirSync(join(home, 'node_modules')).toSorted(), ['.bin', '.package-lock.json', '@sandboxd']);
  const about = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  t.notOk(about.dependencies);
  t.match(about, {
    name: '@sandboxd/client',
    version: /^\d+\.\d+\.\d+$/,
    license: 'Apache-2.0',
    exports: { '.': { types: './types/index.d.ts' }, './package.json': './package.json' },
    publishConfig: { access: 'public', provenance: true },
  });
  t.notOk(about.private);
  t.same(readdirSync(folder).toSorted(), CONTENT);
  const readme = readFileSync(join(folder, 'README.md'), 'utf8');
  t.match(readme, /^# TypeScript library/);
  t.same(readme.match(/\]\((?!https?:|#)/g), null, 'no link leads out of the package');
  const importsOf = (name: string) =>
    [...readFileSync(join(folder, name), 'utf8').matchAll(/^import .*from "([^"]+)"/gm)].map(
      ([, from]) => from,
    );
  t.ok(importsOf('index.js').every((from) => builtinModules.includes(from?.replace('node:', '') ?? '')));
  t.same(importsOf('browser.js'), []);
  t.notMatch(readFileSync(join(folder, 'browser.js'), 'utf8'), /require\(|from "node:/);

  symlinkSync(join(ROOT, 'node_modules/@types'), join(home, 'node_modules/@types'));
  writeFileSync(join(home, 'consumer.ts'), CONSUMER);
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const options = ['--strict', '--types', 'node', '--target', 'es2024', '--lib', 'es2024,esnext.disposable'];
  for (const resolution of [
    ['--module', 'esnext', '--moduleResolution', 'bundler'],
    ['--module', 'node16'],
    ['--module', 'nodenext'],
  ])
    await t.resolves(
      run(process.execPath, [tsc, ...options, ...resolution, 'consumer.ts'], { cwd: home }).catch(
        ({ stdout }: { stdout: string }) => Promise.reject(new Error(stdout)),
      ),
      resolution.join(' '),
    );
  // The Node of the tests, and the oldest one that there is: the system's.
  for (const program of [process.execPath, 'node']) {
    const { stdout } = await run(program, ['consumer.js'], { cwd: home });
    t.equal(stdout.trim(), 'false false ConnectionError', program);
  }
  const { stdout } = await run(join(home, 'node_modules/.bin/sandbox'), ['--help']);
  t.match(stdout, /Usage: sandbox <verb>/);

  // What a bundler of web pages takes: the part for browsers.
  const { outputFiles, warnings } = await build({
    ...{ absWorkingDir: home, entryPoints: ['consumer.js'], bundle: true, platform: 'browser' },
    ...{ format: 'esm', write: false },
  });
  t.same(warnings, []);
  t.notMatch(outputFiles[0]?.text, /node:|require\(/);
});
