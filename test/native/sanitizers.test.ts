// The sanitizers detect planted errors.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import process from 'node:process';
import t from 'tap';

const PLANTED = join(import.meta.dirname, '../../dist/sanitized/planted.node');

const reports = {
  overflowHeap: /AddressSanitizer: heap-buffer-overflow/,
  useAfterFree: /AddressSanitizer: heap-use-after-free/,
  overflowInt: /runtime error: signed integer overflow/,
};

for (const [fault, report] of Object.entries(reports)) {
  t.test(`${fault} ends the process with a report`, (t) => {
    const program = `process.dlopen(module, ${JSON.stringify(PLANTED)}); module.exports.${fault}(); console.log('went on')`;
    const { status, stdout, stderr } = spawnSync(process.execPath, ['-e', program], { encoding: 'utf8' });
    t.match(stderr, report);
    t.not(status, 0);
    t.equal(stdout, '');
    t.end();
  });
}
