// Changes of the saved state for a fork: other disk sizes, and memory that is mapped from a file instead of being read,
// with each range at its file offset.
import t from 'tap';
import {
  dropMemoryRanges,
  setMappedMemory,
  setPlainMemory,
} from '../../../../../host-agent/src/engines/cloud-hypervisor/mapped-memory.ts';
import {
  knowsSavedState,
  SavedState,
  setFreeDiskSizes,
} from '../../../../../host-agent/src/engines/cloud-hypervisor/saved-state.ts';

const GIB = 2 ** 30;
/** More digits than a double can represent. */
const DEVICES = '"start_of_device_area":18446744073709551615';

const mapping = (gpa: number, size: number, offset: string) =>
  `{"gpa":${gpa},"size":${size},"slot":0,"zone_id":"mem0","virtio_mem":false,${offset}}`;
const memoryOf = (ranges: string, mappings: string) =>
  `{"memory_ranges":{"data":[${ranges}]},"guest_ram_mappings":[${mappings}],${DEVICES}}`;
const stateOf = (state: string) =>
  new SavedState(
    JSON.stringify({ snapshots: { 'memory-manager': { snapshots: {}, snapshot_data: { state } } } }),
  );

t.test('memory around the hole below 4 GiB lies in the file without it', async (t) => {
  const ranges = `{"gpa":0,"length":${3 * GIB}},{"gpa":${4 * GIB},"length":${GIB / 2}}`;
  const parts = (first: number, second: number) =>
    [
      mapping(0, 3 * GIB, `"file_offset":${first}`),
      mapping(4 * GIB, GIB / 2, `"file_offset":${second}`),
    ].join();
  const state = stateOf(memoryOf(ranges, parts(0, 0)));
  dropMemoryRanges(state);
  t.equal(state.read('memory-manager'), memoryOf('', parts(0, 3 * GIB)));
  dropMemoryRanges(state);
  t.equal(state.read('memory-manager'), memoryOf('', parts(0, 3 * GIB)), 'as it is of a copy');
});

t.test('what has another form is refused', async (t) => {
  for (const text of [
    '{}',
    memoryOf('', mapping(0, GIB, '"offset":0')),
    memoryOf('', mapping(0, Number.NaN, '"file_offset":0')),
    '{"memory_ranges":{"data":[]}}',
    '{"guest_ram_mappings":[]}',
  ])
    t.throws(() => dropMemoryRanges(stateOf(text)), { code: 'internal', message: /form that is not known/ });
});

t.test('a copy has as much memory as its source, in a file or of its own', async (t) => {
  const config = { memory: { size: 3.5 * GIB, shared: false } as Record<string, unknown> };
  setMappedMemory(config, '/start/memory-ranges');
  const zones = [{ id: 'mem0', size: 3.5 * GIB, file: '/start/memory-ranges', shared: false }];
  t.same(config.memory, { size: 0, shared: false, zones });
  setMappedMemory(config, '/other');
  t.match(config.memory, { size: 0, zones: [{ size: 3.5 * GIB, file: '/other' }] });
  setPlainMemory(config);
  t.same(config.memory, { size: 3.5 * GIB, shared: false });
});

/** A saved state of devices. */
const devicesOf = (devices: Record<string, unknown>): SavedState => {
  const data = (state: unknown) => ({ snapshots: {}, snapshot_data: { state } });
  const all = Object.entries(devices).map(([id, state]) => [id, data(state)]);
  return new SavedState(
    JSON.stringify({ snapshots: { 'device-manager': { snapshots: Object.fromEntries(all) } } }),
  );
};

t.test('a disk that no driver has gets another size, and no other', async (t) => {
  const disk = (sectors: number, more = {}) =>
    JSON.stringify({ disk_nsectors: sectors, config: { capacity: sectors, seg_max: 2 }, other: 1, ...more });
  const pci = (isTaken: unknown) => JSON.stringify({ device_activated: isTaken });
  const devices = {
    disk0: disk(5),
    '_virtio-pci-disk0': pci(true),
    disk1: disk(6),
    '_virtio-pci-disk1': pci(false),
  };
  const state = devicesOf(devices);
  setFreeDiskSizes(state, [999 * 512, 77 * 512 + 511]);
  t.equal(state.read('device-manager', 'disk0'), devices.disk0);
  t.equal(state.read('device-manager', 'disk1'), disk(77));
  for (const [change, what] of [
    [{ '_virtio-pci-disk1': pci('no') }, 'nothing says whether a driver has disk1'],
    [{ '_virtio-pci-disk1': 'null' }, 'disk1 is not an object'],
    [{ '_virtio-pci-disk1': '7' }, 'disk1 is not an object'],
    [{ disk1: disk(6, { config: null }) }, 'disk1 has no size'],
    [{ disk1: disk(6, { config: 'capacity' }) }, 'disk1 has no size'],
    [{ disk1: disk(6, { config: {}, disk_nsectors: undefined }) }, 'disk1 has no size'],
    [{ disk1: disk(6, { disk_nsectors: 7 }) }, 'disk1 has no size'],
    [{ disk1: { not: 'a text' } }, 'device-manager / disk1 has no state'],
  ] as const)
    t.throws(() => setFreeDiskSizes(devicesOf({ ...devices, ...change }), [0, 0]), {
      ...{ code: 'internal', details: { stage: 'restore' } },
      message: `the saved state has a form that is not known: ${what}`,
    });
});

t.test('a state is changed in one place, in a version whose form is known', async (t) => {
  const state = devicesOf({ a: 'one', b: 'two' });
  state.write(['device-manager', 'b'], 'three');
  t.equal(state.toString(), devicesOf({ a: 'one', b: 'three' }).toString());
  const saved = '{"snapshots":{"x":{"snapshot_data":{"state":"7"}}},"other":[0]}';
  t.equal(new SavedState(saved).toString(), saved);
  const message = 'the saved state has a form that is not known: it has no ';
  t.throws(() => state.read('device-manager', 'c'), { message: `${message}c` });
  t.throws(() => state.read('x'), { message: `${message}x` });
  t.throws(() => new SavedState('{"snapshots":7}').read('x'), { message: `${message}snapshots` });
  t.throws(() => new SavedState('{"snapshots":null}').write(['x'], ''), { message: `${message}snapshots` });
  t.throws(() => new SavedState('{"snapshots":{"x":{}}}').read('x'), { message: `${message}snapshot_data` });
  for (const version of ['53.0', '53.12-x', '53']) t.ok(knowsSavedState(version), version);
  for (const version of ['54.0', '5.3', '530.1', '']) t.notOk(knowsSavedState(version), version);
});

t.test('memory of several parts becomes one of their size', async (t) => {
  const config = { memory: { size: 5, zones: [{ size: 7 }, { size: 11 }] } };
  setPlainMemory(config);
  t.same(config, { memory: { size: 23 } });
  const none = { memory: { size: 5, zones: null } };
  setPlainMemory(none);
  t.same(none, { memory: { size: 5 } });
});
