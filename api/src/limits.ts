// The limits of the REST API. The limits between host and guest are in proto/src/limits.ts.

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;

// ---- requests ----

/** Maximum size of a JSON body and of a WebSocket message. */
export const MAX_JSON_BYTES = MIB;
/** Maximum nesting of arrays and objects in it. */
export const MAX_JSON_DEPTH = 100;
/** Idle timeout of a request body. */
export const BODY_IDLE_MS = 30_000;
/** Minimum rate of a request body. A slower body uses up the idle timeout and then fails. */
export const MIN_BODY_BYTES_PER_S = 240;
/** Maximum number of headers of a request, and maximum size of the request line and headers. */
export const MAX_HEADERS = 128;
export const MAX_HEAD_BYTES = 16 * KIB;
/** Maximum number of unanswered requests on one connection. */
export const MAX_PIPELINED_REQUESTS = 16;
/** Timeout for the first message of a WebSocket. */
export const FIRST_MESSAGE_MS = 30_000;
/** Maximum number of problems in one error message. */
export const MAX_PROBLEMS = 5;
/** Validation of one list or map stops after this many invalid entries. */
export const MAX_FOUND_PROBLEMS = 1000;
/** Largest integer in a query. A value above 2^53 − 1 becomes 2^53 − 1. */
export const MAX_INT64 = 2n ** 63n - 1n;

/** Maximum number of entries in one page of a list. */
export const MAX_PAGE_ITEMS = 1000;
/** Snapshots of idle sandboxes that one of them may keep. */
export const MAX_KEPT_SNAPSHOTS = 100;

// ---- idempotency keys ----

export const MAX_IDEMPOTENCY_KEY_CHARS = 255;
/** How long the answer to a request with a key is stored. */
export const IDEMPOTENCY_KEPT_S = 86_400;
/** Maximum size of all stored answers, compressed. A tenant, or a key without one, gets half of it. */
export const MAX_RECORDED_BYTES = 64 * MIB;
/** Maximum size of one of them. */
export const MAX_RECORDED_ANSWER_BYTES = MIB;
/** Maximum number of running requests with a key: in total, and of one tenant or key. */
export const MAX_KEYED_REQUESTS = 1024;
export const MAX_KEYED_REQUESTS_OF_EACH = 256;

// ---- one sandbox ----

export const MAX_VCPUS = 32;
export const MIN_MEMORY_MIB = 128;
export const MAX_MEMORY_MIB = 65_536;
export const MIN_DISK_BYTES = 64 * MIB;
export const MAX_DISK_BYTES = 16_384 * GIB;
/** `disk_bytes` is rounded up to a multiple of this. */
export const DISK_STEP_BYTES = MIB;
/** Maximum length of an image reference. */
export const MAX_IMAGE_REF_CHARS = 512;
/** PATH_MAX of Linux. */
export const MAX_HOST_PATH_CHARS = 4096;
export const MAX_PROFILE_NAME_CHARS = 255;
/** Maximum duration in seconds: the largest signed 32-bit integer, 68 years. */
export const MAX_SECONDS = 2 ** 31 - 1;
/** The kernel's limit on x86 is 2048 bytes; the engine needs a part of them. */
export const MAX_BOOT_ARGS_CHARS = 1024;

/** Defaults that apply if neither the request nor the settings of the daemon define a value. */
export const DEFAULT_VCPUS = 1;
export const DEFAULT_MEMORY_MIB = 512;
export const DEFAULT_DISK_BYTES = 4 * GIB;

/** Maximum length of a name, of a label's key without its domain, and of its value. */
export const MAX_NAME_CHARS = 63;
/** Maximum number of labels of a sandbox, a snapshot or an image. */
export const MAX_LABELS = 64;
/** Maximum length of a snapshot's comment. */
export const MAX_COMMENT_CHARS = 1024;
/** Maximum total length of the keys and values of labels: lists, events and audit lines show them. */
export const MAX_LABELS_CHARS = 8 * KIB;
/** Maximum total length of the names and values in the environment of a sandbox, which is stored with it. */
export const MAX_SANDBOX_ENV_CHARS = 64 * KIB;

