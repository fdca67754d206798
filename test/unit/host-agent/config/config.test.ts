// Configuration: sources and their precedence, what is refused and how, help and printing.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import {
  ConfigError,
  type LoadedConfig,
  loadConfig,
  renderConfig,
  renderHelp,
} from '../../../../host-agent/src/config/index.ts';
import { formatListen, parseBytes, parseListen } from '../../../../host-agent/src/config/values.ts';

const ENGINES = ['first', 'second'];
const dir = mkdtempSync(join(tmpdir(), 'config-test-'));
t.teardown(() => rmSync(dir, { recursive: true }));

function load(argv: string[], env: Record<string, string> = {}): LoadedConfig {
  const loaded = loadConfig({ argv, env, engineNames: ENGINES });
  if (!('config' in loaded)) throw new Error(`asked for ${loaded.command}`);
  return loaded;
}

function problems(argv: string[], env: Record<string, string> = {}): readonly string[] {
  try {
    load(argv, env);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

let files = 0;
function file(content: unknown): string {
  const path = join(dir, `${files++}.json`);
  writeFileSync(
    path,
    typeof content === 'string' || Buffer.isBuffer(content) ? content : JSON.stringify(content),
  );
  return path;
}

t.test('defaults are the documented ones', async (t) => {
  t.match(load([]).config, {
    listen: { host: '127.0.0.1', port: 7878 },
    dataDir: '/var/lib/sandboxd',
    runDir: '/run/sandboxd',
    engine: 'auto',
    defaults: { profile: 'base', vcpus: 1, memoryMib: 512, diskBytes: 4 * 2 ** 30 },
    limits: { vcpus: 32, memoryMib: 65_536 },
    drainTimeoutMs: 30_000,
    log: { level: 'info', format: 'auto' },
  });
});

t.test('each engine’s program can be named', async (t) => {
  t.same(load([]).config.enginePrograms, {});
  t.equal(load([]).config.forkMemory, 'auto');
  const env = { SANDBOXD_SECOND_PROGRAM: '/opt/two' };
  const { config, values } = load(['--first-program', '/opt/one', '--fork-memory=copy'], env);
  t.same(config.enginePrograms, { first: '/opt/one', second: '/opt/two' });
  t.equal(config.forkMemory, 'copy');
  t.match(renderConfig(values), /"first_program": "\/opt\/one"/);
  t.match(renderHelp(ENGINES), /--second-program <path>.*program of the second engine/);
  t.match(problems(['--third-program=/x', '--fork-memory', 'magic']), [
    /third-program/,
    /one of auto, copy-on-write/,
  ]);
});

t.test('flags go before the environment, that before the file, that before defaults', async (t) => {
  const path = file({ max_vcpus: 4, max_memory_mib: 1024, default_memory_mib: 256, listen: '[::1]:1' });
  const env = { SANDBOXD_MAX_VCPUS: '8', SANDBOXD_MAX_MEMORY_MIB: '2048', HOME: '/root' };
  const { config } = load(['--config', path, '--max-vcpus=16', '--log-level', 'debug'], env);
  t.match(config.limits, { vcpus: 16, memoryMib: 2048 });
  t.match(config.defaults, { memoryMib: 256, vcpus: 1 });
  t.same(config.listen, { host: '::1', port: 1 });
  t.equal(config.log.level, 'debug');
  t.equal(
    load([], { SANDBOXD_CONFIG: path }).config.limits.vcpus,
    4,
    'the file may come from the environment',
  );
  const defaultFile = file({ max_vcpus: 5 });
  const standing = (argv: string[], defaultFile: string) => {
    const loaded = loadConfig({ argv, env: {}, engineNames: ENGINES, defaultFile });
    return 'config' in loaded && loaded.config.limits.vcpus;
  };
  t.equal(standing([], defaultFile), 5, 'of an installed package, where none is named');
  t.equal(standing(['--config', path], defaultFile), 4, 'one that is named goes before it');
  t.equal(standing([], join(dir, 'absent')), 32, 'it need not be there');
  t.equal(load(['--max-vcpus', '2', '--max-vcpus', '3']).config.limits.vcpus, 3, 'the last flag wins');
});

t.test('every problem names its place, the value and what is allowed', async (t) => {
  const path = file({ max_vcpus: '4', log_format: 'xml', nope: 1, max_disk_bytes: true });
  t.same(problems(['--config', path, '--drain-timeout-s=soon'], { SANDBOXD_ENGINE: 'third' }), [
    `config file ${path}, key "nope": no such setting; \`sandboxd --help\` lists every one`,
    'environment variable SANDBOXD_ENGINE: got "third", expected one of auto, first, second',
    `config file ${path}, key "max_vcpus": got "4", expected an integer from 1 to 32`,
    `config file ${path}, key "max_disk_bytes": got true, expected bytes from 64 MiB to 16 TiB, as a number or such as 4GiB`,
    'flag --drain-timeout-s: got "soon", expected an integer from 0 to 3600',
    `config file ${path}, key "log_format": got "xml", expected one of auto, json, pretty`,
  ]);
  const cases: [string[], RegExp][] = [
    [['--max-vcpus', '33'], /^flag --max-vcpus: got 33, expected an integer from 1 to 32$/],
    [['--max-vcpus', '1.5'], /got "1.5"/],
    [['--max-vcpus='], /got ""/],
    [['--max-vcpus'], /^flag --max-vcpus: a value is missing/],
    [['--nope', '1'], /^flag --nope: no such flag; `sandboxd --help`/],
    [['--max-vcpu', '1'], /^flag --max-vcpu: no such flag; did you mean --max-vcpus\?$/],
    [['--config', file({ max_vpcus: 1 })], /key "max_vpcus": no such setting; did you mean max_vcpus\?$/],
    [['serve'], /^argument "serve": nothing is expected here/],
    [['--data-dir='], /^flag --data-dir: got "", expected an absolute path$/],
    [['--default-profile', '../x'], /^flag --default-profile: got "..\/x", expected a profile name/],
    [['--listen', '7878'], /^flag --listen: got "7878", expected host:port/],
    [['--listen', '127.0.0.1:65536'], /expected host:port/],
    [['--config', '/nonexistent'], /^config file \/nonexistent: cannot be read as JSON: no such file$/],
    [['--config', file('{,}')], /cannot be read as JSON: /],
    [
      ['--config', file(Buffer.from('{"data_dir":"/\xff"}', 'latin1'))],
      /cannot be read as JSON: .*not valid/,
    ],
    [['--config', file('[]')], /must hold one JSON object/],
  ];
  for (const [argv, pattern] of cases) t.match(problems(argv)[0], pattern, argv.join(' '));
});

t.test('rules that take more than one value', async (t) => {
  for (const host of ['0.0.0.0', '[::]', '10.0.0.1', 'example.org', '128.0.0.1']) {
    const problem = /can be reached from other machines; give tls_cert and tls_key.*keys create.*127/;
    t.match(problems(['--listen', `${host}:80`])[0], problem);
    t.same(problems(['--listen', `${host}:80`, '--tls-cert', '/c', '--tls-key', '/k']), []);
  }
  t.match(problems(['--tls-cert', '/c'])[0], /^flag --tls-cert: tls_cert and tls_key go together/);
  t.match(problems(['--tls-key', '/k'])[0], /^flag --tls-key: tls_cert and tls_key go together/);
  t.match(problems(['--tls-client-ca', '/a'])[0], /there is no TLS without/);
  t.same(problems(['--listen', 'unix:/run/x.sock']), []);
  t.match(
    problems(['--listen', 'unix:/run/x.sock', '--tls-cert', '/c', '--tls-key', '/k'])[0],
    /^flag --tls-cert: a socket in the file system speaks no TLS/,
  );
  for (const listen of ['unix:x', 'unix:', `unix:/${'x'.repeat(107)}`])
    t.match(problems(['--listen', listen])[0], /expected host:port .*or unix:/, listen);
  for (const host of ['127.0.0.1', '127.8.9.1', '[::1]', 'localhost']) {
    t.same(problems(['--listen', `${host}:0`]), [], host);
  }
  t.match(problems(['--run-dir', `/${'x'.repeat(63)}`])[0], /run_dir|--run-dir.*64 bytes long.*at most 63/);
  t.same(problems(['--run-dir', `/${'x'.repeat(62)}`]), []);
  t.match(
    problems(['--default-vcpus', '8'], { SANDBOXD_MAX_VCPUS: '4' })[0],
    /^flag --default-vcpus: 8 is above max_vcpus, which is 4/,
  );
  t.same(problems(['--max-memory-mib', '256']), [], 'a default nobody chose follows the limit');
  t.same(problems(['--insecure-no-jail', '--require-isolation']), [
    'flag --insecure-no-jail: guests without a jail are not isolated, and require_isolation is set; drop one of the two',
  ]);
});

t.test('values have the forms that people write', async (t) => {
  t.equal(
    load(['--max-disk-bytes', '128MiB', '--default-disk-bytes=67108864']).config.limits.diskBytes,
    2 ** 27,
  );
  t.same(['4GiB', '4g', '4 GB', '1024', '512M', '1t', '', '4X', '-1', '1.5G'].map(parseBytes), [
    2 ** 32,
    2 ** 32,
    2 ** 32,
    1024,
    2 ** 29,
    2 ** 40,
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
  t.equal(load(['--data-dir', 'here']).config.dataDir, `${process.cwd()}/here`);
  fc.assert(
    fc.property(
      fc.oneof(
        fc.ipV4(),
        fc.ipV6().filter((ip) => !ip.includes('%')),
      ),
      fc.nat(65_535),
      (host, port) => {
        const parsed = parseListen(formatListen({ host, port }));
        return parsed !== undefined && 'host' in parsed && parsed.host === host && parsed.port === port;
      },
    ),
  );
});

t.test('a switch is on by its name alone, and where it is true', async (t) => {
  const isJailed = (argv: string[], env = {}) => load(argv, env).config.jail !== undefined;
  t.ok(isJailed([]));
  t.notOk(isJailed(['--insecure-no-jail']));
  t.notOk(isJailed(['--insecure-no-jail', '--max-vcpus', '2']));
  t.ok(isJailed(['--insecure-no-jail=false']));
  t.notOk(isJailed([], { SANDBOXD_INSECURE_NO_JAIL: 'true' }));
  t.notOk(isJailed(['--config', file({ insecure_no_jail: true })]));
  t.same(problems(['--insecure-no-jail=perhaps']), [
    'flag --insecure-no-jail: got "perhaps", expected true or false',
  ]);
});

t.test('unknown variables of our prefix are only warned of', async (t) => {
  const { warnings } = load([], { SANDBOXD_SERVICE_HOST: '10.0.0.1', SANDBOXDX: '1' });
  t.same(warnings, ['environment variable SANDBOXD_SERVICE_HOST is not a setting and is ignored']);
});

t.test('help, version and the printed configuration', async (t) => {
  t.equal(
    loadConfig({ argv: ['--max-vcpus', 'x', '--help'], env: {}, engineNames: ENGINES }).command,
    'help',
  );
  t.equal(loadConfig({ argv: ['--version'], env: {}, engineNames: ENGINES }).command, 'version');
  const help = renderHelp(ENGINES);
  for (const key of Object.keys(load([]).values)) t.match(help, `  --${key.replaceAll('_', '-')} `);
  t.match(help, /--engine <auto\|first\|second> .*\(auto\)/);
  t.match(help, /--default-disk-bytes <bytes> .*\(4 GiB\)/);
  const argv = ['--print-config', '--listen', '[::1]:9', '--kernel', '/k', '--max-disk-bytes', '1TiB'];
  const printed = loadConfig({ argv, env: {}, engineNames: ENGINES });
  t.equal(printed.command, 'print-config');
  if (!('values' in printed)) return;
  const again = load(['--config', file(renderConfig(printed.values))]);
  const { file: _file, ...read } = again.config;
  t.same(read, printed.config, 'what is printed can be read again');
});

t.test('how the daemon is reached', async (t) => {
  const socket = ['--listen', 'unix:/run/x.sock', '--socket-mode', '0660', '--socket-owner', 'root:kvm'];
  t.same(load(socket).config.listen, { path: '/run/x.sock', mode: 0o660, owner: 'root:kvm' });
  t.same(load(['--listen', 'unix:/run/x.sock']).config.listen, { path: '/run/x.sock', mode: 0o600 });
  t.match(problems(['--socket-mode', '888'])[0], /expected three octal digits/);
  const tls = [
    '--tls-cert',
    '/c',
    '--tls-key',
    '/k',
    '--tls-client-ca',
    '/a',
    '--allowed-host',
    'box.example',
  ];
  t.same(load(tls).config.tls, { certPath: '/c', keyPath: '/k', clientCaPath: '/a' });
  const box = { host: 'box.example', port: undefined };
  t.same(
    load(tls).config.allowedHosts,
    [{ scheme: 'https', at: box }],
    'a name without a scheme has the daemon’s',
  );
  t.same(load(['--cors-origin', 'https://App.example:443/, http://localhost:3000']).config.corsOrigins, [
    'https://app.example',
    'http://localhost:3000',
  ]);
  for (const bad of ['*', 'null', 'app.example', 'https://a/b', 'ftp://a', ''])
    t.match(problems(['--cors-origin', bad])[0], /expected a list of origins/, bad);
  for (const argv of [socket, tls]) {
    const { config, values } = load(argv);
    const { file: _file, ...read } = load(['--config', file(renderConfig(values))]).config;
    t.same(read, config, 'what is printed can be read again');
  }
});

t.test('where the snapshot store is', async (t) => {
  const shared = ['--join=/kubeconfig', '--fleet-secret-file=/secret', '--snapshot-store=s3://bucket'];
  t.match(load(shared).config.images, { isShared: false }, 'images of hosts are their own');
  t.match(load([...shared, '--shared-images=on']).config.images, { isShared: true, sharedBytes: 2 ** 38 });
  t.match(load([...shared, '--shared-images-bytes=1GiB']).config.images, { sharedBytes: 2 ** 30 });
  t.match(problems(['--shared-images=on']), [/^flag --shared-images: only hosts of a fleet/]);
  const flags = ['--snapshot-store', 's3://sandboxes/a/b', '--snapshot-store-key-file', '/key'];
  t.match(load(flags).config.snapshotStore, {
    ...{ bucket: 'sandboxes', prefix: 'a/b', region: 'us-east-1', addressing: 'path', keyFile: '/key' },
    endpoint: new URL('https://s3.us-east-1.amazonaws.com'),
  });
  const local = [...flags, '--snapshot-store-endpoint', 'http://127.0.0.1:9000'];
  t.equal(load(local).config.snapshotStore?.endpoint.port, '9000');
  const printed = JSON.parse(renderConfig(load(local).values));
  t.match(load(['--config', file(printed)]).config.snapshotStore, { prefix: 'a/b', keyFile: '/key' });
  t.equal(load([]).config.snapshotStore, undefined);
  for (const bad of [
    'sandboxes',
    's3://',
    's3://A',
    's3://bucket/../x',
    's3://bucket//x',
    's3://b.c/x y',
    'https://x',
  ])
    t.match(problems(['--snapshot-store', bad]), [/expected s3:\/\/bucket or/], bad);
  for (const bad of ['s3.example', 'ftp://s3', 'https://user:word@s3.example', 'https://s3.example/?x=1'])
    t.match(problems([...flags, '--snapshot-store-endpoint', bad]), [/expected an address such as/], bad);
  t.match(problems([...flags, '--snapshot-store-endpoint', 'http://s3.example']), [
    /is another machine; use https/,
  ]);
  t.match(problems(['--snapshot-store-endpoint', 'https://s3.example']), [/there is no snapshot_store/]);
});

t.test('names that the daemon is called by', (t) => {
  const at = (host: string, port?: number, scheme = 'http') => ({ scheme, at: { host, port } });
  t.same(load([]).config.allowedHosts, []);
  const flags = ['--allowed-host', 'Box.Example', '--allowed-host=https://a.example:8443,[::1]:9'];
  t.same(load(flags).config.allowedHosts, [
    at('box.example'),
    at('a.example', 8443, 'https'),
    at('[::1]', 9),
  ]);
  t.same(load([], { SANDBOXD_ALLOWED_HOST: 'a, b:1' }).config.allowedHosts, [at('a'), at('b', 1)]);
  const path = file({ allowed_host: ['a', 'https://b'] });
  const inFile = load(['--config', path]);
  t.same(inFile.config.allowedHosts, [at('a'), at('b', undefined, 'https')]);
  t.same(
    load(['--config', file(renderConfig(inFile.values))]).config.allowedHosts,
    inFile.config.allowedHosts,
  );
  for (const bad of ['', 'ftp://a', 'a b', 'a/b', 'a:1:2', '*', 'a:99999'])
    t.match(
      problems(['--allowed-host', bad])[0],
      /^flag --allowed-host: got .*, expected a list of names/,
      bad,
    );
  t.end();
});

t.test('sources of secrets, also for some hosts alone', (t) => {
  const argv = [
    '--secret-file',
    'acme/gh@API.github.com@*.x.test=/etc/a=b@c',
    '--secret-credential',
    'key@a.test',
  ];
  const { config } = load([...argv, '--secret-command', 'vault=/bin/v']);
  const { files, commands, credentials } = config.secrets.sources;
  t.same([...files], [['acme/gh', { path: '/etc/a=b@c', hosts: ['api.github.com', '*.x.test'] }]]);
  t.same([...commands], [['vault', { path: '/bin/v' }]]);
  t.same([...credentials], [['key', { path: '', hosts: ['a.test'] }]]);
  for (const bad of ['gh@=/x', 'gh@*=/x', 'gh@1.2.3.4=/x', 'gh@a.test', '@a.test=/x', 'gh=relative'])
    t.match(problems(['--secret-file', bad]), [/secret-file/], bad);
  t.match(problems(['--secret-credential', 'key=/x']), [/secret-credential/]);
  // One of the two would count, and the hosts of the other not.
  const twice = ['--secret-file', 'acme/gh@a.test=/x', '--secret-file', 'acme/gh=/x'];
  t.match(problems(twice), [/secret-file.*each name once/]);
  t.match(problems(['--secret-credential', 'key@a.test', '--secret-credential', 'key']), [
    /secret-credential/,
  ]);
  t.end();
});
