// A paused sandbox with a network, on real guests: connections to its published ports resume it, and its own
// connections go on, or end at once.
import '../../support/network/own-network.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { SandboxJson } from '../../support/api.ts';
import {
  type Daemon,
  leftovers,
  makeDirectories,
  removeDirectories,
  spawnDaemon,
} from '../../support/daemon.ts';
import { HOST_IP, Lab, sh, WEB_IP } from '../../support/network/lab.ts';
import { EchoClient } from '../../support/sleep-load.ts';
import { scaled } from '../../support/time-scale.ts';

const PORT = 8080;
const CLIENTS = 200;

t.setTimeout(scaled(900_000));
const lab = await Lab.open(t);
lab.names.set('web.example', [WEB_IP]);
/** Echoes; those who said `reset` are reset when it is told so. */
const web = await lab.serve(
  lab.internet,
  `const all = []; process.on('SIGUSR1', () => { for (const s of all) s.resetAndDestroy(); });
   require('net').createServer((s) => { s.on('error', () => {}); s.on('data', (d) => { if (String(d) === 'reset\\n') all.push(s); s.write(d); }); }).listen(81, '0.0.0.0', () => console.log('up'))`,
);
const state = () => sh('ip -br link; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward; ip route');
const before = await state();

/** Echoes to any number of clients, in one process. */
const ECHO = `
use strict; use IO::Socket::INET; use IO::Select;
my $port = IO::Socket::INET->new(LocalPort => 8000, Listen => 256, ReuseAddr => 1) or die;
my $all = IO::Select->new($port);
while (1) {
  for my $s ($all->can_read) {
    if ($s == $port) { $all->add(scalar $port->accept); next }
    if (sysread $s, my $text, 1000) { syswrite $s, $text } else { $all->remove($s); close $s }
  }
}`;

/** Says its argument, and once more when it gets a signal; prints what it reads, and why it cannot read any more. */
const CLIENT = `
use strict; use IO::Socket::INET; $| = 1;
my $s = IO::Socket::INET->new(PeerAddr => "web.example:81") or die "no connection";
$SIG{USR1} = sub { syswrite $s, "again\\n" };
syswrite $s, "$ARGV[0]\\n";
while (1) {
  my $got = sysread $s, my $text, 100;
  if (!defined $got) { next if $!{EINTR}; print "ended: $!\\n"; last }
  if ($got == 0) { print "closed\\n"; last }
  print $text;
}`;

/** Connects to the published port and says a line; the answer, or the error code. */
function ask(text: string, host = '127.0.0.1'): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host, port: PORT });
    socket.once('data', (data) => {
      resolve(String(data).trim());
      socket.destroy();
    });
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''));
    socket.once('end', () => resolve('closed'));
    socket.write(`${text}\n`);
  });
}

/** A connection from the neighbour, which is open until `close`. */
async function openOutside() {
  const script = `const s = require('net').connect(${PORT}, '${HOST_IP}'); process.stdin.pipe(s).pipe(process.stdout);
    s.on('error', (e) => { console.log(e.code); process.exit(); })`;
  const child = spawn('nsenter', [`--net=${lab.internet}`, process.execPath, '-e', script]);
  t.teardown(() => child.kill('SIGKILL'));
  const say = async (line: string): Promise<string> => {
    child.stdin.write(`${line}\n`);
    return String((await once(child.stdout, 'data'))[0]).trim();
  };
  t.equal(await say('hello'), 'hello');
  return { say, close: () => child.kill('SIGKILL') };
}

async function askFromOutside(text: string): Promise<string> {
  const script = `const s = require('net').connect(${PORT}, '${HOST_IP}'); s.write('${text}\\n');
    s.once('data', (d) => { console.log(String(d).trim()); process.exit(); });
    s.on('error', (e) => { console.log(e.code); process.exit(); })`;
  return (await sh(`${process.execPath} -e "${script}"`, lab.internet)).trim();
}

