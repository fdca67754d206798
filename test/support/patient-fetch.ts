// Where everything takes longer, `fetch` must wait longer too: it gives up on an answer after five minutes. And a test that
// gets no CPU for long must not find that the daemon has just closed the idle connection which it chose.
import { scaled, TIME_SCALE } from './time-scale.ts';

const USUAL_MS = 300_000;
const IDLE_MS = 5000;
/** Where Node keeps what its `fetch` sends requests through; there is no public way to its limits. */
const DISPATCHER = Symbol.for('undici.globalDispatcher.2');

export async function makeFetchPatient(): Promise<void> {
  if (TIME_SCALE === 1) return;
  await fetch('data:,'); // it is made on first use
  const current: { constructor: new (options: object) => object } = Reflect.get(globalThis, DISPATCHER);
  const limits = {
    headersTimeout: scaled(USUAL_MS),
    bodyTimeout: scaled(USUAL_MS),
    keepAliveMaxTimeout: IDLE_MS,
  };
  Reflect.set(globalThis, DISPATCHER, new current.constructor(limits));
}
