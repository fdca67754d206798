// Checks the service's spec and converts it to a command.
import { mkdirSync } from 'node:fs';
import { AgentError, type ServiceSpec } from '@sandboxd/proto';
import type { Command } from '../exec/launch.ts';
import { signalNumber } from '../lib/signals.ts';
import type { RestartPolicy } from './restart-policy.ts';

const MAX_RING_BYTES = 16 * 1024 * 1024;

/** Throws AgentError invalid. The host has checked clients' specs already. */
export function checkSpec(spec: ServiceSpec): void {
  if (spec.cmd.length === 0 || spec.cmd[0] === '') throw new AgentError('invalid', 'cmd is empty');
  if (signalNumber(spec.stopSignal) === undefined) {
    throw new AgentError('invalid', `there is no signal ${JSON.stringify(spec.stopSignal)}`);
  }
  if (!['never', 'on-failure', 'always'].includes(spec.restartPolicy)) {
    throw new AgentError('invalid', `there is no restart policy ${JSON.stringify(spec.restartPolicy)}`);
  }
  if (spec.logBufferBytes > MAX_RING_BYTES) {
    throw new AgentError('invalid', `a log buffer of ${spec.logBufferBytes} bytes is over ${MAX_RING_BYTES}`);
  }
}

export function isSameSpec(a: ServiceSpec, b: ServiceSpec): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

export function toRestartPolicy(spec: ServiceSpec): RestartPolicy {
  return { policy: spec.restartPolicy as RestartPolicy['policy'], maxRetries: spec.maxRetries };
}

/** The command to run. Creates the working directory if the spec requires that. */
export function toExec(spec: ServiceSpec): Command {
  if (spec.makeCwd) makeDirectory(spec.cwd);
  return {
    cmd: spec.cmd,
    env: [...spec.baseEnv, ...spec.env],
    cwd: spec.cwd,
    user: spec.user,
    timeoutMs: 0,
    stdin: false,
    // Only a spec with an exact environment has its directory created.
    ...(spec.makeCwd && { isExact: true }),
  };
}

function makeDirectory(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o755 });
  } catch {
    // The launch reports the error of this directory.
  }
}
