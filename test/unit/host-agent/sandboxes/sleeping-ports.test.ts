// Connections to published ports of a paused sandbox: one resume for all, or a refusal that says why.
import t, { type Test } from 'tap';
import { OPERATOR } from '../../../../host-agent/src/keys/index.ts';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import type { CreateSandboxOptions } from '../../../../host-agent/src/sandboxes/types.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { execText } from '../../../support/memory-host/client.ts';
import { type MemoryDaemonOptions, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { until } from '../../../support/until.ts';

const PUBLISH = { publish: [{ hostPort: 8080, guestPort: 80 }] };

async function start(t: Test, create: CreateSandboxOptions = {}, options: MemoryDaemonOptions = {}) {
  const daemon = await startMemoryDaemon(t, options);
  const { manager, network, host } = daemon;
  host.agentFaults = { freezes: true };
  const { id } = await manager.create({ ...PUBLISH, ...create });
  const handle = () => manager.as(OPERATOR).get(id);
  const connect = (times = 1) => {
    for (let at = 0; at < times; at++) for (const knock of network.knock.values()) knock();
  };
  const modes = () => network.calls.flatMap((call) => /^ports (\w+)/.exec(call)?.[1] ?? []);
  const readLog = async () => JSON.stringify(await Array.fromAsync(logLines(daemon, id)));
  return { ...daemon, id, handle, connect, modes, readLog, readState: () => handle().info.state };
}
