// Whatever a client, a guest or a server answers with is text in the console: nothing of it becomes an element, a
// script, a style or an address.
import type { TtySize } from '@sandboxd/proto';
import t from 'tap';
import { Metrics } from '../../host-agent/src/metrics/metrics.ts';
import type { SandboxCommands } from '../../host-agent/src/sandboxes/commands.ts';
import type { SandboxInfo } from '../../host-agent/src/sandboxes/types.ts';
import { testConsole } from '../support/console.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { openConsole } from './console-daemon.ts';
import { fakeCommands } from './fake-commands.ts';
import { IMAGE } from './fake-images.ts';
import { FILE, outflow } from './fake-sandboxes.ts';
import { openKeyring } from './keyed.ts';
import { ENGINE, serve } from './support.ts';

t.setTimeout(120_000);

const CODE = 'globalThis.hit=1';
/** Markup, addresses, templates, escape sequences and characters that reorder text. */
const HOSTILE = [
  ...[
    `<script>${CODE}</script>`,
    `<img src=x onerror=${CODE}>`,
    `<svg onload=${CODE}>`,
    `<svg/onload=${CODE}//`,
  ],
  ...[`"><img src=x onerror=${CODE}>`, `'><img src=x onerror=${CODE}>`, `" autofocus onfocus=${CODE} x="`],
  ...[`<iframe src=javascript:${CODE}>`, `<iframe srcdoc="<script>${CODE}</script>">`, `<object data=x>`],
  ...[`<embed src=x>`, `<base href=//evil.example/>`, `<link rel=stylesheet href=//evil.example/x>`],
  ...[`<meta http-equiv=refresh content="0;url=//evil.example">`, `<form action=//evil.example><input>`],
  ...[`<style>*{display:none}</style>`, `<style>@import '//evil.example'</style>`, `</style><img src=x>`],
  ...[`</textarea><img src=x onerror=${CODE}>`, `</title><img src=x onerror=${CODE}>`, `<!--<img src=x>-->`],
  ...[
    `<details open ontoggle=${CODE}>`,
    `<video><source onerror=${CODE}></video>`,
    `<audio src onerror=${CODE}>`,
  ],
  ...[
    `<math><mtext></mtext><script>${CODE}</script></math>`,
    `<body onload=${CODE}>`,
    `<x onclick=${CODE}>y</x>`,
  ],
  ...[`<a href=javascript:${CODE}>x</a>`, `javascript:${CODE}`, `data:text/html,<script>${CODE}</script>`],
  ...[
    `vbscript:x`,
    `//evil.example/x`,
    `https://evil.example/`,
    `blob:https://evil.example/x`,
    `file:///etc/passwd`,
  ],
  ...[
    '{{constructor.constructor("globalThis.hit=1")()}}',
    '\u0024{globalThis.hit=1}',
    '#{7*7}',
    '<%= 7*7 %>',
  ],
  ...[
    '&lt;script&gt;',
    '&#60;img src=x&#62;',
    '&quot;onerror=',
    '%3Cscript%3E',
    '\\u003cscript\\u003e',
    '<scr\0ipt>',
  ],
  ...[
    '__proto__',
    'constructor',
    'toString',
    'hasOwnProperty',
    'undefined',
    'null',
    'NaN',
    '[object Object]',
  ],
  ...[
    '\u001b]0;title\u0007',
    '\u001b[2J\u001b[H',
    '\u001b[38;2;9;8;7mcolour\u001b[0m',
    '\u001b]8;;javascript:globalThis.hit=1\u0007link\u001b]8;;\u0007',
  ],
  ...[
    '\u001b]52;c;ZXZpbA==\u0007',
    '\u202Etxt.exe',
    '\u2066a\u2069',
    '\u200B\uFEFF',
    '\r\noverwritten',
    'a\tb',
  ],
  ...['😀'.repeat(50), 'x'.repeat(5000), ' ', '../../../etc/passwd', '$(reboot)', '`reboot`', "'; reboot; '"],
].map((text) => text.replaceAll('\0', ''));

const SERVICE = {
  ...{ cmd: HOSTILE, env: {}, log_buffer_bytes: 1024, stop_grace_s: 5, stop_signal: 'SIGTERM' },
  restart: { policy: 'never', max_retries: 0 },
};

