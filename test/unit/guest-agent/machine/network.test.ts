// The guest's interface and connections, in a network namespace instead of a guest.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';

const CHILD = join(import.meta.dirname, '../support/network-child.ts');

t.test('an interface that was another guest’s becomes this one’s, and connections are aborted', async (t) => {
  const { stdout } = await promisify(execFile)('unshare', ['--net', process.execPath, CHILD]);
  const seen = JSON.parse(stdout);
  t.same(
    seen.forgotten,
    [1, 'ECONNABORTED', 'live'],
    'of a paused guest only those that its network has forgotten',
  );
  // Both ends of the connection that leaves the guest.
  t.equal(seen.aborted, 2);
  // The end that is aborted first resets the other.
  t.match(seen.outerFate, /^ECONN(ABORTED|RESET)$/);
  t.equal(seen.innerFate, 'lives', 'what a guest says to itself goes on');
  t.match(seen.failures, [/ENODEV.*nothing0/, /SIOC(SARP|ADDRT)/]);
  const as = ['plain', 'with other addresses and labels', 'after failures'];
  for (const [index, network] of ['10.8.0', '10.9.0', '10.9.0'].entries()) {
    const { links, routes, neighbours, ipv6 } = seen.seen[index];
    const [{ address, addr_info: addresses, flags }] = links;
    t.equal(address, '02:00:00:00:00:02');
    t.ok(flags.includes('UP'));
    t.strictSame(
      addresses.map(({ local, prefixlen }: { local: string; prefixlen: number }) => [local, prefixlen]),
      [[`${network}.2`, 30]],
      `no address of the other guest, and none of IPv6: ${as[index]}`,
    );
    t.strictSame(routes, [
      `default via ${network}.1 dev guest0`,
      `${network}.0/30 dev guest0 proto kernel scope link src ${network}.2`,
    ]);
    t.equal(neighbours, `${network}.1 lladdr 02:00:00:00:00:01 PERMANENT`);
    t.equal(ipv6, '1');
  }
});
