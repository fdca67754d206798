// Names and numbers of signals.
import '../support/addon-dir.ts';
import { SIGNALS } from '@sandboxd/api';
import t from 'tap';
import { signalName, signalNumber } from '../../../../guest-agent/src/lib/signals.ts';

t.test('signals have their Linux names', async (t) => {
  t.equal(signalNumber('SIGKILL'), 9);
  t.equal(signalNumber('KILL'), undefined);
  t.equal(signalName(6), 'SIGABRT');
  t.equal(signalName(29), 'SIGIO');
  t.equal(signalName(35), 'SIGRTMIN+1');
  t.equal(signalName(34), 'SIGRTMIN');
  t.equal(signalName(33), 'SIG33');
  for (const signal of SIGNALS) t.equal(signalName(signalNumber(signal) ?? 0), signal);
});
