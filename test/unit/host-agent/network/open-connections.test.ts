// Connections to a guest in the host's conntrack table.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { hasOpenConnection } from '../../../../host-agent/src/network/index.ts';

const dir = await mkdtemp(join(tmpdir(), 'conntrack-'));
t.teardown(() => rm(dir, { recursive: true, force: true }));
const table = join(dir, 'nf_conntrack');
const line = (state: string, from: string, to: string, answers: string) =>
  `ipv4     2 tcp      6 431999 ${state} src=${from} dst=${to} sport=5000 dport=80 src=${answers} dst=${from} sport=80 dport=5000 [ASSURED] mark=0 zone=0 use=2\n`;

t.test('one that is established, and that the guest answers', async (t) => {
  const has = async (text: string): Promise<boolean> => {
    await writeFile(table, text);
    return hasOpenConnection('10.0.0.2', table);
  };
  t.equal(await has(line('ESTABLISHED', '192.0.2.1', '192.0.2.9', '10.0.0.2')), true, 'led by rules');
  t.equal(await has(line('ESTABLISHED', '10.0.0.1', '10.0.0.2', '10.0.0.2')), true, 'passed on');
  t.equal(await has(line('TIME_WAIT', '192.0.2.1', '192.0.2.9', '10.0.0.2')), false, 'over');
  t.equal(await has(line('ESTABLISHED', '10.0.0.2', '192.0.2.9', '192.0.2.9')), false, 'its own');
  t.equal(await has(line('ESTABLISHED', '192.0.2.1', '192.0.2.9', '10.0.0.20')), false, 'of another');
  t.equal(await has(line('ESTABLISHED', '192.0.2.1', '192.0.2.9', '10x0.0.2')), false);
  t.equal(await hasOpenConnection('10.0.0.2', join(dir, 'none')), false, 'a kernel without the table');
});
