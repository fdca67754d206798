// The table of verbs.
import type { Verb } from './verb.ts';
import { checks } from './verbs/checks.ts';
import { code } from './verbs/code.ts';
import { attach, commands, kill, wait } from './verbs/commands.ts';
import { completion } from './verbs/completion.ts';
import { context } from './verbs/context.ts';
import { cp } from './verbs/cp.ts';
import { diff } from './verbs/diff.ts';
import { egress } from './verbs/egress.ts';
import { events } from './verbs/events.ts';
import { exec } from './verbs/exec.ts';
import { cat, edit, ls, mkdir, mv } from './verbs/files.ts';
import { hosts } from './verbs/hosts.ts';
import { images, pull, rmi } from './verbs/images.ts';
import { keys } from './verbs/keys.ts';
import { open } from './verbs/links.ts';
import { logs } from './verbs/logs.ts';
import { mcp } from './verbs/mcp.ts';
import { exportSnapshot, importSnapshot } from './verbs/move.ts';
import { network } from './verbs/network.ts';
import { connect, forward, ports, ssh } from './verbs/ports.ts';
import { run } from './verbs/run.ts';
import { inspect, ps, rm } from './verbs/sandboxes.ts';
import { secret } from './verbs/secret.ts';
import { service } from './verbs/service.ts';
import { pause, resume } from './verbs/sleep.ts';
import { fork, rollback, snapshot, snapshots } from './verbs/snapshots.ts';
import { stats } from './verbs/stats.ts';
import { tree } from './verbs/tree.ts';
import { update } from './verbs/update.ts';
import { version } from './verbs/version.ts';
import { watch } from './verbs/watch.ts';

export const VERBS: readonly Verb[] = [
  run,
  exec,
  code,
  commands,
  attach,
  wait,
  kill,
  ps,
  pause,
  resume,
  update,
  rm,
  cp,
  ls,
  cat,
  mkdir,
  mv,
  edit,
  watch,
  logs,
  snapshot,
  snapshots,
  tree,
  diff,
  fork,
  rollback,
  exportSnapshot,
  importSnapshot,
  images,
  pull,
  rmi,
  forward,
  connect,
  ssh,
  ports,
  network,
  egress,
  secret,
  open,
  service,
  stats,
  events,
  hosts,
  mcp,
  inspect,
  checks,
  keys,
  context,
  version,
  completion,
];
