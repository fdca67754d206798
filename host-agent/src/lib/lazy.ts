// A value that is created at its first use.

/** A failed attempt is retried by the next call. */
export function lazy<T>(create: () => Promise<T>): () => Promise<T> {
  let created: Promise<T> | undefined;
  return () => {
    created ??= create().catch((error: unknown) => {
      created = undefined;
      throw error;
    });
    return created;
  };
}

/** Keeps the process alive: what a start or stop waits for (VMMs, idle sockets) does not by itself. */
export function keepAlive(): Disposable {
  const timer = setInterval(() => {}, 60_000);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
