// The examples of docs/ports.md and docs/urls.md, each run as it is written, against what the page says it answers.
import '../support/network/own-network.ts';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import t from 'tap';
import { checkedUrl } from '../support/checked-proxy.ts';
import { makeDirectories, removeDirectories, spawnDaemon } from '../support/daemon.ts';
import { Lab } from '../support/network/lab.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const ROOT = resolve(import.meta.dirname, '../..');
const API_PORT = 7878;

type Example = { readonly command: string; readonly answer: string };

/** Indented lines behind a dollar sign; those below are what the page says they answer. */
function readExamples(page: string): Example[] {
  const text = readFileSync(join(ROOT, 'docs', page), 'utf8');
  return [...text.matchAll(/^ {4}\$ (.*)\n((?: {4}(?!\$ ).*\n)*)/gm)].map(
    ([, command = '', answer = '']) => ({
      command,
      answer: answer.replace(/^ {4}/gm, '').trim(),
    }),
  );
}

/** Ids, times and tokens are others each time. */
function toShape(text: string): string {
  return text
    .replace(/sbx([_-])\w+/g, 'sbx$1ID')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replace(/sbl_\S+/g, 'TOKEN')
    .trim();
}

t.test('every example of these pages', async (t) => {
  const [daemonLine, ...urls] = readExamples('urls.md');
  const ports = readExamples('ports.md');
  const [, flags = ''] = /^sandboxd (--.*) &$/.exec(daemonLine?.command ?? '') ?? [];
  const lab = await Lab.open(t);
  const directories = await makeDirectories();
  const config = mkdtempSync(join(tmpdir(), 'docs-'));
  const daemon = await spawnDaemon(directories, {
    flags: [...flags.split(' '), '--dns-upstream', lab.names.address],
  });
  t.teardown(async () => {
    await daemon.end();
    await removeDirectories(directories);
    rmSync(config, { recursive: true });
  });
  await checkedUrl(t, daemon.url, API_PORT);
  const { id } = await daemon.api.create({
    ...{ name: 'web', profile: 'python-3.11', memory_mib: 256 },
    network: { enabled: true, allowlist: ['host.invalid'] },
  });
  const env = {
    ...process.env,
    PATH: `${join(ROOT, 'dist')}:${process.env.PATH}`,
    XDG_CONFIG_HOME: config,
    ID: id,
  };
  const curl = async (...words: string[]): Promise<string> =>
    (
      await promisify(execFile)('curl', [
        '-sS',
        '--retry',
        '60',
        '--retry-all-errors',
        '--retry-delay',
        '1',
        ...words,
      ])
    ).stdout;
  /** It listens until it is interrupted. */
  const forward = async ({ command, answer }: Example): Promise<void> => {
    const child = spawn('bash', ['-c', `exec ${command}`], { env });
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    t.equal(toShape(String(line)), toShape(answer), command);
    t.match(await curl('http://127.0.0.1:8080/'), 'Directory listing', 'as the page says');
    const ended = once(child, 'exit');
    child.kill('SIGINT');
    await ended;
  };
  for (const { command, answer } of [...ports, ...urls]) {
    if (command.startsWith('sandbox forward')) {
      await forward({ command, answer });
      continue;
    }
    // The list of published ports is of a sandbox without open ones.
    if (command.startsWith('sandbox ports publish'))
      await daemon.api.ask('closePort', { params: { id, port: '3000' } });
    const { stdout } = await promisify(execFile)('bash', ['-c', command], { env });
    t.equal(toShape(stdout), toShape(answer), command);
    if (command.startsWith('sandbox ports publish'))
      t.match(await curl('http://127.0.0.1:8080/'), 'Directory listing', 'the port of the host leads there');
    if (!command.startsWith('sandbox open')) continue;
    await daemon.api.sh(id, 'nohup python3 -m http.server 3000 > /dev/null 2>&1 &');
    await sleep(100);
    t.match(
      await curl('-L', '-c', '/dev/null', '--fail', stdout.trim()),
      'Directory listing',
      'the link opens it',
    );
  }
  t.ok(ports.length > 5 && urls.length > 0);
});
