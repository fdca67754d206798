// Attacks of another user of the host on the anchor link: on Debian, /dev/net/tun is accessible to all users. A process
// that has a link open may spoof and read packets, and remove the link.
import '../../../support/network/own-network.ts';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { NetHelper } from '../../../../host-agent/src/network/helper.ts';
import { listLinks } from '../../../../host-agent/src/network/host-side.ts';
import { HELPERS } from '../../../support/helper-programs.ts';
import { sh } from '../../../support/network/lab.ts';
import { STRANGER } from '../../../support/stranger.ts';

/** Opens the link; it closes with this process. */
const SOURCE = `
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
int main(int count, char **words) {
  struct ifreq link = {.ifr_flags = IFF_TUN | IFF_NO_PI};
  int tun = open("/dev/net/tun", O_RDWR);
  strncpy(link.ifr_name, words[1], IFNAMSIZ - 1);
  if (tun < 0) return perror("open"), 2;
  if (ioctl(tun, TUNSETIFF, &link) < 0) return perror("attach"), 1;
  return ioctl(tun, TUNSETPERSIST, 0) < 0;
}
`;

const dir = mkdtempSync(join(tmpdir(), 'anchor-test-'));
t.teardown(() => rmSync(dir, { recursive: true }));
// As Debian's udev creates it.
await sh(`chmod 755 ${dir}; mknod -m 666 ${dir}/tun c 10 200; mount --bind ${dir}/tun /dev/net/tun`);
writeFileSync(join(dir, 'attach.c'), SOURCE);
await sh(`gcc -o ${dir}/attach ${dir}/attach.c; chmod 755 ${dir}/attach`);
const attach = (link: string, uid: number) =>
  String(spawnSync(join(dir, 'attach'), [link], { uid, gid: uid, cwd: '/' }).stderr);

t.test('another user can neither open nor remove it', async (t) => {
  const helper = new NetHelper(HELPERS.netd);
  t.teardown(() => helper.close());
  const anchor = (link: string, how: string) => helper.request(['anchor', link, '10.99.0.1', '24', how]);
  await anchor('sbxnew000000', 'new');
  t.match(attach('sbxnew000000', STRANGER), /attach: Operation not permitted/);
  // A link of an earlier daemon.
  await sh('ip tuntap add dev sbxold000000 mode tun');
  await anchor('sbxold000000', 'again');
  t.match(attach('sbxold000000', STRANGER), /attach: Operation not permitted/);
  const links = await listLinks();
  t.ok(links.includes('sbxnew000000') && links.includes('sbxold000000'), 'both are still there');
  t.equal(attach('sbxnew000000', 0), '', 'which root can');
});
