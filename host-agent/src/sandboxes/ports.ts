// Connections to the ports of a sandbox.
import type { PortConnection, PortOptions } from '../guest/port-stream.ts';
import type { Sandbox } from './sandbox.ts';

/** A connection is a use until it is closed. AppErrors as in `AwakeSandbox`. */
export async function connectPort(
  sandbox: Sandbox,
  port: number,
  options?: PortOptions,
): Promise<PortConnection> {
  sandbox.assertAlive();
  const endUse = sandbox.beginUse();
  try {
    const connection = await sandbox.awake.guest.ports.connect(port, options);
    if (connection.closed) endUse();
    else connection.once('close', endUse);
    return connection;
  } catch (error) {
    endUse();
    throw error;
  }
}
