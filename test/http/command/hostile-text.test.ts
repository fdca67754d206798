// What others call things reaches no terminal as it is: every verb against a daemon whose texts are all hostile.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { VERBS } from '../../../client/src/command/verbs.ts';
import { COMMAND, runCommand } from '../../support/command.ts';
import { openPty } from '../../support/pty.ts';
import { serve } from '../support.ts';

t.setTimeout(300_000);

const MARK = 'here';
const EVIL = `${MARK}\x1b]0;owned\x07\x1b[2J\u202e\x9b31m\x7f\r\nsandbox: fine`;
/** What no text of another may have in it. */
const OBEYED = /[^\P{Cc}\n]|\p{Cf}/u;
/** What draws bars is the command's own. */
const BARS = /\p{Cc}\[(?:\d*A|K|J)|\r/gu;
const AT = '2026-01-01T00:00:00Z';

const SANDBOX = {
  id: EVIL,
  profile: EVIL,
  vcpus: 1,
  memory_mib: 512,
  created_at: EVIL,
  source_snapshot_id: EVIL,
  name: EVIL,
  labels: { [EVIL]: EVIL },
  state: EVIL,
  reason: EVIL,
  env_names: [EVIL],
};
const SNAPSHOT = {
  id: EVIL,
  source_id: EVIL,
  vcpus: 1,
  memory_mib: 512,
  created_at: AT,
  name: EVIL,
  labels: { [EVIL]: EVIL },
  comment: EVIL,
};
const IMAGE = { source_ref: EVIL, refs: [EVIL], digest: EVIL, size_bytes: 1, user_labels: { [EVIL]: EVIL } };
const USE = ['cpu_us', 'resident_bytes', 'private_bytes', 'memory_limit_bytes', 'layer_bytes'];
const MORE_USE = ['disk_limit_bytes', 'read_bytes', 'written_bytes'];
const STATS = {
  id: EVIL,
  read_at: AT,
  ...Object.fromEntries([...USE, ...MORE_USE].map((name) => [name, 1])),
};
const EVENT = {
  ...{ id: '1', at: AT, kind: EVIL, sandbox: EVIL, reason: EVIL },
  ...{ name: EVIL, labels: { [EVIL]: EVIL }, changed: [EVIL], tenant: EVIL },
};

const FILE = { path: `/srv/${EVIL}`, type: 'file', mode: EVIL, size_bytes: 1, modified_at: EVIL };
const COMMAND_OF_OTHERS = {
  id: EVIL,
  cmd: [EVIL],
  state: 'exited',
  started_at: AT,
  result: { signal: EVIL },
};

/** Of the first pattern that the request has. */
const ANSWERS: readonly [RegExp, unknown][] = [
  [/ \/profiles$/, { profiles: ['base', EVIL], details: { base: { digest: EVIL, size_bytes: 1 } } }],
  [
    / \/hosts$/,
    {
      hosts: [
        {
          name: EVIL,
          state: EVIL,
          reason: EVIL,
          version: EVIL,
          engine: EVIL,
          engine_name: EVIL,
          drain: { state: EVIL, moved: EVIL },
        },
      ],
    },
  ],
  [/ \/images$/, { images: [IMAGE] }],
  [/PATCH \/images\//, IMAGE],
  [
    / \/whoami$/,
    {
      ...{ scoped: true, policy: { [EVIL]: [EVIL], operations: EVIL } },
      ...{ key: { name: EVIL, tenant: EVIL, expires_at: EVIL } },
      usage: [{ limit: EVIL, of: EVIL, used: EVIL, max: EVIL }],
    },
  ],
  [/ \/openapi.json$/, { info: { version: EVIL } }],
  [/ \/sandboxes$/, { sandboxes: [SANDBOX], ...SANDBOX }],
  [/ \/snapshots$/, { snapshots: [SNAPSHOT] }],
  [/POST .*\/snapshot$/, SNAPSHOT],
  [/\/fork$/, { sandboxes: [SANDBOX] }],
  [/ \/snapshots\/import/, SNAPSHOT],
  [
    /\/diff$/,
    { files: [{ path: EVIL, change: EVIL, kind: EVIL, mode: EVIL, uid: EVIL, gid: EVIL, differs: [EVIL] }] },
  ],
  [/\/tree/, { nodes: [{ ...SNAPSHOT, kind: 'snapshot', state: EVIL }] }],
  [/ \/snapshots\//, SNAPSHOT],
  [/\/stats$/, STATS],
  [/ \/sandboxes\/[^/]*\/ports$/, { ports: [{ port: EVIL, access: EVIL, opened_at: EVIL }] }],
  [
    /\/network$/,
    {
      generation: 1,
      allowlist: [EVIL],
      rules: [{ host: EVIL, protocol: EVIL, ports: [EVIL] }],
      presets: [{ name: EVIL, rules: [{ cidr: EVIL, protocol: EVIL, ports: [EVIL] }] }],
    },
  ],
  [
    / \/secrets$/,
    {
      secrets: [
        {
          name: EVIL,
          hosts: [EVIL],
          digest: EVIL,
          source: { file: EVIL },
          changed_at: EVIL,
          used_by: [EVIL],
        },
      ],
    },
  ],
  [
    /\/egress/,
    {
      records: [
        { at: EVIL, verdict: EVIL, protocol: EVIL, reason: EVIL, name: EVIL, address: EVIL, rule: EVIL },
      ],
      next_offset: 0,
    },
  ],
  [/\/links$/, { id: EVIL, url: EVIL, created_at: EVIL, expires_at: EVIL }],
  [/\/service/, { state: EVIL, last_exit: { exit_code: -1, error: EVIL } }],
  [/\/files\/list$/, { entries: [{ ...FILE, uid: 0, gid: 0, user: EVIL, group: EVIL, target: EVIL }] }],
  [/\/commands$/, { commands: [COMMAND_OF_OTHERS] }],
  [/\/logs/, { records: [], next_offset: 0 }],
  [/ \/sandboxes\/[^/]*$/, SANDBOX],
];

const WATCHED = [
  { type: 'rename', path: EVIL, from: EVIL },
  { type: 'end', reason: 'lost', message: EVIL },
];

/** `isWilling`: answers what is asked for; otherwise each answer is an error. */
async function serveEvil(t: Test, isWilling: boolean): Promise<string> {
  const server = createServer((incoming, outgoing) => {
    incoming.resume();
    const line = `${incoming.method} ${incoming.url?.split('?', 1)[0]}`;
    const [, found] = ANSWERS.find(([pattern]) => pattern.test(line)) ?? [];
    if (isWilling && line === 'POST /images') {
      outgoing.writeHead(200, { 'content-type': 'application/x-ndjson' });
      const layer = { progress: EVIL, layer: EVIL, bytes: 1, total_bytes: 2 };
      for (const each of [{ progress: EVIL }, layer]) outgoing.write(`${JSON.stringify(each)}\n`);
      setTimeout(() => outgoing.end(`${JSON.stringify({ image: IMAGE })}\n`), 500);
    } else if (isWilling && line === 'GET /events') outgoing.end(`id: 1\ndata: ${JSON.stringify(EVENT)}\n\n`);
    else if (isWilling && line.endsWith('/files/watch'))
      outgoing.end(`${WATCHED.map((event) => JSON.stringify(event)).join('\n')}\n`);
    else if (isWilling && found !== undefined) outgoing.end(JSON.stringify(found));
    else outgoing.writeHead(404, { 'x-request-id': 'req_1' }).end(JSON.stringify({ error: EVIL }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Words of each verb, and whether what a willing daemon answers is shown. */
function wordsOf(home: string): Readonly<Record<string, readonly string[]>> {
  const [file, archive] = [join(home, 'file'), join(home, 'archive')];
  return {
    run: ['base', 'true'],
    exec: ['sbx_1', 'true'],
    code: ['sbx_1', file],
    commands: ['sbx_1'],
    attach: ['sbx_1', 'cmd_1'],
    wait: ['sbx_1', 'cmd_1'],
    kill: ['sbx_1', 'cmd_1'],
    ps: [],
    update: ['--label', 'a=b', 'sbx_1'],
    inspect: ['sbx_1', 'snap_1'],
    pause: ['sbx_1'],
    resume: ['sbx_1'],
    stats: ['--no-stream'],
    rm: [`sbx_${EVIL}`],
    cp: [file, `sbx_1:/${EVIL}`],
    ls: ['-l', `sbx_1:/${EVIL}`],
    watch: [`sbx_1:/${EVIL}`],
    cat: [`sbx_1:/${EVIL}`],
    mkdir: [`sbx_1:/${EVIL}`],
    mv: [`sbx_1:/${EVIL}`, `/${EVIL}`],
    edit: [`sbx_1:/${EVIL}`],
    logs: ['sbx_1'],
    forward: ['sbx_1', EVIL],
    connect: ['sbx_1', '80'],
    ssh: ['sbx_1'],
    ports: ['sbx_1'],
    network: ['sbx_1'],
    egress: ['--all', 'sbx_1'],
    secret: ['ls'],
    open: ['sbx_1', '80'],
    service: ['status', 'sbx_1'],
    snapshot: ['sbx_1'],
    snapshots: [],
    tree: ['snap_1'],
    diff: ['-l', 'snap_1', 'snap_2'],
    fork: ['snap_1'],
    rollback: ['sbx_1', 'snap_1'],
    export: ['-o', archive, 'snap_1'],
    import: [file],
    images: [],
    pull: ['x'],
    rmi: ['x'],
    events: ['--no-follow'],
    mcp: ['--tool', EVIL],
    checks: [],
    keys: [],
    hosts: [],
    context: ['use', EVIL],
    version: [],
    completion: [EVIL],
  };
}

t.test('each verb, in a pipe, with and without --json', async (t) => {
  const home = t.testdir({ file: 'content' });
  const words = wordsOf(home);
  t.same(Object.keys(words).sort(), VERBS.map(({ name }) => name).sort(), 'each verb is here');
  const shown: string[] = [];
  for (const isWilling of [true, false]) {
    const url = await serveEvil(t, isWilling);
    const env = { SANDBOXD_HOST: url, XDG_CONFIG_HOME: home, TMPDIR: home, VISUAL: 'true' };
    for (const [verb, rest] of Object.entries(words)) {
      // The JSON of an error is made in one place.
      const forms = isWilling
        ? [
            [verb, ...rest],
            ['--json', verb, ...rest],
          ]
        : [[verb, ...rest]];
      const ended = await Promise.all(forms.map((form) => runCommand(form, env)));
      for (const { stdout, stderr } of ended) {
        t.notMatch(stdout, OBEYED, verb);
        t.notMatch(stderr, OBEYED, verb);
        t.notMatch(`${stdout}\n${stderr}`, /^sandbox: fine/m, `${verb}: no line of its own`);
      }
      if (ended.every(({ stdout, stderr }) => `${stdout}${stderr}`.includes(MARK))) shown.push(verb);
    }
  }
  // Whose answers have no text of others are the rest.
  for (const verb of [
    'ps',
    'images',
    'pull',
    'events',
    'stats',
    'inspect',
    'service',
    'run',
    'exec',
    'rmi',
    'ls',
    'watch',
    'commands',
  ])
    t.ok(shown.includes(verb), `${verb} has shown them`);
});

t.test('names, labels, comments and environments, in answers and in flags', async (t) => {
  const url = await serveEvil(t, true);
  const env = { SANDBOXD_HOST: url, XDG_CONFIG_HOME: t.testdir() };
  for (const words of [
    ['update', '-l', 'a=b', 'snap_1'],
    ['update', '--image', '-l', 'a=b', 'x'],
    ['update', '--comment', EVIL, 'snap_1'],
    ['update', '--name', EVIL, 'sbx_1'],
    ['update', '--label', EVIL, 'sbx_1'],
    ['snapshot', '--label', EVIL, 'sbx_1'],
    ['snapshot', '--name', EVIL, '--comment', EVIL, 'sbx_1'],
    ['fork', '--env', `=${EVIL}`, 'snap_1'],
    ['fork', '--name', EVIL, '--label', `${EVIL}=${EVIL}`, '--env', `A=${EVIL}`, 'snap_1'],
    ['snapshots', '--label', EVIL],
    ['ps', '--label', EVIL],
    ['ps', '--state', EVIL],
    ['ps', '--limit', EVIL],
    ['ps', '--name', EVIL, '--profile', EVIL, '--image', EVIL],
    ['rm', '--label', EVIL],
    ['rm', '--name', EVIL, '--state', EVIL, '--profile', EVIL, '--image', EVIL],
    ['images', '--label', EVIL],
    ['events', '--no-follow', '--label', EVIL],
    ['run', '-d', '--name', EVIL, '--label', `${EVIL}=`, 'base'],
  ]) {
    const forms = [words, ['--json', ...words]];
    for (const { stdout, stderr } of await Promise.all(forms.map((form) => runCommand(form, env)))) {
      for (const text of [stdout, stderr]) t.notMatch(text, OBEYED, words.join(' '));
      t.notMatch(`${stdout}\n${stderr}`, /^sandbox: fine/m, words.join(' '));
      t.match(`${stdout}${stderr}`, MARK, words.join(' '));
    }
  }
});

t.test('on a terminal, bars and notes included', async (t) => {
  const home = t.testdir({ file: 'x' });
  const url = await serveEvil(t, true);
  for (const words of [
    ['pull', 'x'],
    ['ps'],
    ['cp', join(home, 'file'), `sbx_1:/${EVIL}`],
    ['inspect', 'sbx_1'],
  ]) {
    const pty = await openPty(t, [...COMMAND, ...words], { SANDBOXD_HOST: url, XDG_CONFIG_HOME: home });
    await pty.exited;
    t.match(pty.shown, MARK, words.join(' '));
    t.notMatch(pty.shown.replace(BARS, ''), OBEYED, words.join(' '));
    t.notMatch(pty.shown, /\nsandbox: fine/, words.join(' '));
  }
});

t.test('why a command did not start; its own output is as it is', async (t) => {
  const { url, sandboxes } = await serve(t);
  sandboxes.script = (exec) => {
    exec.output('stdout', '\x1b[1mbold\x1b[0m');
    exec.exit({ exitCode: -1, error: EVIL });
  };
  const { id } = sandboxes.add();
  const { stdout, stderr } = await runCommand(['exec', id, 'x'], { SANDBOXD_HOST: url });
  t.equal(stdout, '\x1b[1mbold\x1b[0m');
  t.match(stderr, MARK);
  t.notMatch(stderr, OBEYED);
});