export const MAX_FORKS = 64;

/** The limits of one daemon, which never exceed those of the API, and the CPUs of its host. */
export type SandboxLimits = {
  readonly vcpus: number;
  readonly memoryMib: number;
  readonly diskBytes: number;
  /** Maximum number of sandboxes at a time. */
  readonly sandboxes: number;
  /** Maximum number of forks in one request. */
  readonly fork: number;
  /** CPUs of the host, which limit the vCPUs of a sandbox. Absent: no such limit. */
  readonly hostCpus?: number;
};

/** The limits that apply to single fields of a request. */
export type RequestLimits = Omit<SandboxLimits, 'sandboxes'>;

/** The limits that no daemon exceeds. */
export const INTERFACE_LIMITS: RequestLimits = {
  vcpus: MAX_VCPUS,
  memoryMib: MAX_MEMORY_MIB,
  diskBytes: MAX_DISK_BYTES,
  fork: MAX_FORKS,
};

// ---- network ----

export const MAX_PORT = 65_535;
export const MAX_HOST_NAME_CHARS = 253;
/** Maximum number of patterns in an allowlist, and of their characters in total: every list of sandboxes shows them. */
export const MAX_ALLOWED_HOSTS = 1000;
export const MAX_ALLOWLIST_CHARS = 64 * KIB;
/**
 * Maximum number of rules of a network, of different lists of protocol and ports in them, of ports of one rule, of its
 * methods and of its paths, and of presets.
 */
export const MAX_NETWORK_RULES = 256;
export const MAX_RULE_CLASSES = 64;
export const MAX_RULE_PORTS = 64;
export const MAX_RULE_PATTERNS = 64;
export const MAX_NETWORK_PRESETS = 16;
/** Of all rules of a network together, as JSON: every list of sandboxes shows them. */
export const MAX_RULE_CHARS = 64 * KIB;

// ---- secrets ----

/** Maximum number of secrets of one sandbox; of hosts, and of forms, of one. */
export const MAX_SANDBOX_SECRETS = 64;
/** In all values that a sandbox may use: answers are searched for them. */
export const MAX_SANDBOX_SECRET_BYTES = 65_536;
export const MAX_SECRET_HOSTS = 64;
export const MAX_SECRET_FORMS = 16;
/** Length of a value. A shorter one would be found everywhere in an answer. */
export const MIN_SECRET_CHARS = 8;
export const MAX_SECRET_CHARS = 64 * KIB;
/** Maximum number of stored secrets of a tenant, or of all keys without one; and of their values together. */
export const MAX_STORED_SECRETS = 1000;
export const MAX_STORED_SECRET_BYTES = 4 * MIB;

/** Maximum number of published ports of one sandbox. */
export const MAX_PUBLISHED_PORTS = 256;

/** Maximum number of connections to ports of one sandbox at a time, and of ports that are open for URLs. */
export const MAX_PORT_CONNECTIONS = 256;
export const MAX_OPEN_PORTS = 256;

// ---- links of ports ----

/** Maximum number of links of all ports of one sandbox. */
export const MAX_PORT_LINKS = 256;
/** How long a link works: default and maximum. */
export const DEFAULT_LINK_S = 86_400;
export const MAX_LINK_S = 30 * 86_400;

// ---- exec ----

/** Maximum payload of one exec frame. Writers split larger payloads; readers refuse them. */
export const MAX_EXEC_PAYLOAD_BYTES = 64 * KIB;
/** Maximum number of columns, and of rows, of a terminal. */
export const MAX_TTY_CELLS = 65_535;
/** A longer timeout means no timeout, because its milliseconds would exceed the exact integers. */
export const MAX_EXEC_TIMEOUT_S = 2 ** 40;