t.test('strings in every field are text', async (t) => {
  t.ok(HOSTILE.length >= 60, `${HOSTILE.length} strings`);
  const { journal } = await startMemoryDaemon(t);
  const keyring = await openKeyring(t);
  const list = HOSTILE as string[];
  const policy = { net_allow_max: list, allow_profiles: list, [list[1] ?? '']: list } as never;
  // Without a tenant: it sees all sandboxes.
  const key = await keyring.make({ name: list.join(' '), policy, seesAllTenants: true } as never);
  const metrics = new Metrics();
  metrics.series('counter', 'sandboxd_admission_refusals_total', 'x', ['what'], () =>
    HOSTILE.map((what) => ({ labels: { what }, value: 1 })),
  );
  const egress = HOSTILE.map((name) => ({
    ...{ timeMs: Date.now(), verdict: 'denied' as const, protocol: 'tls' as const, port: 443 },
    ...{ reason: name, name, rule: name, method: name, path: name, secrets: [name], forms: [name] },
  }));
  const log = HOSTILE.map((text) => ({
    ...{ source: 'exec' as const, stream: 'stdout' as const, text: `${text}\n`, timeMs: Date.now() },
  }));
  const { url, sandboxes } = await serve(t, {
    // Names and labels have a syntax, which these strings do not have.
    areAnswersChecked: false,
    console: await testConsole(),
    events: journal,
    authenticator: keyring.authenticator,
    limitUse: () => HOSTILE.map((limit) => ({ limit, of: 'tenant' as const, used: 1, max: 2 })),
    metrics,
    engine: () => ({ ...ENGINE, reason: HOSTILE.join(' '), version: HOSTILE[0] ?? '' }),
    images: {
      list: () =>
        HOSTILE.map((text, at) => ({ ...IMAGE, digest: `${at}${text}`, refs: [text], sourceRef: text })),
    } as never,
    logs: { read: async (_, { since }) => ({ nextOffset: 9, records: since === 9 ? [] : log }) },
    egressLog: {
      isKept: true,
      read: async (_: string, { since }: { since?: number }) => ({
        nextOffset: 9,
        records: since === 9 ? [] : egress,
      }),
      isOpen: () => true,
      onMore: () => () => undefined,
    } as never,
  });
  const infos = HOSTILE.map((text): SandboxInfo => {
    const info = sandboxes.add();
    const network = { allowlist: [text], gateway: text, guestIp: text };
    const hostile = {
      name: text,
      labels: { [text]: text },
      rootfs: { kind: 'image', name: text },
      envNames: [text],
    };
    return Object.assign(info, { ...hostile, reason: { code: text, message: text }, network });
  });
  const [info] = infos;
  const id = info?.id ?? '';
  for (const [at, name] of HOSTILE.entries()) {
    await journal.append({
      kind: 'died',
      sandbox: infos[at]?.id ?? id,
      atMs: Date.now(),
      name,
      reason: name,
    });
    const snapshot = await sandboxes.snapshot(infos[at]?.id ?? id);
    sandboxes.snapshots.set(snapshot.id, { ...snapshot, name, comment: name });
  }
  const entries = HOSTILE.map((text, at) => {
    const path = Buffer.from(`${String(at).padStart(3, '0')}${text.replaceAll('/', '∕')}`);
    return {
      ...FILE,
      path,
      user: text,
      target: Buffer.from(text),
      type: at % 2 ? ('file' as const) : ('symlink' as const),
    };
  });
  sandboxes.onFileCall = async () => ({ entry: FILE, entries, hasMore: false, count: 1 });
  const content = HOSTILE.join('\n').replaceAll('\0', '');
  sandboxes.onRead = async () => ({
    ...{
      body: outflow(content),
      sizeBytes: Buffer.byteLength(content),
      contentBytes: Buffer.byteLength(content),
    },
    entry: FILE,
  });
  sandboxes.network.state = {
    ...{ ...sandboxes.network.state, allowlist: HOSTILE },
    rules: HOSTILE.map((host) => ({ host, protocol: 'tls', ports: [443], methods: [host], paths: [host] })),
    secrets: HOSTILE.map((name) => ({ name, hosts: [name], forms: [{ header: name }], hasValue: true })),
  };
  sandboxes.commandCalls = terminalsOf(HOSTILE);
  sandboxes.serviceCalls = {
    status: async () => ({ state: 'failed', spec: SERVICE, restarts: 0 }) as never,
  };
  const app = await openConsole(t, url);
  const { page } = app;
  await page.emulate({ width: 1300, height: 900 });
  await app.fill('Key', key);
  await app.click('Open');
  await app.shows(`${HOSTILE.length} sandboxes`);
  const where = (tab: string, more = '') => `#/sandboxes/${id}?tab=${tab}${more}`;
  for (const [hash, expected] of [
    [`#/sandboxes?q=${encodeURIComponent('<img src=x')}`, `onerror=${CODE}`],
    [`#/sandboxes?label=${encodeURIComponent(HOSTILE[0] ?? '')}`, 'No sandbox matches'],
    [`#/${encodeURIComponent(HOSTILE[0] ?? '')}`, 'There is no such page'],
    [`#/sandboxes/${encodeURIComponent(HOSTILE[0] ?? '')}`, 'malformed'],
    [where('overview'), 'Properties'],
    [where('terminal'), 'New terminal'],
    [where('commands'), 'evil.example'],
    [where('files'), '000'],
    [where('files', '&path=/&file=/name'), 'Reload'],
    [where('logs'), 'evil.example'],
    [where('logs', '&more=1'), 'Restart'],
    [where('network'), 'evil.example'],
    [where('network', '&more=1'), 'tls //evil.example/x:443'],
    [where('events'), 'died'],
    ['#/images', 'evil.example'],
    ['#/snapshots', 'evil.example'],
    ['#/events', 'evil.example'],
    ['#/access', 'evil.example'],
    ['#/host', 'evil.example'],
  ] as const) {
    await app.open(hash);
    await app.shows(expected);
    await page.evaluate('new Promise((resolve) => setTimeout(resolve, 150))');
    const found = await page.evaluate(`({
      hit: globalThis.hit ?? 0,
      made: [...document.querySelectorAll('#console :is(script, img, iframe, object, embed, base, link, meta, style, ' +
        'video, audio, math, x, [onclick], [onload], [onerror], [onfocus])')].map(({ outerHTML }) => outerHTML),
      away: [...document.querySelectorAll('[href], [src], [action]')].map((each) =>
        each.getAttribute('href') ?? each.getAttribute('src') ?? each.getAttribute('action'))
        .filter((to) => !/^(#\\/|console\\/|${url.replaceAll('/', '\\/')}\\/docs$)/.test(to)),
      title: document.title.length < 300,
      at: location.origin + location.pathname,
      isReordered: /[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.querySelector('main').innerText),
    })`);
    t.same(
      found,
      { hit: 0, made: [], away: [], title: true, at: `${url}/console`, isReordered: false },
      hash,
    );
    t.same(page.problems, [], hash);
  }
  const asked = await page.evaluate(`[...new Set(performance.getEntriesByType('resource')
    .map(({ name }) => new URL(name).origin))]`);
  t.same(asked, [url], 'no other origin was asked');
});

/** A terminal whose command and output are those strings. */
function terminalsOf(strings: readonly string[]): Partial<SandboxCommands> {
  const info = {
    ...{ id: 'cmd_0123456789abc', cmd: strings, isCmdCut: false, isDetached: true, hasStdin: true, pid: 7 },
    ...{ startedUnixMs: 1000, tty: { cols: 80, rows: 24 } satisfies TtySize },
  };
  return {
    ...fakeCommands(),
    list: async () => [info],
    attach: (_id, _request, events) => {
      const records = strings.map((text, seq) => ({
        kind: 'output' as const,
        seq,
        stream: 'stdout',
        unixMs: 1,
        data: Buffer.from(`${text}\r\n`),
      }));
      queueMicrotask(() => events.records(records as never, 1));
      const nothing = (): void => undefined;
      const calls = { consumed: nothing, closeStdin: nothing, signal: nothing, resize: nothing };
      return { ...calls, write: () => true, cancel: nothing };
    },
  };
}
