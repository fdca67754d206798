// The examples of docs/files.md, each run as it is written.
import { execFile, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import t from 'tap';
import { checkedUrl } from '../support/checked-proxy.ts';
import { startDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(300_000));
const run = promisify(execFile);

/** Indented lines of the page that are commands; a line behind one that is none is what the page says it answers. */
function readExamples(page: string): { readonly command: string; readonly answer: string }[] {
  const lines = readFileSync(resolve(import.meta.dirname, '../../docs', page), 'utf8').split('\n');
  const examples: { command: string; answer: string }[] = [];
  for (const line of lines.filter((text) => text.startsWith('    ')).map((text) => text.trim())) {
    const last = examples.at(-1);
    if (/^(curl|tar) /.test(line)) examples.push({ command: line, answer: '' });
    else if (last !== undefined) last.answer += line;
  }
  return examples;
}

t.test('every example of the page on files', async (t) => {
  const { api, ...daemon } = await startDaemon(t);
  const url = await checkedUrl(t, daemon.url);
  const { id } = await api.create();
  const dir = mkdtempSync(join(tmpdir(), 'docs-files-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  mkdirSync(join(dir, 'src/deep'), { recursive: true });
  writeFileSync(join(dir, 'src/deep/one'), 'content');
  writeFileSync(join(dir, 'notes.txt'), 'noted');
  const expected: readonly [RegExp, RegExp][] = [
    [/^curl -X PUT --data.*notes\.txt"$/, /"size_bytes":5,"mode":"0644"/],
    [/files\/list\?path=\/srv&depth=2"$/, /"path":"\/srv\/notes.txt"/],
    [/If-None-Match: \*/, /"path":"\/srv\/new.txt"/],
    [/path=\/etc\/os-release"$/, /PRETTY_NAME="Debian/],
    [/^curl -I .*max_bytes=1000/, /HTTP\/1.1 200 OK[\s\S]*content-length: 1000[\s\S]*x-truncated: true/i],
    [/path=\/etc&format=tar" \| tar t$/, /^os-release$/m],
    [/tar c -C \.\/src/, /^\{"files":1,"bytes":7\}$/],
    [/^tar c notes\.txt/, /^\{"files":1,"bytes":5\}$/],
    [/^curl -X PATCH -d .*attributes/, /"path":"\/srv\/notes.txt"/],
    [/with_attributes=true"$/, /"attributes":\{"source":"upload"\}/],
    [/files\/watch\?path=\/srv&recursive=true"$/, /watched below/],
  ];
  /** It follows until its client leaves. */
  const watchExample = async (command: string, answer: string): Promise<void> => {
    const env = { ...process.env, U: url, ID: id };
    const watch = spawn('bash', ['-c', `exec ${command}`], { cwd: dir, env });
    const lines = createInterface({ input: watch.stdout })[Symbol.asyncIterator]();
    const next = async (): Promise<object> => JSON.parse((await lines.next()).value ?? '{}');
    t.match(await next(), { type: 'armed' });
    await api.sh(id, 'echo one > /srv/a.part; mv /srv/a.part /srv/a');
    const events = [await next(), await next()];
    while (!('from' in (events.at(-1) ?? {}))) events.push(await next());
    watch.kill();
    t.match(events, [{ type: 'create', path: '/srv/a.part' }]);
    t.match(events.at(-1), { type: 'rename', path: '/srv/a', from: '/srv/a.part' });
    t.match(answer, /"type":"armed".*"type":"create".*"type":"rename"/);
  };
  const examples = readExamples('files.md');
  t.equal(examples.length, expected.length, 'each example of the page is known here');
  for (const { command, answer } of examples) {
    if (command.includes('files/watch')) {
      await watchExample(command, answer);
      continue;
    }
    const [, pattern] = expected.find(([known]) => known.test(command)) ?? [];
    const { stdout } = await run('bash', ['-o', 'pipefail', '-c', command], {
      cwd: dir,
      env: { ...process.env, U: url, ID: id },
    });
    t.match(stdout, pattern ?? /never/, command);
    if (answer === '') continue;
    t.same(
      Object.keys(JSON.parse(answer)),
      Object.keys(JSON.parse(stdout)),
      'the answer looks as on the page',
    );
  }
  t.equal(await api.sh(id, 'cat /srv/src/deep/one /root/notes.txt'), 'contentnoted');
});
