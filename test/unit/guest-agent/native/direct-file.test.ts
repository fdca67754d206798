// O_DIRECT files: at most one is read at a time.
import '../support/addon-dir.ts';
import { randomBytes } from 'node:crypto';
import { closeSync, constants, openSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { addon } from '../../../../guest-agent/src/native/addon.ts';

// Not /tmp, which may be a tmpfs without O_DIRECT.
const dir = await mkdtemp(join(import.meta.dirname, '../../../.tap/direct-')).catch(() =>
  mkdtemp('/var/tmp/direct-'),
);
t.teardown(() => rm(dir, { recursive: true, force: true }));

t.test('a second file does not disturb the one that is read', async (t) => {
  const content = randomBytes(2 ** 20);
  const [first, second] = ['first', 'second'].map((name) => {
    const fd = openSync(join(dir, name), 'w');
    t.ok(addon.startDirectWrite(fd, content.length));
    t.equal(addon.writeDirect(content, 0, content.length), 0);
    t.equal(addon.endDirectWrite(), 0);
    closeSync(fd);
    return addon.open(join(dir, name), constants.O_RDONLY);
  }) as [number, number];
  t.teardown(() => {
    for (const fd of [first, second]) addon.close(fd);
  });
  const got = Buffer.alloc(content.length);
  t.ok(addon.startDirectRead(first));
  t.equal(addon.read(first, got, 0, 100), 100);
  t.notOk(addon.startDirectRead(second));
  t.equal(addon.read(first, got, 100, got.length - 100), got.length - 100);
  t.ok(got.equals(content));
});
