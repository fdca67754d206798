// The end of the guest.
import { addon } from '../native/addon.ts';

/** Time for programs to react to SIGTERM; they are gone with the guest's disk anyway. */
const GRACE_MS = 300;
const POLL_MS = 10;
/** Lets the VMM take the last bytes out of the channel. */
const FLUSH_MS = 20;

const EVERYONE = -1;
const SIGTERM = 15;
const SIGKILL = 9;
const SIGCONT = 18;

/** Ends every process, syncs, calls `onReady` (to answer the host), and powers off. */
export async function powerOff(onReady: () => void): Promise<void> {
  addon.kill(EVERYONE, SIGTERM);
  addon.kill(EVERYONE, SIGCONT);
  // Signal 0 reaches nobody once the agent is alone.
  for (let waitedMs = 0; waitedMs < GRACE_MS && addon.kill(EVERYONE, 0) === 0; waitedMs += POLL_MS) {
    await pause(POLL_MS);
  }
  addon.kill(EVERYONE, SIGKILL);
  addon.syncDisks();
  onReady();
  await pause(FLUSH_MS);
  addon.powerOff();
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
