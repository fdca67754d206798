// Extended headers of a hostile archive: the reader's memory and CPU time are bounded.
import { TarError, TarReader } from '@sandboxd/proto';
import t from 'tap';
import { archive, type Member, pax, readArchive } from '../support/tar-blocks.ts';

const records = (count: number, value = 'x') =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`key${n}`, value]));

/** Pushes the parts until one is refused. Returns the refusal and the number of parts. */
function pushUntilRefused(parts: Iterable<Buffer>): { message: string; count: number } {
  const reader = new TarReader({ begin: () => {}, content: () => {}, finish: () => {} });
  let count = 0;
  try {
    for (const part of parts) {
      reader.push(part);
      count += 1;
    }
  } catch (error) {
    if (error instanceof TarError) return { message: error.message, count };
    throw error;
  }
  return { message: 'nothing was refused', count };
}

function* headers(flag: string, count: number): Generator<Buffer> {
  for (let n = 0; n < count; n++)
    yield archive([pax({ [`key${n}`]: 'x'.repeat(500_000) }, flag)], { isWhole: false });
}

t.test('headers of one member, and global ones, are limited together', (t) => {
  for (const flag of ['x', 'X', 'g']) {
    const { message, count } = pushUntilRefused(headers(flag, 20));
    t.match(message, /extended headers/, flag);
    t.ok(count < 4, `${flag}: ${count} headers`);
  }
  const names: Member[] = Array.from({ length: 20 }, () => ({
    name: '././@LongLink',
    flag: 'L',
    content: 'x'.repeat(500_000),
  }));
  t.match(
    pushUntilRefused(names.map((name) => archive([name], { isWhole: false }))).message,
    /extended headers/,
  );
  t.end();
});

t.test('many global records are refused, because each member would copy them', (t) => {
  const members = Array.from({ length: 3000 }, (_, n) => [pax({ comment: 'x' }), { name: `${n}` }]).flat();
  const startedAt = process.cpuUsage();
  t.throws(() => readArchive(archive([pax(records(50_000), 'g'), ...members])), {
    name: 'TarError',
    message: /global records/,
  });
  t.ok(process.cpuUsage(startedAt).user < 5e6);
  t.equal(readArchive(archive([pax(records(90), 'g'), ...members])).length, 3000);
  t.end();
});

t.test('each member may have its own long header', (t) => {
  const long = pax({ comment: 'x'.repeat(700_000) });
  t.equal(readArchive(archive([long, { name: 'a' }, long, { name: 'b' }])).length, 2);
  t.end();
});
