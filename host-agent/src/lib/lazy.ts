// A value that is created at its first use.

/** A failed attempt is retried by the next call. */
export function lazy<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}

/** Keeps the process alive: what a start or stop waits for (VMMs, idle sockets) does not by itself. */
export function keepAlive(): Disposable {
  const timer = setInterval(() => {}, 60_000);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
