// The guest's identity: everything that two copies of one memory image must not share, set in one call.
import { existsSync } from 'node:fs';
import {
  AgentError,
  type Connections,
  type Identity,
  type Network,
  type SetClock,
  type Trust,
  type Wake,
} from '@sandboxd/proto';
import { enterRoot } from '../boot/enter-root.ts';
import { addon, NO_DIRECTORY } from '../native/addon.ts';
import { abortForgotten, applyNetwork, checkNetwork } from './network.ts';
import { writeOwnFile } from './own-file.ts';
import { applyTrust, checkTrust } from './trust/index.ts';

const MIN_ENTROPY_BYTES = 32;
const MAX_ENTROPY_BYTES = 512;
/** Mounted over the kernel's boot id, which all copies share. */
const BOOT_ID_FILE = '/run/sandbox/boot_id';
const BOOT_ID = '/proc/sys/kernel/random/boot_id';
/** For programs that run in a copied guest already. */
const ENVIRONMENT_FILE = '/run/sandbox/environment';
const MS_BIND = 4096;
const HOSTS_MARK = '# sandbox host name';

/** Throws AgentError for a field that is out of range. */
export function checkIdentity(identity: Identity): void {
  if (!/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(identity.hostname)) {
    throw new AgentError(
      'invalid',
      `host name ${JSON.stringify(identity.hostname)} is not a lower-case label`,
    );
  }
  if (!/^[0-9a-f]{32}$/.test(identity.machineId)) {
    throw new AgentError(
      'invalid',
      `machine id ${JSON.stringify(identity.machineId)} is not 32 hexadecimal digits`,
    );
  }
  if (identity.trust) checkTrust(identity.trust as Trust);
  checkRenewal(identity);
}

/** What no two moments of one guest may share either. */
function checkRenewal({
  entropy,
  unixTimeUs,
  network,
}: Pick<Identity, 'entropy' | 'unixTimeUs' | 'network'>): void {
  const entropyBytes = entropy.length;
  if (entropyBytes < MIN_ENTROPY_BYTES || entropyBytes > MAX_ENTROPY_BYTES) {
    throw new AgentError('invalid', `${entropyBytes} bytes of entropy are not 32 to 512`);
  }
  if (unixTimeUs <= 0) throw new AgentError('invalid', 'the time is missing');
  if (network) checkNetwork(network as Network);
}

/** `problems`: of the trust, if it was asked for. */
export type Applied = { readonly unixTimeUs: number; readonly trust?: { problems: string[] } };

/** The same guest continues after a pause. Returns the clock's time as `applyIdentity` does. */
export function wakeUp(wake: Wake): Applied {
  checkRenewal(wake);
  if (wake.trust) checkTrust(wake.trust as Trust);
  addon.addEntropy(wake.entropy);
  addon.setClock(wake.unixTimeUs);
  if (wake.network) applyNetwork(wake.network as Network);
  else if (wake.connections) abortForgotten(wake.connections as Connections);
  const trust = wake.trust && applyTrust(wake.trust as Trust, { isThorough: false });
  return { unixTimeUs: addon.shiftClock(0), ...(trust && { trust }) };
}

/**
 * Applies the identity. Entropy and clock come first, because later steps already use them. Returns the clock's time
 * after the last step, in microseconds since 1970.
 */
export function applyIdentity(identity: Identity): Applied {
  checkIdentity(identity);
  addon.addEntropy(identity.entropy);
  addon.setClock(identity.unixTimeUs);
  addon.setHostname(identity.hostname);
  if (identity.entersRoot) enterRoot();
  writeOwnFile('/etc/hostname', `${identity.hostname}\n`);
  writeOwnFile('/etc/machine-id', `${identity.machineId}\n`);
  writeOwnFile(
    '/etc/hosts',
    nameInHosts(readHosts(), identity.hostname, identity.network?.address ?? NO_ADDRESS),
  );
  writeOwnFile('/run/sandbox/id', `${identity.sandboxId}\n`);
  writeEnvironment(identity.environment);
  renewBootId();
  applyNetwork((identity.network as Network | null) ?? undefined);
  const trust = applyTrust((identity.trust as Trust | null) ?? undefined, { isThorough: false });
  return { unixTimeUs: addon.shiftClock(0), ...(identity.trust && { trust }) };
}

/** A copied guest may have that of its source. */
function writeEnvironment(pairs: readonly string[]): void {
  if (pairs.length === 0 && !existsSync(ENVIRONMENT_FILE)) return;
  const entries = pairs.map((pair) => {
    const end = pair.indexOf('=');
    return [pair.slice(0, end), pair.slice(end + 1)] as const;
  });
  writeOwnFile(ENVIRONMENT_FILE, `${JSON.stringify(Object.fromEntries(entries))}\n`);
}

/** The id comes from the kernel's generator, which was just reseeded. */
function renewBootId(): void {
  const id = addon.readText(NO_DIRECTORY, '/proc/sys/kernel/random/uuid');
  writeOwnFile(BOOT_ID_FILE, id);
  // A copy already has the mount of its snapshot.
  if (addon.readText(NO_DIRECTORY, BOOT_ID) !== id) addon.mount(BOOT_ID_FILE, BOOT_ID, '', MS_BIND, '');
}

/** Sets, shifts or only reads the clock. Returns the resulting time, in microseconds since 1970. */
export function correctClock({ unixTimeUs, shiftUs }: SetClock): number {
  if (unixTimeUs > 0) addon.setClock(unixTimeUs);
  return addon.shiftClock(unixTimeUs > 0 ? 0 : shiftUs);
}

/** Address of the guest's own name where it has no network, as on Debian. */
const NO_ADDRESS = '127.0.1.1';

/**
 * Returns /etc/hosts with `hostname` as the guest's own name at its network address, as in a container. Programs that
 * bind to their own name (Spark, Hadoop, Erlang) would otherwise be unreachable through a published port. Other lines
 * are kept.
 */
export function nameInHosts(text: string, hostname: string, address = NO_ADDRESS): string {
  const others = text.split('\n').filter((line) => line !== '' && !line.endsWith(HOSTS_MARK));
  const basics = others.some((line) => /^127\.0\.0\.1\s/.test(line))
    ? []
    : ['127.0.0.1 localhost', '::1 localhost'];
  return [...basics, ...others, `${address} ${hostname} ${HOSTS_MARK}`, ''].join('\n');
}

function readHosts(): string {
  try {
    return addon.readText(NO_DIRECTORY, '/etc/hosts');
  } catch {
    return '';
  }
}
