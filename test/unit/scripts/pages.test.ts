// Everything that the pages name exists: files, other pages and their headings, flags, limits.
import { globSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import {
  BODY_IDLE_MS,
  MAX_HEADERS,
  MAX_JSON_BYTES,
  MAX_JSON_DEPTH,
  MAX_PIPELINED_REQUESTS,
  MIN_BODY_BYTES_PER_S,
} from '@sandboxd/api';
import t from 'tap';
import { GLOBAL_FLAGS } from '../../../client/src/command/args.ts';
import { VERBS } from '../../../client/src/command/verbs.ts';
import { COMMANDS, GROUPS } from '../../../host-agent/src/commands/table.ts';
import { createSettings, toFlag } from '../../../host-agent/src/config/settings.ts';
import { ENGINE_NAMES } from '../../../host-agent/src/engines/index.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
const pages = ['README.md', ...globSync('docs/**/*.md', { cwd: ROOT })];
const read = (page: string) => readFileSync(join(ROOT, page), 'utf8');
/**
 * Flags of other programs that pages mention: docker, tar, Node, our benchmarks, and newer Cloud Hypervisor versions.
 */
const OTHERS = [
  '--privileged',
  '--format',
  '--no-opt',
  '--no-maglev',
  '--only',
  '--machine-program',
  '--no-verify-snapshot-checksum',
];
/** Examples of commands that have no flags. */
const PROGRAMS = /^(?:apt|claude|kubectl|nft|sandbox|sandboxd|systemctl|sudo) /;
const isThere = (path: string) => statSync(path, { throwIfNoEntry: false }) !== undefined;

t.test('links lead to files, and to headings that they have', async (t) => {
  let count = 0;
  for (const page of pages) {
    for (const [, target = ''] of read(page).matchAll(/\]\((?!https?:)([^)\s]+)\)/g)) {
      const [file = '', heading] = target.split('#');
      const path = file === '' ? join(ROOT, page) : join(ROOT, dirname(page), file);
      t.ok(isThere(path), `${page}: ${target}`);
      if (heading !== undefined)
        t.ok(anchors(readFileSync(path, 'utf8')).includes(heading), `${page}: ${target}`);
      count++;
    }
  }
  t.ok(count > 100);
});

t.test('files that are named are there', async (t) => {
  let count = 0;
  for (const page of pages) {
    const named = read(page).matchAll(
      /`((?:api|client|debian|docs|guest-agent|host-agent|proto|rootfs-builder|scripts|test)\/[\w./-]+\.\w+)`/g,
    );
    for (const [, path = ''] of named) {
      t.ok(isThere(join(ROOT, path)), `${page}: ${path}`);
      count++;
    }
  }
  t.ok(count > 100);
});

t.test('messages and names of the code that are quoted are in it', async (t) => {
  const code = globSync(
    '{api,client,guest-agent,host-agent,proto,rootfs-builder}/{src,native}/**/*.{ts,c,cc,h}',
    {
      cwd: ROOT,
    },
  )
    .map((path) => readFileSync(join(ROOT, path), 'utf8'))
    .join('\n');
  let count = 0;
  for (const page of pages.filter((page) => !page.startsWith('docs/measurements/'))) {
    const prose = read(page).replaceAll(/```.*?```/gs, '');
    // A message is a phrase of three words or more; commands begin with the name of a program.
    const messages = [...prose.matchAll(/`([a-z][a-z']*(?:[ ,;]+[a-z][a-z']*){2,})`/g)].filter(
      ([, message = '']) => !PROGRAMS.test(message),
    );
    const isForDevelopers = ['docs/architecture.md', 'docs/extending.md'].includes(page);
    const names = isForDevelopers ? prose.matchAll(/`([a-z]+(?:[A-Z][a-z]+)+)`/g) : [];
    for (const [, quoted = ''] of [...messages, ...names]) {
      t.ok(code.includes(quoted), `${page}: ${quoted}`);
      count++;
    }
  }
  t.ok(count > 20);
});

