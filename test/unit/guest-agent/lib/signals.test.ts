// Names and numbers of signals.
import '../support/addon-dir.ts';
import t from 'tap';
import { signalName, signalNumber } from '../../../../guest-agent/src/lib/signals.ts';

t.test('signals have their Linux names', async (t) => {
  t.equal(signalNumber('SIGKILL'), 9);
  t.equal(signalNumber('KILL'), undefined);
  t.equal(signalName(6), 'SIGABRT');
  t.equal(signalName(29), 'SIGIO');
  t.equal(signalName(35), 'SIGRTMIN+1');
  for (let number = 1; number <= 31; number++) t.equal(signalNumber(signalName(number)), number);
});
