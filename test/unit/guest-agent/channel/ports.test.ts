// How the agent finds its host's port.
import '../support/addon-dir.ts';
import { mkdirSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { findSerialPort } from '../../../../guest-agent/src/channel/ports.ts';

t.test('the serial port is found by the name that the host gave it', async (t) => {
  const root = t.testdir({});
  t.equal(findSerialPort('sandbox.agent', root), undefined);
  for (const [port, name] of [
    ['vport1p1', 'other\n'],
    ['vport2p3', 'sandbox.agent\n'],
  ] as const) {
    mkdirSync(`${root}/sys/class/virtio-ports/${port}`, { recursive: true });
    writeFileSync(`${root}/sys/class/virtio-ports/${port}/name`, name);
  }
  mkdirSync(`${root}/sys/class/virtio-ports/vport0p0`);
  t.equal(findSerialPort('sandbox.agent', root), `${root}/dev/vport2p3`);
});
