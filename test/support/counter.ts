// A process in a guest that counts in memory, to be seen going on: shell lines for exec.

/** The newest number; waits where it is just being written, or has not begun. */
export const COUNT =
  'until n=$(cat /dev/shm/count 2>/dev/null) && [ -n "$n" ]; do sleep 0.05; done; echo "$n"';

/** Returns once it counts. */
export const START_COUNTING = `(setsid sh -c 'i=0; while true; do i=$((i+1)); echo $i > /dev/shm/count; sleep 0.05; done' > /dev/null 2>&1 &)
${COUNT} > /dev/null`;
