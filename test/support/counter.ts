// A process in a guest that counts in memory, to show that it continues: shell lines for exec.

/** The newest number. Waits while it is being written, or before counting starts. */
export const COUNT =
  'until n=$(cat /dev/shm/count 2>/dev/null) && [ -n "$n" ]; do sleep 0.05; done; echo "$n"';

/** Returns once counting has started. */
export const START_COUNTING = `(setsid sh -c 'i=0; while true; do i=$((i+1)); echo $i > /dev/shm/count; sleep 0.05; done' > /dev/null 2>&1 &)
${COUNT} > /dev/null`;
