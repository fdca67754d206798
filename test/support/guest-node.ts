// Runs the tests' TypeScript inside a guest: on the agent's Node runtime, with the agent's own loader, libraries and
// addon.
import { createReadStream, globSync } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { AGENT_DIR } from '@sandboxd/proto';
import { build } from 'esbuild';
import { pack } from 'tar-stream';
import type { Api } from './api.ts';
import { push } from './files.ts';
import { compileGuestProgram } from './guest-program.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const DIRECTORY = '/opt/test';

type GuestNode = {
  /** Command line that runs a script. */
  readonly command: (script: string) => string[];
  readonly env: Record<string, string>;
  /** Directory of all files. */
  readonly dir: string;
};

/** Installs the runtime, each `test/guest/<script>.ts` as a bundle, and compiled C programs. */
export async function installInGuest(
  api: Api,
  id: string,
  scripts: readonly string[],
  programs: readonly string[],
): Promise<GuestNode> {
  const work = await mkdtemp(join(tmpdir(), 'guest-node-'));
  try {
    await build({
      entryPoints: scripts.map((name) => join(ROOT, 'test/guest', `${name}.ts`)),
      bundle: true,
      platform: 'node',
      format: 'esm',
      target: 'node26',
      external: ['long'],
      banner: { js: "import { createRequire } from 'node:module'; const require = createRequire('/');" },
      logLevel: 'warning',
      outdir: work,
      outExtension: { '.js': '.mjs' },
    });
    for (const program of programs) await compileGuestProgram(program, work);
    const files = new Map([
      ['node', findRuntime()],
      ...scripts.map((name) => [`${name}.mjs`, join(work, `${name}.mjs`)] as const),
      ...programs.map((program) => [program, join(work, program)] as const),
    ]);
    const answer = await push(api, id, DIRECTORY, archive(files));
    if (answer.status !== 200) throw new Error(answer.error);
  } finally {
    await rm(work, { recursive: true });
  }
  const loader = [`${AGENT_DIR}/lib/ld-linux-x86-64.so.2`, '--library-path', `${AGENT_DIR}/lib`];
  return {
    command: (script) => [...loader, `${DIRECTORY}/node`, '--no-opt', `${DIRECTORY}/${script}.mjs`],
    env: { SANDBOX_AGENT_DIR: AGENT_DIR },
    dir: DIRECTORY,
  };
}

/** The runtime without symbols that the agent was built from. */
function findRuntime(): string {
  const [runtime] = globSync(join(ROOT, 'dist/.runtime/node-*')).filter((path) => !path.endsWith('.tmp'));
  if (runtime === undefined) throw new Error('dist/.runtime is empty: run scripts/build-agent.sh first');
  return runtime;
}

function archive(files: ReadonlyMap<string, string>): Readable {
  const stream = pack();
  const add = async (): Promise<void> => {
    for (const [name, path] of files) {
      const { size } = await stat(path);
      await new Promise<void>((done, fail) => {
        const entry = stream.entry({ name, size, mode: 0o755 }, (error) => (error ? fail(error) : done()));
        createReadStream(path).on('error', fail).pipe(entry);
      });
    }
    stream.finalize();
  };
  void add().catch((error: Error) => stream.destroy(error));
  return Readable.from(stream);
}
