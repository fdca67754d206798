// How the JavaScript suite of E2B is run: without browsers and other runtimes, one file at a time.
export default {
  test: {
    include: ['tests/**/*.test.ts'],
    exclude: ['tests/runtimes/**', 'tests/bundle/**', 'tests/connectionConfig*'],
    testTimeout: 180_000,
    hookTimeout: 60_000,
    setupFiles: ['tests/globalFetchFallback.setup.ts', process.env.TEST_E2B_SETUP],
    fileParallelism: false,
  },
};
