// Two connected byte links that deliver in a later turn of the event loop. Either side can be cut or made deaf.
import type { ByteLink, LinkEvents } from '@sandboxd/proto';

export class LoopLink implements ByteLink {
  readonly isCopying = true;
  #peer: LoopLink | undefined;
  #events: LinkEvents | undefined;
  readonly #held: Buffer[] = [];
  #isDeaf = false;
  isClosed = false;

  join(peer: LoopLink): void {
    this.#peer = peer;
  }

  start(events: LinkEvents): void {
    this.#events = events;
  }

  write(chunks: readonly Uint8Array[]): boolean {
    const bytes = Buffer.concat(chunks);
    setImmediate(() => this.#peer?.receive(bytes));
    return true;
  }

  /** While true, received data is queued: the other side sees a silent peer. */
  set isDeaf(isDeaf: boolean) {
    this.#isDeaf = isDeaf;
    if (!isDeaf) for (const bytes of this.#held.splice(0)) this.receive(bytes);
  }

  get isDeaf(): boolean {
    return this.#isDeaf;
  }

  destroy(cause?: Error): void {
    this.close(cause);
    this.#peer?.close(cause);
  }

  receive(bytes: Buffer): void {
    if (this.isClosed) return;
    if (this.#isDeaf) this.#held.push(bytes);
    else this.#events?.data(bytes);
  }

  close(cause?: Error): void {
    if (this.isClosed) return;
    this.isClosed = true;
    setImmediate(() => this.#events?.close(cause));
  }
}

export function loopLinks(): { readonly host: LoopLink; readonly guest: LoopLink } {
  const links = { host: new LoopLink(), guest: new LoopLink() };
  links.host.join(links.guest);
  links.guest.join(links.host);
  return links;
}
