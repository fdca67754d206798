// Every number of the REST interface that a client can run into. What only host and guest agree on is in proto/src/limits.ts.

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;

// ---- requests ----

/** Longest JSON body, and longest message of a WebSocket. */
export const MAX_JSON_BYTES = MIB;
/** Levels of arrays and objects in it. */
export const MAX_JSON_DEPTH = 100;
/** Longest silence within the body of a request. */
export const BODY_IDLE_MS = 30_000;
/** A body that comes more slowly than this is given up when that has cost as long as a silence may last. */
export const MIN_BODY_BYTES_PER_S = 240;
/** Headers of one request, and what they and its first line may take. */
export const MAX_HEADERS = 128;
export const MAX_HEAD_BYTES = 16 * KIB;
/** Requests of one connection that wait for their answers. */
export const MAX_PIPELINED_REQUESTS = 16;
/** Time for the first message of a WebSocket. */
export const FIRST_MESSAGE_MS = 30_000;
/** Most problems that one error message lists. */
export const MAX_PROBLEMS = 5;
/** Entries of one list or map that are found wrong: none is looked for beyond. */
export const MAX_FOUND_PROBLEMS = 1000;
/** Largest integer of a query; what is above 2^53 − 1 means that number. */
export const MAX_INT64 = 2n ** 63n - 1n;

/** Entries of one page of a list. */
export const MAX_PAGE_ITEMS = 1000;

// ---- one sandbox ----

export const MAX_VCPUS = 32;
export const MIN_MEMORY_MIB = 128;
export const MAX_MEMORY_MIB = 65_536;
export const MIN_DISK_BYTES = 64 * MIB;
export const MAX_DISK_BYTES = 16_384 * GIB;
/** `disk_bytes` is rounded up to a multiple of this. */
export const DISK_STEP_BYTES = MIB;
/** Longest image reference. */
export const MAX_IMAGE_REF_CHARS = 512;
/** As Linux has it. */
export const MAX_HOST_PATH_CHARS = 4096;
export const MAX_PROFILE_NAME_CHARS = 255;
/** Longest time in seconds that is counted: 68 years, a signed 32-bit number. */
export const MAX_SECONDS = 2 ** 31 - 1;
/** The kernel's own limit on x86 is 2048, of which the engine needs a part. */
export const MAX_BOOT_ARGS_CHARS = 1024;

/** What a create gets where neither the request nor the daemon's settings say something else. */
export const DEFAULT_VCPUS = 1;
export const DEFAULT_MEMORY_MIB = 512;
export const DEFAULT_DISK_BYTES = 4 * GIB;

export const MAX_FORKS = 64;

/** The daemon's own upper bounds, at most those of the interface, and what its host has. */
export type SandboxLimits = {
  readonly vcpus: number;
  readonly memoryMib: number;
  readonly diskBytes: number;
  /** Sandboxes that may exist at once. */
  readonly sandboxes: number;
  /** Forks of one request. */
  readonly fork: number;
  /** CPUs of the host, of which no sandbox may have more; absent where that is no concern. */
  readonly hostCpus?: number;
};

/** Those that the value of a field alone can pass. */
export type RequestLimits = Omit<SandboxLimits, 'sandboxes'>;

/** What no daemon goes beyond. */
export const INTERFACE_LIMITS: RequestLimits = {
  vcpus: MAX_VCPUS,
  memoryMib: MAX_MEMORY_MIB,
  diskBytes: MAX_DISK_BYTES,
  fork: MAX_FORKS,
};

// ---- network ----

export const MAX_PORT = 65_535;
export const MAX_HOST_NAME_CHARS = 253;
/** Patterns of an allowlist, and their characters together: every list of sandboxes has them all. */
export const MAX_ALLOWED_HOSTS = 1000;
export const MAX_ALLOWLIST_CHARS = 64 * KIB;
/** Ports of one sandbox. */
export const MAX_PUBLISHED_PORTS = 256;

// ---- exec ----

/** Most payload bytes of one exec frame: writers split, readers refuse more. */
export const MAX_EXEC_PAYLOAD_BYTES = 64 * KIB;
/** Columns and rows of a terminal. */
export const MAX_TTY_CELLS = 65_535;
/** A longer time limit is none: its milliseconds would not stay exact. */
export const MAX_EXEC_TIMEOUT_S = 2 ** 40;

/** Bytes of each stream that an answer as one JSON object keeps, by default and at most. */
export const DEFAULT_EXEC_OUTPUT_BYTES = MIB;
export const MAX_EXEC_OUTPUT_BYTES = 16 * MIB;

// ---- files ----

/** Bytes of one file that a read returns unless `max_bytes` says otherwise. */
export const DEFAULT_FILE_BYTES = 10 * MIB;

// ---- service ----

/** Of a service's program, arguments and environment together, which are kept with the sandbox. */
export const MAX_SERVICE_CHARS = 256 * KIB;

export const DEFAULT_STOP_GRACE_S = 10;
export const DEFAULT_LOG_BUFFER_BYTES = 2 * MIB;
export const MAX_LOG_BUFFER_BYTES = 16 * MIB;
/** Output in one JSON page of the service's logs; more than the most is cut to it. */
export const DEFAULT_OUTPUT_PAGE_BYTES = 256 * KIB;
export const MAX_OUTPUT_PAGE_BYTES = MIB;

// ---- streams of events and of stats ----

/** At once, of each kind, of everybody and of one tenant or key. */
export const MAX_WATCHERS = 1024;
export const MAX_WATCHERS_OF_EACH = 256;
/** Ids, and kinds, that one stream of events can be narrowed to. */
export const MAX_EVENT_FILTERS = 64;

// ---- exports and imports of snapshots ----

/** At once, of each of the two, of everybody and of one tenant or key: each has some MiB of the daemon. */
export const MAX_MOVES = 32;
export const MAX_MOVES_OF_EACH = 8;

// ---- durable logs ----

/** Records of one page. */
export const MAX_LOG_RECORDS = 5000;
/** What a read without `since` returns of the log's end. */
export const LOG_TAIL_BYTES = 64 * KIB;
