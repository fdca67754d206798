// `make check`: format and lint, types, import direction, words that belong to one engine, generated code, the
// document of the interface, the pages, the words of comments.
import { execFile } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { renderContract } from './client-contract.ts';
import { checkDocument } from './interface-document.ts';
import { findCodeFaults, findMessageFaults, findPageFaults } from './page-rules.ts';

process.chdir(resolve(import.meta.dirname, '..'));
const execute = promisify(execFile);
/** Tools are scripts of `node`: the pinned one comes first. */
const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}` };
const run = (file: string, args: string[]) => execute(file, args, { maxBuffer: 2 ** 26, env });

const PACKAGES = ['api', 'proto', 'guest-agent', 'rootfs-builder', 'host-agent', 'client', 'console'];
/** Names that only the folder of the engine itself may use. */
const ENGINE_WORDS = /qemu|cloud[ -]?hypervisor/i;
/** The program itself: its npm wrapper only looks for it. */
const BIOME = `node_modules/@biomejs/cli-linux-${process.arch}/biome`;
const GENERATED = 'proto/src/gen';

/** Each resolves when all is well and rejects with what is wrong. */
const checks: Readonly<Record<string, () => Promise<unknown>>> = {
  'format and lint': () =>
    run(BIOME, ['check', '--error-on-warnings', '--diagnostic-level=warn', '--max-diagnostics=50', '.']),
  types: () => tool('tsc', '-p', 'tsconfig.json', '--pretty'),
  'types of the console': () => tool('tsc', '-p', 'console/tsconfig.json', '--pretty'),
  'import direction': () =>
    tool('depcruise', '--config', '.dependency-cruiser.cjs', ...PACKAGES.map((name) => `${name}/src`)),
  'engine names': checkEngineWords,
  'generated code': checkGenerated,
  'interface document': checkDocument,
  pages: checkPages,
  'comments and messages': checkComments,
};

const results = await Promise.all(
  Object.entries(checks).map(async ([name, check]) => {
    const startedAt = performance.now();
    const problem = await check().then(() => undefined, toText);
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    console.log(`${problem === undefined ? 'ok    ' : 'FAILED'} ${name} (${seconds} s)`);
    if (problem !== undefined) console.log(problem.replace(/^/gm, '    '));
    return problem;
  }),
);
process.exitCode = results.every((problem) => problem === undefined) ? 0 : 1;

function tool(name: string, ...args: string[]): Promise<unknown> {
  return run(resolve('node_modules/.bin', name), args);
}

/** One line of code that knows an engine by name outside its folder would have to change with every new engine. */
async function checkEngineWords(): Promise<void> {
  const isExempt = (path: string) => /^host-agent\/src\/engines\/(?:index\.ts$|[^/]+\/)/.test(path);
  const found = globSync(`{${PACKAGES}}/src/**/*.{ts,tsx}`)
    .filter((path) => !isExempt(path))
    .flatMap((path) =>
      readFileSync(path, 'utf8')
        .split('\n')
        .flatMap((line, at) => (ENGINE_WORDS.test(line) ? [`${path}:${at + 1}: ${line.trim()}`] : [])),
    );
  if (found.length > 0) throw new Error(`engines are named outside their folders:\n${found.join('\n')}`);
}

async function checkPages(): Promise<void> {
  const faults = globSync(['*.md', 'docs/**/*.md']).flatMap((path) =>
    findPageFaults(path, readFileSync(path, 'utf8')),
  );
  if (faults.length > 0) throw new Error(faults.join('\n'));
}

async function checkComments(): Promise<void> {
  const faults = globSync(`{${PACKAGES},scripts}/**/*.{ts,tsx}`, {
    exclude: (path) => /node_modules|(?:^|\/)gen(?:\/|$)/.test(path),
  }).flatMap((path) => {
    const text = readFileSync(path, 'utf8');
    const isProduct = path.includes('/src/');
    return [...findCodeFaults(path, text), ...(isProduct ? findMessageFaults(path, text) : [])];
  });
  if (faults.length > 0) throw new Error(faults.join('\n'));
}

async function checkGenerated(): Promise<void> {
  for (const [name, text] of Object.entries(await renderContract())) {
    if (readFileSync(join('client/src/gen', name), 'utf8') === text) continue;
    throw new Error(`client/src/gen/${name} is not what api/ gives; run scripts/client-contract.ts`);
  }
  const scratch = mkdtempSync(join(tmpdir(), 'sandboxd-check-'));
  try {
    await run('sh', ['proto/generate.sh', scratch]);
    for (const path of globSync('*', { cwd: GENERATED })) {
      if (readFileSync(join(GENERATED, path)).equals(readFileSync(join(scratch, path)))) continue;
      throw new Error(`${GENERATED}/${path} is not what proto/agent.proto gives; run proto/generate.sh`);
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** Tools say what is wrong on their output. */
function toText(error: unknown): string {
  const {
    stdout = '',
    stderr = '',
    message,
  } = error as { stdout?: string; stderr?: string; message: string };
  const said = `${stdout}${stderr}`.trim();
  return said === '' ? message : said;
}
