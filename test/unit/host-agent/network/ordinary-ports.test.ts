// The default range of published ports, without the host's ephemeral ports.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parsePortRange } from '@sandboxd/api';
import t from 'tap';
import { findOrdinaryPorts } from '../../../../host-agent/src/network/index.ts';

t.test('ports from 1024 on but those of connections outward', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'ports-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const of = (text: string) => {
    writeFileSync(join(dir, 'range'), text);
    return findOrdinaryPorts(join(dir, 'range'));
  };
  t.same(of('32768\t60999\n'), ['1024-32767', '61000-65535']);
  t.same(of('1025\t60999\n'), ['1024-1024', '61000-65535']);
  t.same(of('1\t65535\n'), []);
  t.same(of('500\t600\n'), ['1024-65535']);
  t.same(of('nonsense'), ['1024-32767', '61000-65535']);
  t.same(findOrdinaryPorts(join(dir, 'none')), ['1024-32767', '61000-65535']);
  t.ok(findOrdinaryPorts().every((text) => parsePortRange(text) !== undefined));
});

t.test('ports and ranges as policies write them', async (t) => {
  t.same(parsePortRange('80'), { first: 80, last: 80 });
  t.same(parsePortRange('1-65535'), { first: 1, last: 65_535 });
  for (const text of ['', '0', '65536', '9-8', '1-', '-1', '1-2-3', ' 80', '8e1', '80,81'])
    t.equal(parsePortRange(text), undefined, text);
});