/** Output bytes of each stream in a JSON response: default and maximum. */
export const DEFAULT_EXEC_OUTPUT_BYTES = MIB;
export const MAX_EXEC_OUTPUT_BYTES = 16 * MIB;

// ---- commands by id ----

/** Maximum number of detached commands that run in one sandbox at a time. */
export const MAX_DETACHED_COMMANDS = 256;
/** Maximum number of requests of one sandbox that wait for the end or the output of a command, or of the service. */
export const MAX_WAITING_REQUESTS = 1024;
/** Output bytes of a detached command that the guest stores: default and maximum. */
export const DEFAULT_OUTPUT_BUFFER_BYTES = MIB;
export const MAX_OUTPUT_BUFFER_BYTES = 8 * MIB;
/**
 * Output bytes of all commands of a sandbox: a 32nd of its memory, at most this. Beyond it, commands that have ended
 * lose their output first.
 */
export const MAX_SANDBOX_OUTPUT_BYTES = 16 * MIB;
/** A list shows at most this many running commands, and this many that have ended. */
export const MAX_RUNNING_COMMANDS = 1024;
export const MAX_ENDED_COMMANDS = 256;
/** How long the result of a command that has ended is stored. */
export const COMMAND_RESULT_S = 3600;
/** Length of the command line that a list shows. */
export const MAX_COMMAND_LINE_BYTES = 2 * KIB;
export const DEFAULT_KILL_GRACE_S = 10;

// ---- files ----

/** Bytes that a read of a file returns without `max_bytes`. */
export const DEFAULT_FILE_BYTES = 10 * MIB;

/** Entries in one page of a listing of files: default and maximum. */
export const DEFAULT_LIST_ENTRIES = 1000;
export const MAX_LIST_ENTRIES = 10_000;
/** Maximum number of levels of directories in a listing. */
export const MAX_LIST_DEPTH = 256;
/** Maximum size of a path in a comparison of snapshots: directories can be nested deeper than Linux takes paths. */
export const MAX_COMPARED_PATH_BYTES = 32 * KIB;
/** Comparisons of snapshots at a time: those that run or wait, in total and of one tenant or key. */
export const MAX_COMPARISONS = 16;
export const MAX_COMPARISONS_OF_EACH = 4;
/** The longest path that Linux takes, bytes. */
export const MAX_PATH_BYTES = 4095;
/** Maximum number of watches of one sandbox at a time, and of directories in all of them together. */
export const MAX_FILE_WATCHES = 16;
export const MAX_WATCHED_DIRECTORIES = 20_000;

// ---- service ----

/**
 * Maximum total length of the program, arguments and environment of a service. The daemon stores them with the sandbox.
 */
export const MAX_SERVICE_CHARS = 256 * KIB;

export const DEFAULT_STOP_GRACE_S = 10;
export const DEFAULT_LOG_BUFFER_BYTES = 2 * MIB;
export const MAX_LOG_BUFFER_BYTES = 16 * MIB;
/** Output bytes in one JSON page of service output. A request for more gets the maximum. */
export const DEFAULT_OUTPUT_PAGE_BYTES = 256 * KIB;
export const MAX_OUTPUT_PAGE_BYTES = MIB;

// ---- streams of events and of stats ----

/** Maximum number of concurrent streams of each kind: in total, and of one tenant or key. */
export const MAX_WATCHERS = 1024;
export const MAX_WATCHERS_OF_EACH = 256;
/** Maximum number of ids, and of kinds, in the filter of one event stream. */
export const MAX_EVENT_FILTERS = 64;

// ---- exports and imports of snapshots ----

/**
 * Maximum number of concurrent exports, and of imports: in total, and of one tenant or key. Each uses some MiB of
 * memory.
 */
export const MAX_MOVES = 32;
export const MAX_MOVES_OF_EACH = 8;

// ---- durable logs ----

/** Maximum number of records in one page. */
export const MAX_LOG_RECORDS = 5000;
/** Bytes at the end of the log that a read without `since` returns. */
export const LOG_TAIL_BYTES = 64 * KIB;
