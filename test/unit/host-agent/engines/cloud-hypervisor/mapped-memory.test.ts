// The saved state of a guest whose memory is to be a mapping of its file: nothing is read, and each part lies at its place there.
import t from 'tap';
import {
  dropMemoryRanges,
  setMappedMemory,
  setPlainMemory,
} from '../../../../../host-agent/src/engines/cloud-hypervisor/mapped-memory.ts';
import { SavedState } from '../../../../../host-agent/src/engines/cloud-hypervisor/saved-state.ts';

const GIB = 2 ** 30;
/** More digits than a double has. */
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
