// Made by scripts/client-contract.ts from api/. Do not edit.
export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description why the request failed */
        readonly ErrorResponse: {
            /** @description what failed, the value seen, what to do: a sentence for a person */
            readonly error: string;
            /**
             * @description which kind of failure it is, for programs; later daemons may know more
             * @enum {string}
             */
            readonly code: "invalid_argument" | "unauthenticated" | "forbidden" | "not_found" | "conflict" | "gone" | "too_large" | "internal" | "unsupported" | "upstream" | "guest_unreachable" | "exhausted" | "cancelled" | "malformed" | "unknown_path" | "method_not_allowed" | "timeout" | "unsupported_media" | "expectation_failed" | "upgrade_required" | "headers_too_large" | "not_implemented";
        };
        /** @description the daemon answers */
        readonly HealthResponse: {
            /**
             * @description ok
             * @constant
             */
            readonly status: "ok";
            /** @description version of the daemon */
            readonly version?: string;
        };
        /** @description a root filesystem to boot from */
        readonly Profile: {
            /** @description SHA-256 of its root filesystem */
            readonly digest: string;
            /** @description size of its root filesystem */
            readonly size_bytes: number;
            /** @description directory that commands start in */
            readonly workdir: string;
            /** @description environment of commands */
            readonly env: {
                readonly [key: string]: string;
            };
            /** @description version by name of what is installed */
            readonly packages: {
                readonly [key: string]: string;
            };
        };
        /** @description what runs the virtual machines */
        readonly Engine: {
            /** @description name of the engine */
            readonly name: string;
            /** @description its version */
            readonly version: string;
            /** @description why this one */
            readonly reason: string;
            /** @description what keeps a guest that broke its VMM from the host */
            readonly jail?: {
                /** @description whether each VMM runs as a user of its own, shut in */
                readonly enabled: boolean;
                /** @description what this host does not have of the jail */
                readonly missing: readonly string[];
            };
        } & {
            readonly [key: string]: unknown;
        };
        /** @description what there is to boot from, and on what */
        readonly ProfilesResponse: {
            /** @description names */
            readonly profiles: readonly string[];
            /** @description the one that a create without profile and image boots */
            readonly default?: string;
            /** @description more about each, by name */
            readonly details?: {
                readonly [key: string]: components["schemas"]["Profile"];
            };
            readonly engine?: components["schemas"]["Engine"];
        };
        /** @description what a key may do; what is absent is not restricted */
        readonly Policy: {
            /** @description what the key may do; create: make sandboxes. exec: run commands and services in them, write their files. snapshot: save them, export and import what was saved. fork: make copies of snapshots. delete: delete sandboxes and snapshots. read: read all of them, files and logs included; view and metrics are in it. images: pull, import and delete images; a create that has to pull one needs it, too. connect: reach their ports through the daemon. metrics: read the metrics, and nothing else. view: see lists, states, figures and events, and nothing of what is in a guest: no files, logs, output or environment */
            readonly operations?: readonly ("create" | "exec" | "snapshot" | "fork" | "delete" | "read" | "images" | "connect" | "metrics" | "view")[];
            /** @description host name patterns that an allowlist may have at most; empty: no network */
            readonly net_allow_max?: readonly (string & (string))[];
            /** @description profiles that may be booted */
            readonly allow_profiles?: readonly string[];
            /** @description ports of the host that may be published, such as 8080 or 8000-8999; empty: none; absent: those that the daemon allows keys with a policy or a tenant */
            readonly publish_ports?: readonly string[];
            /** @description addresses of the host that ports may be published on; 0.0.0.0 and :: are every one of their family, and a port without an address needs both */
            readonly publish_addresses?: readonly string[];
            /** @description published ports of this key at once */
            readonly max_published_ports?: number;
            /** @description sandboxes of this key at once */
            readonly max_sandboxes?: number;
            /** @description snapshots of this key at once, those included that its idle sandboxes will be saved as */
            readonly max_snapshots?: number;
            /** @description forks of one request */
            readonly max_fork?: number;
            /** @description longest life of a sandbox and of a command, seconds */
            readonly max_timeout_s?: number;
            /** @description longest time that a sandbox may be idle before it ends, seconds */
            readonly max_idle_timeout_s?: number;
            /** @description virtual CPUs of a sandbox */
            readonly max_vcpus?: number;
            /** @description memory of a sandbox, MiB */
            readonly max_memory_mib?: number;
        };
        /** @description what the caller may do */
        readonly WhoamiResponse: {
            /**
             * @description the caller may do everything
             * @constant
             */
            readonly scoped: false;
        } | {
            /**
             * @description a policy holds for the caller
             * @constant
             */
            readonly scoped: true;
            readonly policy: components["schemas"]["Policy"];
        };
        readonly PortMapping: {
            /** @description address of the host to listen on; 0.0.0.0 and :: by default */
            readonly host_ip?: (string | "") | null;
            /** @description port of the host */
            readonly host_port: number;
            /** @description port in the guest */
            readonly guest_port: number;
            /**
             * @description tcp is all there is
             * @default tcp
             */
            readonly protocol?: ("tcp" | "") | null;
        };
        /** @description a port of the host that leads into the sandbox */
        readonly PublishedPort: {
            /** @description address of the host; all when absent */
            readonly host_ip?: string;
            /** @description port of the host */
            readonly host_port: number;
            /** @description port in the guest */
            readonly guest_port: number;
            /**
             * @description tcp
             * @constant
             */
            readonly protocol: "tcp";
        };
        readonly NetworkRequest: {
            /**
             * @description whether there is a network at all
             * @default false
             */
            readonly enabled?: boolean | null;
            /**
             * @description the hosts that the guest may reach; nothing else is reachable
             * @default []
             */
            readonly allowlist?: readonly (string & (string))[] | null;
        };
        /** @description the network of the sandbox */
        readonly NetworkResponse: {
            /** @description whether the sandbox has a network */
            readonly enabled: boolean;
            /** @description the hosts that it may reach */
            readonly allowlist: readonly string[];
            /** @description address of the host as the guest sees it */
            readonly gateway: string;
            /** @description address of the guest */
            readonly guest_ip: string;
        };
        /** @description what the whole process tree used */
        readonly ResourceUsage: {
            /** @description CPU time in user space */
            readonly cpu_user_ms: number;
            /** @description CPU time in the kernel */
            readonly cpu_sys_ms: number;
            /** @description most memory at one time */
            readonly peak_memory_bytes: number;
            /** @description page faults that waited for a disk */
            readonly page_faults_major: number;
            /** @description how often a CPU was taken away */
            readonly context_switches_involuntary: number;
            /** @description bytes read from disks */
            readonly io_read_bytes: number;
            /** @description bytes written to disks */
            readonly io_write_bytes: number;
        };
        /** @description something that happened */
        readonly Event: {
            /** @description what to go on behind */
            readonly id: string;
            /**
             * Format: date-time
             * @description when
             */
            readonly at: string;
            /**
             * @description what happened
             * @enum {string}
             */
            readonly kind: "created" | "forked" | "adopted" | "died" | "hung" | "recovered" | "expired" | "idle" | "idle-kept" | "deleted" | "snapshot-taken" | "snapshot-imported" | "snapshot-deleted";
            /**
             * sandbox id
             * @description to which sandbox; of snapshot-taken, which was saved; of snapshot-imported, on its own host
             */
            readonly sandbox?: string;
            /**
             * snapshot id
             * @description the snapshot that was taken, imported or deleted, or that an idle sandbox was saved as
             */
            readonly snapshot?: string;
            /**
             * @description of created and forked: what it was made from
             * @enum {string}
             */
            readonly origin?: "boot" | "template" | "snapshot";
            /**
             * snapshot id
             * @description of forked: the snapshot
             */
            readonly source_snapshot_id?: string;
            /** @description how long it took, of created, forked, snapshot-taken */
            readonly duration_ms?: number;
            /** @description of snapshot-taken: how long the sandbox stood still */
            readonly paused_ms?: number;
            /** @description of expired: its lifetime */
            readonly timeout_s?: number;
            /** @description of idle: for how long nobody used it */
            readonly idle_s?: number;
            /** @description of died, hung and idle-kept: why */
            readonly reason?: string;
            /** @description whose it is, for a key that sees several */
            readonly tenant?: string;
        };
        /** @description a command to run */
        readonly ExecReq: {
            /** @description program and arguments, no shell line; the program is looked up in the PATH that it will have */
            readonly cmd: readonly string[];
            /** @description directory in the guest to run in, an absolute path */
            readonly cwd?: (string & (string)) | null;
            /**
             * @description environment variables, added to those of the profile or image
             * @default {}
             */
            readonly env?: {
                readonly [key: string]: string;
            } | null;
            /** @description who to run as, name|uid[:group|gid] by the files of the guest; root by default */
            readonly user?: (string & (string)) | null;
            /**
             * @description seconds until the whole process group gets SIGKILL; 0, or more than 1099511627776, is never
             * @default 0
             */
            readonly timeout_s?: number | null;
            /** @description a terminal of this size instead of pipes: all output is stdout */
            readonly tty?: {
                /** @description columns */
                readonly cols: number;
                /** @description rows */
                readonly rows: number;
            } | null;
        };
        /** @description what came of a command: the payload of the exit frame */
        readonly ExecResult: {
            /** @description exit code; -1 of a command that a signal ended or that never started, 128 + n of a service */
            readonly exit_code: number;
            /** @description time from start to end */
            readonly duration_ms: number;
            /** @description name of the signal that ended it, such as SIGKILL */
            readonly signal?: string;
            /**
             * @description it was killed because its timeout_s had passed
             * @constant
             */
            readonly timed_out?: true;
            /**
             * @description the kernel killed a process of it for lack of memory
             * @constant
             */
            readonly oom_killed?: true;
            /** @description why it did not start, or what was lost */
            readonly error?: string;
            /**
             * @description beside error: which kind it is; absent where the command is at fault, such as a program that is missing
             * @enum {string}
             */
            readonly code?: "invalid_argument" | "unauthenticated" | "forbidden" | "not_found" | "conflict" | "gone" | "too_large" | "internal" | "unsupported" | "upstream" | "guest_unreachable" | "exhausted" | "cancelled" | "malformed" | "unknown_path" | "method_not_allowed" | "timeout" | "unsupported_media" | "expectation_failed" | "upgrade_required" | "headers_too_large" | "not_implemented";
            readonly usage?: components["schemas"]["ResourceUsage"];
            /** @description fields and parameters of the request that mean nothing, and what may have been meant; absent when there are none */
            readonly warnings?: readonly string[];
        };
        /** @description what a command wrote and what came of it */
        readonly ExecOutput: {
            /** @description what it wrote, as text; in base64 where the flag beside it says so; the beginning, where it is cut */
            readonly stdout: string;
            /** @description what it wrote, as text; in base64 where the flag beside it says so; the beginning, where it is cut */
            readonly stderr: string;
            /**
             * @description stdout is no UTF-8, and so in base64
             * @constant
             */
            readonly stdout_base64?: true;
            /**
             * @description stderr is no UTF-8, and so in base64
             * @constant
             */
            readonly stderr_base64?: true;
            /**
             * @description there was more than max_output_bytes on stdout
             * @constant
             */
            readonly stdout_truncated?: true;
            /**
             * @description there was more than max_output_bytes on stderr
             * @constant
             */
            readonly stderr_truncated?: true;
            /** @description exit code; -1 of a command that a signal ended or that never started, 128 + n of a service */
            readonly exit_code: number;
            /** @description time from start to end */
            readonly duration_ms: number;
            /** @description name of the signal that ended it, such as SIGKILL */
            readonly signal?: string;
            /**
             * @description it was killed because its timeout_s had passed
             * @constant
             */
            readonly timed_out?: true;
            /**
             * @description the kernel killed a process of it for lack of memory
             * @constant
             */
            readonly oom_killed?: true;
            /** @description why it did not start, or what was lost */
            readonly error?: string;
            /**
             * @description beside error: which kind it is; absent where the command is at fault, such as a program that is missing
             * @enum {string}
             */
            readonly code?: "invalid_argument" | "unauthenticated" | "forbidden" | "not_found" | "conflict" | "gone" | "too_large" | "internal" | "unsupported" | "upstream" | "guest_unreachable" | "exhausted" | "cancelled" | "malformed" | "unknown_path" | "method_not_allowed" | "timeout" | "unsupported_media" | "expectation_failed" | "upgrade_required" | "headers_too_large" | "not_implemented";
            readonly usage?: components["schemas"]["ResourceUsage"];
            /** @description fields and parameters of the request that mean nothing, and what may have been meant; absent when there are none */
            readonly warnings?: readonly string[];
        };
        /** @description a line: a piece of output, or the result */
        readonly ExecPiece: {
            /**
             * @description where it was written
             * @enum {string}
             */
            readonly stream: "stdout" | "stderr";
            /** @description a piece as it came, of whole characters, or in base64 */
            readonly data: string;
            /**
             * @description the piece is no UTF-8, and so in base64
             * @constant
             */
            readonly base64?: true;
        } | {
            /** @description what came of it; the last line */
            readonly result: components["schemas"]["ExecResult"];
        };
        /** @description the new size of the terminal */
        readonly ResizeFrame: {
            /** @description columns */
            readonly cols: number;
            /** @description rows */
            readonly rows: number;
        };
        /** @description a signal for the process group of the command */
        readonly SignalFrame: {
            /** @description name of a Linux signal, such as SIGINT */
            readonly signal: string;
        };
        readonly RestartPolicy: {
            /**
             * @description when a service that ended is started again
             * @default never
             */
            readonly policy?: ("never" | "on-failure" | "always" | "") | null;
            /**
             * @description failures in a row after which it stays failed, 0 for no limit; only with the policy on-failure
             * @default 0
             */
            readonly max_retries?: number | null;
        };
        /** @description what to run and how to keep it running */
        readonly ServiceSpec: {
            /** @description program and arguments, no shell line; the program is looked up in the PATH that it will have */
            readonly cmd: readonly string[];
            /** @description directory in the guest to run in, an absolute path */
            readonly cwd?: (string & (string)) | null;
            /**
             * @description environment variables, added to those of the profile or image
             * @default {}
             */
            readonly env?: {
                readonly [key: string]: string;
            } | null;
            /**
             * @description the environment is exactly env, plus PATH and HOME if unset, and cwd is made if missing
             * @default false
             */
            readonly env_exact?: boolean | null;
            /**
             * @description output that is kept in the guest, the newest; 0 means the default
             * @default 2097152
             */
            readonly log_buffer_bytes?: number | null;
            /**
             * @description whether and how often it is started again
             * @default {
             *       "policy": "never",
             *       "max_retries": 0
             *     }
             */
            readonly restart?: components["schemas"]["RestartPolicy"] | null;
            /**
             * @description seconds from the stop signal to SIGKILL; 0 means the default
             * @default 10
             */
            readonly stop_grace_s?: number | null;
            /**
             * @description what a stop sends to the process group: a Linux signal, such as SIGTERM or SIGRTMIN+3
             * @default SIGTERM
             */
            readonly stop_signal?: ("SIGHUP" | "SIGINT" | "SIGQUIT" | "SIGILL" | "SIGTRAP" | "SIGABRT" | "SIGBUS" | "SIGFPE" | "SIGKILL" | "SIGUSR1" | "SIGSEGV" | "SIGUSR2" | "SIGPIPE" | "SIGALRM" | "SIGTERM" | "SIGSTKFLT" | "SIGCHLD" | "SIGCONT" | "SIGSTOP" | "SIGTSTP" | "SIGTTIN" | "SIGTTOU" | "SIGURG" | "SIGXCPU" | "SIGXFSZ" | "SIGVTALRM" | "SIGPROF" | "SIGWINCH" | "SIGIO" | "SIGPWR" | "SIGSYS" | "SIGRTMIN" | "SIGRTMIN+1" | "SIGRTMIN+2" | "SIGRTMIN+3" | "SIGRTMIN+4" | "SIGRTMIN+5" | "SIGRTMIN+6" | "SIGRTMIN+7" | "SIGRTMIN+8" | "SIGRTMIN+9" | "SIGRTMIN+10" | "SIGRTMIN+11" | "SIGRTMIN+12" | "SIGRTMIN+13" | "SIGRTMIN+14" | "SIGRTMIN+15" | "SIGRTMIN+16" | "SIGRTMIN+17" | "SIGRTMIN+18" | "SIGRTMIN+19" | "SIGRTMIN+20" | "SIGRTMIN+21" | "SIGRTMIN+22" | "SIGRTMIN+23" | "SIGRTMIN+24" | "SIGRTMIN+25" | "SIGRTMIN+26" | "SIGRTMIN+27" | "SIGRTMIN+28" | "SIGRTMIN+29" | "SIGRTMIN+30" | "") | null;
            /** @description who to run as, name|uid[:group|gid] by the files of the guest; root by default */
            readonly user?: (string & (string)) | null;
        };
        /** @description the service, configured and started before the answer; with an image, what differs from the image’s own */
        readonly CreatedService: {
            /** @description program and arguments, which replace entrypoint and cmd of the image; required without an image */
            readonly cmd?: readonly string[] | null;
            /** @description directory in the guest to run in, an absolute path */
            readonly cwd?: (string & (string)) | null;
            /**
             * @description environment variables, added to those of the profile or image
             * @default {}
             */
            readonly env?: {
                readonly [key: string]: string;
            } | null;
            /**
             * @description the environment is exactly env, plus PATH and HOME if unset, and cwd is made if missing
             * @default false
             */
            readonly env_exact?: boolean | null;
            /**
             * @description output that is kept in the guest, the newest; 0 means the default
             * @default 2097152
             */
            readonly log_buffer_bytes?: number | null;
            /**
             * @description whether and how often it is started again
             * @default {
             *       "policy": "never",
             *       "max_retries": 0
             *     }
             */
            readonly restart?: components["schemas"]["RestartPolicy"] | null;
            /**
             * @description seconds from the stop signal to SIGKILL; 0 means the default
             * @default 10
             */
            readonly stop_grace_s?: number | null;
            /**
             * @description what a stop sends to the process group: a Linux signal, such as SIGTERM or SIGRTMIN+3
             * @default SIGTERM
             */
            readonly stop_signal?: ("SIGHUP" | "SIGINT" | "SIGQUIT" | "SIGILL" | "SIGTRAP" | "SIGABRT" | "SIGBUS" | "SIGFPE" | "SIGKILL" | "SIGUSR1" | "SIGSEGV" | "SIGUSR2" | "SIGPIPE" | "SIGALRM" | "SIGTERM" | "SIGSTKFLT" | "SIGCHLD" | "SIGCONT" | "SIGSTOP" | "SIGTSTP" | "SIGTTIN" | "SIGTTOU" | "SIGURG" | "SIGXCPU" | "SIGXFSZ" | "SIGVTALRM" | "SIGPROF" | "SIGWINCH" | "SIGIO" | "SIGPWR" | "SIGSYS" | "SIGRTMIN" | "SIGRTMIN+1" | "SIGRTMIN+2" | "SIGRTMIN+3" | "SIGRTMIN+4" | "SIGRTMIN+5" | "SIGRTMIN+6" | "SIGRTMIN+7" | "SIGRTMIN+8" | "SIGRTMIN+9" | "SIGRTMIN+10" | "SIGRTMIN+11" | "SIGRTMIN+12" | "SIGRTMIN+13" | "SIGRTMIN+14" | "SIGRTMIN+15" | "SIGRTMIN+16" | "SIGRTMIN+17" | "SIGRTMIN+18" | "SIGRTMIN+19" | "SIGRTMIN+20" | "SIGRTMIN+21" | "SIGRTMIN+22" | "SIGRTMIN+23" | "SIGRTMIN+24" | "SIGRTMIN+25" | "SIGRTMIN+26" | "SIGRTMIN+27" | "SIGRTMIN+28" | "SIGRTMIN+29" | "SIGRTMIN+30" | "") | null;
            /** @description who to run as, name|uid[:group|gid] by the files of the guest; root by default */
            readonly user?: (string & (string)) | null;
        };
        /** @description what was configured */
        readonly ConfiguredService: {
            /** @description program and arguments */
            readonly cmd: readonly string[];
            /** @description directory it runs in */
            readonly cwd?: string;
            /** @description environment variables */
            readonly env?: {
                readonly [key: string]: string;
            };
            /**
             * @description the environment is exactly env, PATH and HOME apart
             * @constant
             */
            readonly env_exact?: true;
            /** @description output that is kept in the guest */
            readonly log_buffer_bytes: number;
            /** @description whether and how often it is started again */
            readonly restart: {
                /**
                 * @description when it is started again
                 * @enum {string}
                 */
                readonly policy: "never" | "on-failure" | "always";
                /** @description failures in a row after which it stays failed */
                readonly max_retries?: number;
            };
            /** @description seconds from the stop signal to SIGKILL */
            readonly stop_grace_s: number;
            /**
             * @description what a stop sends
             * @enum {string}
             */
            readonly stop_signal: "SIGHUP" | "SIGINT" | "SIGQUIT" | "SIGILL" | "SIGTRAP" | "SIGABRT" | "SIGBUS" | "SIGFPE" | "SIGKILL" | "SIGUSR1" | "SIGSEGV" | "SIGUSR2" | "SIGPIPE" | "SIGALRM" | "SIGTERM" | "SIGSTKFLT" | "SIGCHLD" | "SIGCONT" | "SIGSTOP" | "SIGTSTP" | "SIGTTIN" | "SIGTTOU" | "SIGURG" | "SIGXCPU" | "SIGXFSZ" | "SIGVTALRM" | "SIGPROF" | "SIGWINCH" | "SIGIO" | "SIGPWR" | "SIGSYS" | "SIGRTMIN" | "SIGRTMIN+1" | "SIGRTMIN+2" | "SIGRTMIN+3" | "SIGRTMIN+4" | "SIGRTMIN+5" | "SIGRTMIN+6" | "SIGRTMIN+7" | "SIGRTMIN+8" | "SIGRTMIN+9" | "SIGRTMIN+10" | "SIGRTMIN+11" | "SIGRTMIN+12" | "SIGRTMIN+13" | "SIGRTMIN+14" | "SIGRTMIN+15" | "SIGRTMIN+16" | "SIGRTMIN+17" | "SIGRTMIN+18" | "SIGRTMIN+19" | "SIGRTMIN+20" | "SIGRTMIN+21" | "SIGRTMIN+22" | "SIGRTMIN+23" | "SIGRTMIN+24" | "SIGRTMIN+25" | "SIGRTMIN+26" | "SIGRTMIN+27" | "SIGRTMIN+28" | "SIGRTMIN+29" | "SIGRTMIN+30";
            /** @description who it runs as; root when absent */
            readonly user?: string;
        };
        /** @description the service as it is now; all but the state as far as it is known */
        readonly ServiceStatus: {
            /**
             * @description what it does now
             * @enum {string}
             */
            readonly state: "idle" | "starting" | "running" | "stopping" | "backing_off" | "stopped" | "failed";
            /** @description its process in the guest, while it lives */
            readonly pid?: number;
            /** @description automatic restarts of this spec */
            readonly restarts?: number;
            readonly spec?: components["schemas"]["ConfiguredService"];
            /** @description when its process was started; only while it lives, Unix milliseconds */
            readonly started_at_unix_ms?: number;
            /** @description for how long its process lives */
            readonly uptime_ms?: number;
            /** @description how it ended last; -1 and error when it could not start */
            readonly last_exit?: components["schemas"]["ExecResult"];
            /** @description when that was, Unix milliseconds */
            readonly last_exit_at_unix_ms?: number;
            /** @description whether it was stopped, not ended by itself */
            readonly last_exit_requested?: boolean;
            /** @description resident memory of its processes */
            readonly live_rss_bytes?: number;
            /** @description the most of that */
            readonly live_peak_rss_bytes?: number;
            /** @description output that is not kept any more */
            readonly log_dropped_bytes?: number;
            /** @description number of the oldest record that is kept */
            readonly log_first_seq?: number;
            /** @description number of the next record */
            readonly log_next_seq?: number;
            /** @description fields and parameters of the request that mean nothing, and what may have been meant; absent when there are none */
            readonly warnings?: readonly string[];
        };
        /** @description how to stop */
        readonly StopServiceRequest: {
            /** @description seconds from the stop signal to SIGKILL, for this stop only; by default those of the spec; 0 means the default */
            readonly grace_s?: number | null;
        };
        /** @description a page of the output of the service */
        readonly ServiceLogPage: {
            /** @description in order; null when there are none */
            readonly records: readonly {
                /** @description number of the record */
                readonly seq: number;
                /**
                 * @description where it was written
                 * @enum {string}
                 */
                readonly stream: "stdout" | "stderr";
                /** @description when, Unix milliseconds */
                readonly unix_ms: number;
                /**
                 * Format: base64
                 * @description the bytes
                 */
                readonly data: string;
            }[] | null;
            /** @description from_seq of the next page */
            readonly next_seq: number;
            /** @description the oldest record that is kept */
            readonly first_seq: number;
            /** @description records that are not kept any more, between from_seq and the first one here */
            readonly dropped_records?: number;
            /** @description their bytes */
            readonly dropped_bytes?: number;
        };
        /** @description a line of the output of the service */
        readonly ServiceLogLine: {
            /** @description number of the record, or of the next one */
            readonly seq: number;
            /** @description what numbers count in from here on: each configured service has its own */
            readonly ring?: string;
            /** @description records before this one that are not kept any more */
            readonly dropped_records?: number;
            /** @description their bytes */
            readonly dropped_bytes?: number;
            /**
             * @description where it was written
             * @enum {string}
             */
            readonly stream?: "stdout" | "stderr";
            /** @description when, Unix milliseconds */
            readonly unix_ms?: number;
            /**
             * Format: base64
             * @description the bytes
             */
            readonly data?: string;
        };
        readonly ImageRef: {
            /** @description reference as Docker writes it, or digest or digest prefix of a converted image */
            readonly oci?: (string & (string)) | null;
            /** @description root filesystem or image archive on the host of the daemon, beneath a directory that its operator allowed */
            readonly path?: (string & (string)) | null;
        };
        /** @description an image to pull and convert */
        readonly PullImageRequest: {
            /** @description reference as Docker writes it */
            readonly ref?: (string & (string)) | null;
            /**
             * @description always, or missing: only if it is not here
             * @default always
             */
            readonly pull?: ("missing" | "always" | "never" | "") | null;
        };
        /** @description a converted image */
        readonly ImageResponse: {
            /** @description what names the converted image */
            readonly digest: string;
            /** @description reference that it was pulled by */
            readonly source_ref?: string;
            /** @description default arguments */
            readonly cmd?: readonly string[];
            /** @description default program */
            readonly entrypoint?: readonly string[];
            /** @description ports that it says it serves, such as 80/tcp */
            readonly exposed_ports?: readonly string[];
            /** @description bytes of its files */
            readonly content_bytes?: number;
            /** @description bytes of its root filesystem on disk */
            readonly size_bytes?: number;
            /** @description labels of its maker */
            readonly labels?: {
                readonly [key: string]: string;
            };
            /** @description labels that are not shown, since all together have over 64 KiB */
            readonly labels_omitted?: number;
            /** @description all references that lead to it */
            readonly refs?: readonly string[];
            /** @description files, directories and links in it */
            readonly entries?: number;
            /** @description how it was converted */
            readonly convert_mode: string;
            /** @description when it was converted, Unix milliseconds */
            readonly converted_at_unix_ms: number;
            /** @description fields and parameters of the request that mean nothing, and what may have been meant; absent when there are none */
            readonly warnings?: readonly string[];
        };
        /** @description the converted images */
        readonly ImageListResponse: {
            /** @description oldest first */
            readonly images: readonly components["schemas"]["ImageResponse"][];
            /** @description where the next page begins; absent on the last one */
            readonly next_cursor?: string;
        };
        /** @description a sandbox to create; every field may be left out */
        readonly CreateSandboxRequest: {
            /**
             * @description virtual CPUs; 0 means the default
             * @default 1
             */
            readonly vcpus?: number | null;
            /**
             * @description memory, MiB; 0 means the default
             * @default 512
             */
            readonly memory_mib?: (0 | number) | null;
            /**
             * @description size of the writable layer, which takes only the space that is written; rounded up to 1 MiB; 0 means the default
             * @default 4294967296
             */
            readonly disk_bytes?: (0 | number) | null;
            /**
             * @description seconds after which the sandbox is deleted, 0 for none; forks inherit it, counted from their own creation
             * @default 0
             */
            readonly timeout_s?: number | null;
            /**
             * @description seconds without use (no command, transfer, connection, output, traffic or work) after which the sandbox ends, 0 for none; forks inherit it
             * @default 0
             */
            readonly idle_timeout_s?: number | null;
            /**
             * @description how it ends for that: deleted, or first saved as a snapshot, which needs the operation snapshot
             * @default delete
             */
            readonly idle_action?: ("delete" | "snapshot" | "") | null;
            /**
             * @description appended to the command line of the kernel; such a sandbox is always booted, never copied
             * @default
             */
            readonly boot_args?: (string & (string)) | null;
            /** @description root filesystem to boot from; the daemon has a default */
            readonly profile?: string | null;
            /** @description container image to boot from, instead of a profile */
            readonly image?: components["schemas"]["ImageRef"] | null;
            /**
             * @description when the image is pulled: if it is missing here, always, or never (then a missing one is 404)
             * @default missing
             */
            readonly pull?: ("missing" | "always" | "never" | "") | null;
            /** @description what the guest may reach; no network by default */
            readonly network?: components["schemas"]["NetworkRequest"] | null;
            /**
             * @description ports of the host that lead to ports in the guest; a sandbox without a network gets one for that, with nothing reachable from inside
             * @default []
             */
            readonly publish?: readonly components["schemas"]["PortMapping"][] | null;
            /** @description a program to start and keep running */
            readonly service?: components["schemas"]["CreatedService"] | null;
        };
        /** @description a sandbox */
        readonly SandboxResponse: {
            /**
             * sandbox id
             * @description id of the sandbox: sbx_ and 13 characters of 0-9 and a-v
             */
            readonly id: string;
            /**
             * Format: date-time
             * @description when it was created
             */
            readonly created_at: string;
            /** @description memory, MiB */
            readonly memory_mib: number;
            /** @description virtual CPUs */
            readonly vcpus: number;
            /** @description root filesystem it was booted from; absent for an image */
            readonly profile?: string;
            /** @description its directory on the host */
            readonly workdir: string;
            /**
             * snapshot id
             * @description the snapshot it was forked from
             */
            readonly source_snapshot_id?: string;
            readonly network?: components["schemas"]["NetworkResponse"];
            /** @description ports of the host that lead into it */
            readonly published?: readonly components["schemas"]["PublishedPort"][];
            /** @description fields and parameters of the request that mean nothing, and what may have been meant; absent when there are none */
            readonly warnings?: readonly string[];
        };
        /** @description sandboxes */
        readonly ListResponse: {
            /** @description oldest first */
            readonly sandboxes: readonly components["schemas"]["SandboxResponse"][];
            /** @description where the next page begins; absent on the last one */
            readonly next_cursor?: string;
            /** @description fields and parameters of the request that mean nothing, and what may have been meant; absent when there are none */
            readonly warnings?: readonly string[];
        };
        /** @description what a sandbox takes of the host */
        readonly SandboxStats: {
            /**
             * sandbox id
             * @description id of the sandbox: sbx_ and 13 characters of 0-9 and a-v
             */
            readonly id: string;
            /**
             * Format: date-time
             * @description when the numbers were read
             */
            readonly read_at: string;
            /** @description virtual CPUs */
            readonly vcpus: number;
            /** @description CPU time of the VMM and its guest so far, microseconds */
            readonly cpu_us: number;
            /** @description CPU time since the reading before, per cent of one CPU; absent in the first of a stream */
            readonly cpu_percent?: number;
            /** @description memory that the guest has */
            readonly memory_limit_bytes: number;
            /** @description memory of the VMM that is present, what it shares with other copies included */
            readonly resident_bytes: number;
            /** @description of that, what no other has */
            readonly private_bytes: number;
            /** @description size of the writable layer */
            readonly disk_limit_bytes: number;
            /** @description space that the writable layer takes */
            readonly layer_bytes: number;
            /** @description bytes that storage was read so far */
            readonly read_bytes: number;
            /** @description bytes that storage was written so far */
            readonly written_bytes: number;
            /** @description absent: the sandbox has no network */
            readonly network?: {
                /** @description bytes that came to the guest */
                readonly received_bytes: number;
                /** @description packets that came to it */
                readonly received_packets: number;
                /** @description bytes that the guest sent */
                readonly sent_bytes: number;
                /** @description packets that it sent */
                readonly sent_packets: number;
            };
        };
        /** @description a snapshot */
        readonly SnapshotResponse: {
            /**
             * snapshot id
             * @description id of the snapshot: snap_ and 13 characters of 0-9 and a-v
             */
            readonly id: string;
            /**
             * Format: date-time
             * @description when it was taken
             */
            readonly created_at: string;
            /**
             * sandbox id
             * @description the sandbox it was taken of
             */
            readonly source_id: string;
            /** @description its directory on the host */
            readonly dir: string;
            /** @description file of its memory */
            readonly mem_path: string;
            /** @description file of its writable layer */
            readonly rootfs_path: string;
            /** @description file of its devices */
            readonly state_path: string;
            /** @description memory, MiB */
            readonly memory_mib: number;
            /** @description virtual CPUs */
            readonly vcpus: number;
            /** @description fields and parameters of the request that mean nothing, and what may have been meant; absent when there are none */
            readonly warnings?: readonly string[];
        };
        /** @description snapshots */
        readonly SnapshotListResponse: {
            /** @description oldest first */
            readonly snapshots: readonly components["schemas"]["SnapshotResponse"][];
            /** @description where the next page begins; absent on the last one */
            readonly next_cursor?: string;
        };
        /** @description which forks to make; may be left out */
        readonly ForkReq: {
            /**
             * @description how many forks to make; 0 leaves it to the query, anything else wins over it
             * @default 0
             */
            readonly count?: number | null;
            /**
             * @description ports of the host that lead to ports in the guest; a sandbox without a network gets one for that, with nothing reachable from inside
             * @default []
             */
            readonly publish?: readonly components["schemas"]["PortMapping"][] | null;
        };
        /** @description what was written */
        readonly PushResult: {
            /** @description regular files that were written */
            readonly files: number;
            /** @description bytes of their contents */
            readonly bytes: number;
            /** @description fields and parameters of the request that mean nothing, and what may have been meant; absent when there are none */
            readonly warnings?: readonly string[];
        };
        /** @description one piece of output, or one event */
        readonly LogRecord: {
            /**
             * @description service or exec
             * @enum {string}
             */
            readonly source: "service" | "exec";
            /**
             * @description stdout, stderr, or event: what the daemon says of it
             * @enum {string}
             */
            readonly stream: "stdout" | "stderr" | "event";
            /** @description a piece of output as it was produced, no line; U+FFFD for what is no UTF-8 */
            readonly text: string;
            /** @description when, Unix milliseconds */
            readonly time_ms: number;
        };
        /** @description a page of the log */
        readonly LogsResponse: {
            /** @description since of the next page */
            readonly next_offset: number;
            /** @description in order, at most 5000 */
            readonly records: readonly components["schemas"]["LogRecord"][];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;

export type Schemas = components['schemas'];
