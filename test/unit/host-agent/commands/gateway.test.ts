// Listeners of `sandboxd gateway`: what other machines reach needs TLS.
import { pino } from 'pino';
import t from 'tap';
import { parseInput } from '../../../../api/src/command-line.ts';
import { openDoors, readListener } from '../../../../host-agent/src/commands/gateway/doors.ts';
import { gateway } from '../../../../host-agent/src/commands/gateway/index.ts';

const log = pino({ level: 'silent' });

function read(prefix: '' | 'ingress-', text: string, args: readonly string[] = []) {
  return readListener(parseInput('sandboxd gateway', gateway, args), log, {
    flag: `${prefix}listen`,
    text,
    prefix,
  });
}

t.test('an address', (t) => {
  t.same(read('ingress-', '127.0.0.1:7879'), {
    ...{ listen: { host: '127.0.0.1', port: 7879 }, certificate: undefined },
  });
  t.match(read('', 'unix:/run/x.sock'), { listen: { path: '/run/x.sock' } });
  for (const [prefix, text, args, message] of [
    ['ingress-', 'nothing', [], /^--ingress-listen "nothing" is neither/],
    ['ingress-', '0.0.0.0:7879', [], /other machines; give --ingress-tls-cert and --ingress-tls-key/],
    ['ingress-', '0.0.0.0:7879', ['--tls-cert', 'a', '--tls-key', 'b'], /other machines/],
    ['', '[::]:7877', [], /other machines; give --tls-cert and --tls-key/],
    [
      'ingress-',
      '127.0.0.1:1',
      ['--ingress-tls-cert', 'a'],
      /--ingress-tls-cert and --ingress-tls-key go together/,
    ],
  ] as const)
    t.throws(() => read(prefix, text, args), { name: 'UsageError', message }, `${text} ${args}`);
  t.end();
});

t.test('the console may show pages of guests where there is an ingress', (t) => {
  const open = (args: readonly string[]) =>
    openDoors(parseInput('sandboxd gateway', gateway, args), log, { allowedHosts: [] } as never).map(
      ({ frames }) => frames,
    );
  t.same(open([]), []);
  t.same(open(['--ingress-listen', '127.0.0.1:0', '--ingress-domain', 'boxes.example.com']), [
    'http://*.boxes.example.com:* https://*.boxes.example.com:*',
  ]);
  t.same(open(['--e2b-listen', '127.0.0.1:0']), [undefined]);
  t.end();
});