t.test('flags of commands and settings are there', async (t) => {
  const ofCommands = [...COMMANDS, ...GROUPS.flatMap(({ commands }) => commands)].flatMap(({ flags }) =>
    Object.keys(flags),
  );
  const ofVerbs = VERBS.flatMap(({ flags }) => Object.keys(flags));
  const known = new Set([
    ...Object.keys(createSettings(ENGINE_NAMES)).map(toFlag),
    ...[...ofCommands, ...ofVerbs, ...Object.keys(GLOBAL_FLAGS)].map((name) => `--${name}`),
    ...['--config', '--print-config', '--version', '--help'],
    ...OTHERS,
  ]);
  let count = 0;
  for (const page of pages) {
    // On their own, and after our own commands; flags of other programs are not checked.
    const alone = [...read(page).matchAll(/`(--[a-z][a-z-]+)[^`]*`/g)].map(([, flag]) => flag);
    const behind = [...read(page).matchAll(/(?<![\w/.-])sandboxd? [^`|\n]*/g)].flatMap(
      ([line]) => line.split(/ -- |[|;&]/)[0]?.match(/(?<= )--[a-z][a-z-]+/g) ?? [],
    );
    for (const flag of [...alone, ...behind]) {
      t.ok(known.has(flag ?? ''), `${page}: ${flag}`);
      count++;
    }
  }
  t.ok(count > 100);
});

t.test('each line of the attack list has tests that are there, or says why not', (t) => {
  const page = read('docs/egress-attacks.md');
  const rows = [...page.matchAll(/^\| (\d+) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$/gm)];
  t.strictSame(
    rows.map(([, line]) => Number(line)),
    Array.from({ length: 116 }, (_, n) => n + 1),
  );
  let count = 0;
  for (const [, line, result = '', tests = ''] of rows) {
    if (tests === 'does not apply') {
      t.ok(result.length > 20, `${line} says why`);
      continue;
    }
    for (const each of tests.split('; ')) {
      const [, path = '', title = ''] = /^`([\w./-]+\.test\.ts)`: (\S.*)$/.exec(each) ?? [];
      const file = ['test', 'test/unit/host-agent'].map((dir) => join(ROOT, dir, path)).find(isThere);
      const text = file === undefined ? '' : readFileSync(file, 'utf8');
      const titles = [...text.matchAll(/\bt\.test\(\s*(['"`])(.*?)\1,/gs)].map(([, , found = '']) => found);
      t.ok(
        titles.some((found) => found.startsWith(title)),
        `${line}: ${each}`,
      );
      count++;
    }
  }
  t.ok(count > 150, `${count}`);
  t.end();
});

t.test('bounds of the page on hostile clients are those in force', (t) => {
  const rows = new Map(
    read('docs/hardening.md')
      .split('\n')
      .flatMap((line) => {
        const [, what, bound] = /^\| ([^|]+) \| ([^|]+) \|/.exec(line) ?? [];
        return what === undefined || bound === undefined ? [] : [[what, bound] as const];
      }),
  );
  const settings = createSettings(ENGINE_NAMES);
  const bounds: [string, string][] = [
    ['connections', `\`--max-connections\` (${settings.max_connections.fallback})`],
    ['head of a request', `${MAX_HEADERS} headers`],
    ['requests of one connection that wait for their answers', `${MAX_PIPELINED_REQUESTS}`],
    ['body', `${BODY_IDLE_MS / 1000} s of silence, or of less than ${MIN_BODY_BYTES_PER_S} bytes a second`],
    ['JSON body', `${MAX_JSON_BYTES / 2 ** 20} MiB`],
    ['nesting of a JSON body', `${MAX_JSON_DEPTH} levels`],
  ];
  for (const [what, bound] of bounds) t.match(rows.get(what), bound);
  t.end();
});

/** GitHub's anchors of headings. */
function anchors(text: string): string[] {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}
