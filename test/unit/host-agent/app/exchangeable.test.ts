// Files that the operator names and another user of the host can exchange: nothing of them is read as root's word or run.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { findExchangeable, refuseExchangeable } from '../../../../host-agent/src/app/weak-settings.ts';
import { type Config, loadConfig } from '../../../../host-agent/src/config/index.ts';
import { DAEMON_PROGRAM } from '../../../support/leftovers.ts';
import { STRANGER } from '../../../support/stranger.ts';

const dir = mkdtempSync(join(tmpdir(), 'exchangeable-test-'));
t.teardown(() => rmSync(dir, { recursive: true }));
chmodSync(dir, 0o755);
const at = (name: string) => join(dir, name);
for (const name of ['theirs', 'own', 'shared']) mkdirSync(at(name));
chownSync(at('theirs'), STRANGER, STRANGER);
chmodSync(at('shared'), 0o1777);
for (const name of ['theirs/file', 'own/file', 'own/given', 'own/open', 'shared/given', 'shared/file'])
  writeFileSync(at(name), '{}');
for (const name of ['own/given', 'shared/given']) chownSync(at(name), STRANGER, STRANGER);
chmodSync(at('own/open'), 0o666);
symlinkSync(at('theirs/file'), at('own/link'));
symlinkSync('file', at('own/own-link'));
symlinkSync(at('own/file'), at('shared/link'));
lchownSync(at('shared/link'), STRANGER, STRANGER);

function configOf(...flags: readonly string[]): Config {
  const loaded = loadConfig({ argv: flags, env: {}, engineNames: ['the-first'] });
  if (!('config' in loaded)) throw new Error('no configuration');
  return loaded.config;
}

const find = async (...flags: readonly string[]) =>
  (await findExchangeable(configOf(...flags))).map(
    ({ setting, level, seen }) => `${level} ${setting} ${seen}`,
  );

t.test('what only root can exchange, and what is not there', async (t) => {
  for (const name of ['own/file', 'own/own-link', 'shared/file'])
    t.same(await find('--kernel', at(name), '--config', at(name)), [], name);
  t.same(await find('--kernel', at('own/none')), []);
});

t.test('what others can exchange or write', async (t) => {
  for (const [name, why] of [
    ['theirs/file', /can be exchanged: it lies in .*\/theirs, which user \d+ can change/],
    ['own/link', /can be exchanged: it lies in/],
    ['own/given', /can be exchanged: it is user \d+'s/],
    ['shared/given', /can be exchanged: it is user \d+'s/],
    ['shared/link', /can be exchanged: it is user \d+'s/],
    ['own/open', /is a file that every user can change/],
  ] as const) {
    for (const setting of ['kernel', 'initrd', 'the_first_program', 'config']) {
      const [first = '', ...more] = await find(`--${setting.replaceAll('_', '-')}`, at(name));
      t.match(first, new RegExp(`^fault ${setting} .*${why.source}`), `${setting} ${name}`);
      t.same(more, []);
    }
    const [cert, key, ca] = await find(
      ...['--tls-cert', at(name), '--tls-key', at(name), '--tls-client-ca', at(name)],
    );
    t.match(cert, new RegExp(`^warning tls_cert .*${why.source}`));
    t.match(key, /^warning tls_key /);
    t.match(ca, /^warning tls_client_ca /);
  }
});

t.test('the start', async (t) => {
  const lines: string[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
  await t.rejects(refuseExchangeable(configOf('--kernel', at('own/given')), log), {
    name: 'ConfigError',
    message: /^kernel: .*that user controls all guests; make the file/,
  });
  await refuseExchangeable(configOf('--tls-cert', at('own/given'), '--tls-key', at('own/file')), log);
  t.match(lines, [/^tls_cert: /]);
});

t.test('neither the daemon nor its doctor runs a program of another user', (t) => {
  const program = at('theirs/qemu');
  writeFileSync(program, `#!/bin/sh\necho "version $(id -u)" | tee -a ${dir}/ran\n`, { mode: 0o755 });
  writeFileSync(at('own/settings'), JSON.stringify({ qemu_program: program }));
  const dirs = ['--data-dir', at('data'), '--run-dir', at('run'), '--listen', '127.0.0.1:0'];
  for (const words of [
    [...dirs, '--engine', 'qemu', '--qemu-program', program],
    [...dirs, '--config', at('own/settings')],
    ['doctor', '--config', at('own/settings'), '--data-dir', at('data')],
  ]) {
    const { status, stdout, stderr } = spawnSync(DAEMON_PROGRAM, words, { encoding: 'utf8' });
    t.equal(status, 2, words.join(' '));
    t.match(stdout + stderr, /qemu_program.* lies in .*\/theirs, which user \d+ can change/);
  }
  t.notOk(existsSync(at('ran')));
  writeFileSync(at('theirs/settings'), '{}');
  const { status, stderr } = spawnSync(DAEMON_PROGRAM, [...dirs, '--config', at('theirs/settings')], {
    encoding: 'utf8',
  });
  t.equal(status, 2);
  t.match(stderr, /config: .*that user becomes root on this host/);
  t.notOk(existsSync(at('data')), 'nothing was begun');
  t.end();
});
