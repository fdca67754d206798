// On a slow test host, `fetch` needs a longer timeout than its five minutes. It must also not reuse an idle connection
// that the daemon has just closed, when the test gets no CPU for a long time.
import { scaled, TIME_SCALE } from './time-scale.ts';

const USUAL_MS = 300_000;
const IDLE_MS = 5000;
/** Node's global fetch dispatcher; its limits have no public API. */
const DISPATCHER = Symbol.for('undici.globalDispatcher.2');

export async function makeFetchPatient(): Promise<void> {
  if (TIME_SCALE === 1) return;
  await fetch('data:,'); // creates the dispatcher, which is lazy
  const current: { constructor: new (options: object) => object } = Reflect.get(globalThis, DISPATCHER);
  const limits = {
    headersTimeout: scaled(USUAL_MS),
    bodyTimeout: scaled(USUAL_MS),
    keepAliveMaxTimeout: IDLE_MS,
  };
  Reflect.set(globalThis, DISPATCHER, new current.constructor(limits));
}
