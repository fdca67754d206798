// A place that is made before its sandbox is offered: who sees it, and what its host and the one that it leaves do.
import t from 'tap';
import { decide, type Facts } from '../../../../host-agent/src/fleet/host/decide.ts';
import {
  ARRIVAL,
  FETCHED,
  LEAVING,
  readPlacePod,
  SEAL,
  TAKES_CHANGES,
  toArrival,
  toOpened,
  toPod,
} from '../../../../host-agent/src/fleet/kubernetes/pods.ts';
import { FleetSeal } from '../../../../host-agent/src/fleet/seal.ts';

const seal = new FleetSeal(Buffer.alloc(32, 1));
const REQUEST = { id: 'sbx_0123456789abc', move: '01234567', vcpus: 1, memoryMib: 512 };
const made = toPod({ ...REQUEST, isAhead: true }, 'sandboxd', seal);

function read(annotations: Record<string, string | null> = {}, conditions: object[] = []) {
  const all = { ...made.metadata.annotations, ...annotations };
  const kept = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null));
  const metadata = { ...made.metadata, uid: 'u1', annotations: kept };
  return readPlacePod({ ...made, metadata, status: { phase: 'Pending', conditions } }, seal);
}

t.test('only who knows such places sees one, until it is opened', (t) => {
  const pod = read();
  t.match(pod, { ...REQUEST, isAhead: true, fetched: undefined });
  t.equal(read({ 'sandboxd.dev/ahead': null }), undefined, 'as a host of an earlier version reads it');
  if (pod === undefined) throw new Error('it is not read');
  const { annotations } = toOpened(pod, seal).metadata;
  const opened = read(annotations);
  t.match(opened, REQUEST);
  t.equal(opened?.isAhead, undefined);
  // Whoever may change a pod has one of two seals, and no third kind of place.
  t.equal(read({ ...annotations, 'sandboxd.dev/ahead': 'true' })?.isAhead, undefined);
  t.equal(read({ 'sandboxd.dev/restored': 'true' })?.isRestored, false);
  t.equal(read({ [SEAL]: 'no seal' }), undefined);
  t.end();
});

t.test('how far a host is', (t) => {
  const at = (reason: string) => read({}, [{ type: FETCHED, status: 'False', reason }])?.fetched;
  t.same(['Fetching', 'Ready', 'Over', 'Else', ''].map(at), [
    'fetching',
    'ready',
    'over',
    undefined,
    undefined,
  ]);
  const ready = { move: '01234567', state: 'ready' } as const;
  for (const [text, takesChanges] of [
    ['01234567 ready', false],
    ['01234567 ready changes', true],
    ['01234567 ready later', false],
  ] as const)
    t.same(read({ [ARRIVAL]: text })?.arrival, { ...ready, takesChanges }, text);
  for (const takesChanges of [false, true])
    t.match(read({ [ARRIVAL]: toArrival({ ...ready, takesChanges }) })?.arrival, { takesChanges });
  const takes = (status: string) => read({}, [{ type: TAKES_CHANGES, status, reason: '' }])?.takesChanges;
  t.same(['True', 'False', 'true'].map(takes), [true, false, false]);
  t.equal(read()?.takesChanges, false, 'a host of an earlier version');
  for (const text of ['', 'ready', '0123 ready', '01234567 later', `${'0'.repeat(100_000)} ready`])
    t.equal(read({ [ARRIVAL]: text })?.arrival, undefined);
  t.end();
});

t.test('what hosts do about it', (t) => {
  const ahead = read();
  const nothing = { record: undefined, sandbox: undefined, isBusy: false };
  const facts: Facts = { pod: ahead, ...nothing, knownMs: 600_000, nodeUid: 'n1', nodeKnownMs: 600_000 };
  t.equal(decide(facts), 'prefetch', 'however long');
  if (ahead === undefined) throw new Error('it is not read');
  t.equal(decide({ ...facts, pod: { ...ahead, isDeleting: true } }), 'remove-pod');
  t.equal(decide({ ...facts, pod: { ...ahead, phase: 'Failed' } }), 'nothing');
  t.equal(decide({ ...facts, pod: { ...ahead, isAhead: false } }), 'take-over');
  t.equal(decide({ ...facts, isBusy: true }), 'wait');
  const record = { namespace: 'sandboxd', uid: 'u1', nodeUid: 'n1' };
  const source = { ...ahead, isAhead: false, phase: 'Running' };
  const running: Facts = { ...facts, pod: source, record, sandbox: 'running' };
  t.equal(decide({ ...running, copied: '01234567' }), 'mark-leaving');
  t.equal(decide({ ...running, pod: { ...source, copied: '01234567' }, copied: '01234567' }), 'nothing');
  t.equal(decide({ ...running, pod: { ...source, copied: '01234567' } }), 'mark-leaving', 'it stays');
  t.equal(read({}, [{ type: LEAVING, status: 'True', reason: 'D01234567' }])?.leaves, '01234567');
  t.end();
});
