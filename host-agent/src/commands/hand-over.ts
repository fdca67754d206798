// What is shown once, such as the text of a key: nobody has it if it cannot be written.

/** Writes to the standard output. When that fails `takeBack` undoes what it was for; then it rejects, with what went wrong. */
export async function handOver(text: string, takeBack: () => Promise<unknown>): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) =>
      process.stdout.write(text, (error) => (error ? reject(error) : resolve())),
    );
  } catch (error) {
    await takeBack();
    throw error;
  }
}
