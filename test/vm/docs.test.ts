// The examples of README.md and of the pages on exec, service, logs and snapshots, each run as it is written, in the shell of
// one reader. (docs-files.test.ts has the page on files, with what its answers hold.)
import { execFile } from 'node:child_process';
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { makeAuthority } from '../http/certificates.ts';
import { checkedUrl } from '../support/checked-proxy.ts';
import { startDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, '../..');
/** Lines of a page that are commands for a running daemon; what `make` and sudo do is not tried here. */
const COMMAND =
  /^(?: {4})?(?:\$ )?((?:curl|timeout|node_modules\/\S+|dist\/sandbox|export|source) .*|[A-Z]+=\S.*)$/;
const DONE = '---done';
/** `timeout` ends what has no end of its own. */
const FINE: readonly string[] = ['0', '124'];

type Example = { readonly command: string; readonly output: string; readonly status: string };

function readCommands(page: string): string[] {
  return readFileSync(resolve(ROOT, page), 'utf8')
    .replace(/\\\n\s*/g, '')
    .split('\n')
    .flatMap((line) => COMMAND.exec(line)?.[1] ?? []);
}

/** All in one shell, as later examples use the variables of earlier ones. Standard input holds `exit` for a terminal. */
async function runPage(page: string, url: string, cwd: string): Promise<Example[]> {
  const commands = readCommands(page).map((command) =>
    command.replace(/(?:http:\/\/)?(?:localhost|127\.0\.0\.1):7878/g, url),
  );
  const script = commands.map((command) => `${command}\nprintf '\\n${DONE} %s\\n' $?`).join('\n');
  const env = { ...process.env, XDG_CONFIG_HOME: join(cwd, 'config') };
  const shell = run('bash', ['-c', `exec 2>&1\n${script}`], { cwd, env, maxBuffer: 2 ** 24 });
  shell.child.stdin?.end('exit\n');
  const { stdout } = await shell;
  const outputs = stdout.split(new RegExp(`\\n${DONE} (\\d+)\\n`));
  return commands.map((command, at) => ({
    command,
    output: outputs[2 * at] ?? '',
    status: outputs[2 * at + 1] ?? 'none',
  }));
}

/** The checkout as its reader has it, who has a certificate there as well. */
function makePlace(t: Test): string {
  const place = mkdtempSync(join(tmpdir(), 'docs-'));
  t.teardown(() => rmSync(place, { recursive: true }));
  for (const name of readdirSync(ROOT)) symlinkSync(join(ROOT, name), join(place, name));
  copyFileSync(makeAuthority(t).caPath, join(place, 'ca.pem'));
  return place;
}

t.test('every example runs as it is written', async (t) => {
  const daemon = await startDaemon(t);
  const url = await checkedUrl(t, daemon.url);
  const place = makePlace(t);
  for (const page of [
    'README.md',
    'docs/exec.md',
    'docs/service.md',
    'docs/logs.md',
    'docs/snapshots.md',
    'docs/command.md',
  ]) {
    const examples = await runPage(page, url, place);
    t.ok(examples.length > 1, `${page} has examples`);
    for (const { command, output, status } of examples) {
      t.ok(FINE.includes(status), `${page}: ${command}: exit code ${status}\n${output}`);
      // Without the progress of curl, which hides it in a report. The daemon's log has what the VMM said last.
      const refusal = /^\{"error".*/m.exec(output)?.[0];
      const diagnosis = refusal && daemon.log.filter((line) => line.diagnosis !== undefined);
      t.equal(refusal, undefined, `${page}: ${command}`, { diagnosis });
    }
  }
});