t.test('connections wake it, and its own go on or end at once', async (t) => {
  const directories = await makeDirectories();
  t.teardown(() => removeDirectories(directories));
  const flags = ['--dns-upstream', lab.names.address, '--resume-timeout-s', '300'];
  let daemon: Daemon = await spawnDaemon(directories, { onExit: 'keep', flags });
  t.teardown(() => daemon.end());
  const { id } = await daemon.api.create({
    memory_mib: 128,
    network: { enabled: true, allowlist: ['web.example'] },
    publish: [{ host_port: PORT, guest_port: 8000 }],
    service: { cmd: ['perl', '-e', ECHO] },
  });
  const stateNow = async () => (await daemon.api.ask('getSandbox', { params: { id } })).state;
  const pause = (body = {}): Promise<SandboxJson> => daemon.api.ask('pauseSandbox', { params: { id }, body });
  const resumes = () => daemon.log.filter(({ msg }) => msg === 'sandbox resumed').length;
  while ((await ask('hello')) !== 'hello') await sleep(200);
  const start = async (word: string) => {
    const script = `perl -e '${CLIENT}' ${word} > /root/${word} 2>&1 & echo $! > /root/${word}.pid`;
    await daemon.api.sh(id, `setsid sh -c '${script.replaceAll("'", `'\\''`)}'`);
    await daemon.api.sh(id, `until grep -q ${word} /root/${word}; do sleep 0.1; done`);
  };
  await start('keep');
  await start('reset');

  await pause();
  t.equal(await stateNow(), 'paused');
  web.kill('SIGUSR1');
  t.equal(await askFromOutside('first'), 'first', 'a connection from outside is held until it is answered');
  t.equal(await stateNow(), 'running');
  await daemon.api.sh(id, 'until grep -q ended /root/reset; do sleep 0.1; done');
  t.match(
    await daemon.api.sh(id, 'cat /root/reset'),
    /^reset\nended: .+/,
    'a read of a connection that is gone ends',
  );
  await daemon.api.sh(
    id,
    'kill -USR1 $(cat /root/keep.pid); until grep -q again /root/keep; do sleep 0.1; done',
  );
  t.equal(await daemon.api.sh(id, 'cat /root/keep'), 'keep\nagain', 'one that the other side kept goes on');

  for (const client of [await EchoClient.open(PORT), await openOutside()]) {
    await pause();
    await sleep(1000);
    t.equal(await stateNow(), 'paused', 'an open connection that is silent leaves it asleep');
    t.equal(await client.say('data'), 'data', 'data of its client wakes it, and arrives');
    client.close();
  }

  await pause();
  const earlier = resumes();
  const answers = await Promise.all(
    Array.from({ length: CLIENTS }, (_, at) => ask(`${at}`, at % 2 === 0 ? '127.0.0.1' : '::1')),
  );
  t.same(answers, [...answers.keys()].map(String), `${CLIENTS} clients are answered`);
  t.equal(resumes() - earlier, 1, 'by one resume');

  await pause();
  await daemon.end('SIGKILL');
  const held = ask('held');
  daemon = await spawnDaemon(directories, { onExit: 'keep', flags });
  t.equal(await held, 'held', 'the next daemon is told of a connection that waits');
  t.equal(await askFromOutside('later'), 'later');

  await pause();
  await daemon.end();
  await sh(
    `umount ${directories.runDir}/net/${(await sh('ip -br link')).match(/sbx\w+(?<!0{6})(?=@)/)?.[0]}`,
  );
  daemon = await spawnDaemon(directories, { onExit: 'keep', flags });
  t.equal(
    await ask('anew'),
    'anew',
    'a network that is gone, as after a reboot of a container, is made again',
  );
  t.match(await daemon.api.sh(id, 'getent hosts web.example'), WEB_IP);

  await pause({ memory: false });
  t.equal(await ask('booted'), 'booted', 'it boots, and its service is waited for');
  t.match(await (await fetch(`${daemon.url}/sandboxes/${id}/logs?since=0`)).text(), /published port resumes/);
  await daemon.api.delete(id);
  await daemon.end();
  t.same(await leftovers(directories), []);
});

t.test('nothing is left on the host', async (t) => {
  t.equal(await state(), before);
});
