// Ids of sandboxes, snapshots and commands.
import { z } from 'zod';

const SHAPE = '[0-9a-v]{13}';

function id<P extends string>(prefix: P, what: string) {
  const error = `${what} {name} {value} is malformed; expected ${prefix}_ and 13 characters of 0-9 and a-v`;
  return z.string({ error }).regex(new RegExp(`^${prefix}_${SHAPE}$`), { error });
}

/** Error messages use the title as the name of a path parameter. */
export const sandboxId = id('sbx', 'sandbox').meta({
  title: 'sandbox id',
  description: 'id of the sandbox: sbx_ and 13 characters of 0-9 and a-v',
});
export const snapshotId = id('snap', 'snapshot').meta({
  title: 'snapshot id',
  description: 'id of the snapshot: snap_ and 13 characters of 0-9 and a-v',
});
export const commandId = id('cmd', 'command').meta({
  title: 'command id',
  description: 'id of the command: cmd_ and 13 characters of 0-9 and a-v',
});

export const sandboxPath = z.object({ id: sandboxId });
export const commandPath = z.object({ id: sandboxId, cid: commandId });
export const snapshotPath = z.object({ id: snapshotId });
