// Output that is shown only once, such as a key's text.

/**
 * Writes to standard output. When that fails, `takeBack` undoes the operation, and the call rejects with the write
 * error.
 */
export async function printOnce(text: string, takeBack: () => Promise<unknown>): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) =>
      process.stdout.write(text, (error) => (error ? reject(error) : resolve())),
    );
  } catch (error) {
    await takeBack();
    throw error;
  }
}
