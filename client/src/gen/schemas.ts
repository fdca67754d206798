// Made by scripts/client-contract.ts from api/. Do not edit.
export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description why the request failed */
        readonly ErrorResponse: {
            /** @description human-readable message: what failed, the value, what to do */
            readonly error: string;
            /**
             * @description machine-readable error code; later daemons may add codes
             * @enum {string}
             */
            readonly code: "invalid_argument" | "unauthenticated" | "forbidden" | "not_found" | "conflict" | "paused" | "gone" | "precondition_failed" | "too_large" | "idempotency_mismatch" | "internal" | "unsupported" | "upstream" | "port_failed" | "guest_unreachable" | "port_not_listening" | "exhausted" | "cancelled" | "port_timeout" | "malformed" | "unknown_path" | "method_not_allowed" | "timeout" | "unsupported_media" | "range_not_satisfiable" | "expectation_failed" | "upgrade_required" | "headers_too_large" | "not_implemented";
        };
        /** @description the daemon responds */
        readonly HealthResponse: {
            /**
             * @description ok
             * @constant
             */
            readonly status: "ok";
            /** @description version of the daemon */
            readonly version?: string;
            /**
             * @description trying: the daemon tries its engines with guests, and creates wait for the result; failed: no engine works, and creates fail
             * @enum {string}
             */
            readonly engine?: "trying" | "chosen" | "failed";
        };
        /** @description a host */
        readonly Host: {
            /** @description name of the host in its fleet; of a daemon alone, the name of its machine */
            readonly name: string;
            /**
             * @description not-ready: it answers, but the engine of the fleet does not hear from it and places nothing there; unreachable: it does not answer, so that only name and places are known
             * @enum {string}
             */
            readonly state: "ready" | "not-ready" | "unreachable";
            /** @description for unreachable: why */
            readonly reason?: string;
            /** @description version of its daemon */
            readonly version?: string;
            /**
             * Format: date-time
             * @description when its daemon began
             */
            readonly started_at?: string;
            /**
             * @description trying: the daemon tries its engines with guests, and creates wait for the result; failed: no engine works, and creates fail
             * @enum {string}
             */
            readonly engine?: "trying" | "chosen" | "failed";
            /** @description engine (VMM) that it has chosen; absent: none */
            readonly engine_name?: string;
            /** @description CPUs of the machine */
            readonly cpus?: number;
            /** @description memory of the machine */
            readonly memory_bytes?: number;
            /** @description memory that the machine could give to programs now */
            readonly memory_available_bytes?: number;
            /** @description free space of its data directory */
            readonly disk_free_bytes?: number;
            /** @description memory of the guests of its running sandboxes */
            readonly memory_promised_bytes?: number;
            /** @description its sandboxes, paused ones included */
            readonly sandboxes?: number;
            /** @description how many it may have */
            readonly max_sandboxes?: number;
            /** @description at the gateway of a fleet: sandboxes that have their place there */
            readonly places?: number;
            /** @description how far the host is that is being emptied; absent while it is not, and from earlier versions */
            readonly drain?: {
                /**
                 * @description drained: nothing is left to send; what is offered goes on when another host takes it
                 * @enum {string}
                 */
                readonly state: "draining" | "drained";
                /**
                 * Format: date-time
                 * @description when it began
                 */
                readonly since: string;
                /** @description sandboxes that other hosts have by now, since its daemon started */
                readonly moved: number;
                /** @description in the snapshot store, and no other host has them yet */
                readonly offered: number;
                /** @description not sent yet */
                readonly left: number;
                /** @description that cannot leave, such as those whose VM has ended */
                readonly stays: number;
                /** @description until the rest is offered, by the pace until now; absent before the first */
                readonly seconds_left?: number;
            };
        };
        /** @description the hosts */
        readonly HostList: {
            /** @description by name */
            readonly hosts: readonly components["schemas"]["Host"][];
        };
        /** @description a root filesystem that sandboxes boot from */
        readonly Profile: {
            /** @description SHA-256 of the root filesystem */
            readonly digest: string;
            /** @description size of the root filesystem in bytes */
            readonly size_bytes: number;
            /** @description default working directory of commands */
            readonly workdir: string;
            /** @description default environment of commands */
            readonly env: {
                readonly [key: string]: string;
            };
            /** @description versions of the installed packages, by package name */
            readonly packages: {
                readonly [key: string]: string;
            };
        };
        /** @description the engine (VMM) that runs the virtual machines */
        readonly Engine: {
            /**
             * @description trying: the daemon tries its engines with guests, and creates wait for the result; failed: no engine works, and creates fail
             * @enum {string}
             */
            readonly state?: "trying" | "chosen" | "failed";
            /** @description name of the engine; empty unless one is chosen */
            readonly name: string;
            /** @description version of the engine; empty unless one is chosen */
            readonly version: string;
            /** @description why the daemon chose this engine, or why there is none */
            readonly reason: string;
            /** @description the jail that isolates each VMM from the host */
            readonly jail?: {
                /** @description whether each VMM runs in a jail, as a separate user */
                readonly enabled: boolean;
                /** @description parts of the jail that this host does not support */
                readonly missing: readonly string[];
            };
        } & {
            readonly [key: string]: unknown;
        };
        /** @description the profiles and the engine */
        readonly ProfilesResponse: {
            /** @description names of the profiles */
            readonly profiles: readonly string[];
            /** @description the profile of a create request without profile and image */
            readonly default?: string;
            /** @description details of the profiles, by name */
            readonly details?: {
                readonly [key: string]: components["schemas"]["Profile"];
            };
            readonly engine?: components["schemas"]["Engine"];
        };
        /** @description the rights of a key; an absent field means no restriction */
        readonly Policy: {
            /** @description permitted operations; create: create sandboxes. exec: run commands and services in sandboxes, write their files. snapshot: take, export and import snapshots. fork: fork snapshots. delete: delete sandboxes and snapshots. read: read everything, including files and logs; includes view and metrics. images: pull, import and delete images; also needed to create a sandbox whose image must be pulled. connect: connect to ports of sandboxes through the daemon. network: change what existing sandboxes may reach, and which secrets they use. secrets: store, list and delete secrets. metrics: read the metrics and nothing else. view: read lists, states, resource usage and events, but no data of a guest: no files, logs, output or environment */
            readonly operations?: readonly ("create" | "exec" | "snapshot" | "fork" | "delete" | "read" | "images" | "connect" | "network" | "secrets" | "metrics" | "view")[];
            /** @description host name patterns that an allowlist and rules may contain, and no ranges of addresses; empty: no network */
            readonly net_allow_max?: readonly (string & (string))[];
            /** @description presets that the key may use, whatever net_allow_max has; absent: those that net_allow_max allows */
            readonly net_presets?: readonly (string & (string))[];
            /** @description whether networks may have only rules whose requests the gateway reads: with tls: inspect, methods, paths or websocket */
            readonly net_require_inspect?: boolean;
            /** @description stored secrets that sandboxes of the key may use; empty: none; values of their own are not among them */
            readonly allow_secrets?: readonly (string & (string))[];
            /** @description profiles that the key may boot */
            readonly allow_profiles?: readonly string[];
            /** @description host ports that the key may publish, such as 8080 or 8000-8999; empty: none; absent: the ports that the daemon permits for keys with a policy or tenant */
            readonly publish_ports?: readonly string[];
            /** @description host addresses on which the key may publish ports; 0.0.0.0 and :: mean every address of their family, and a port without an address needs both */
            readonly publish_addresses?: readonly string[];
            /** @description maximum number of published ports of this key */
            readonly max_published_ports?: number;
            /** @description maximum number of sandboxes of this key */
            readonly max_sandboxes?: number;
            /** @description maximum number of snapshots of this key, including those that an idle timeout will take */
            readonly max_snapshots?: number;
            /** @description maximum number of paused sandboxes of this key; they do not count in max_sandboxes */
            readonly max_paused?: number;
            /** @description maximum number of forks in one request */
            readonly max_fork?: number;
            /** @description maximum lifetime of a sandbox and of a command, seconds */
            readonly max_timeout_s?: number;
            /** @description maximum idle timeout of a sandbox, seconds */
            readonly max_idle_timeout_s?: number;
            /** @description maximum number of virtual CPUs of a sandbox */
            readonly max_vcpus?: number;
            /** @description maximum memory of a sandbox, MiB */
            readonly max_memory_mib?: number;
        };
        /** @description what `sandboxd doctor --quick` finds on the host */
        readonly HostChecksResponse: {
            /**
             * Format: date-time
             * @description time of the checks; at the gateway of a fleet, the earliest
             */
            readonly checked_at: string;
            /** @description version of the daemon; at the gateway of a fleet, its own */
            readonly version: string;
            /**
             * @description the worst level of all findings
             * @enum {string}
             */
            readonly worst: "ok" | "warning" | "fault";
            /** @description the findings by area */
            readonly groups: readonly {
                /** @description area of the host, such as storage */
                readonly group: string;
                /** @description at the gateway of a fleet: the host of the findings */
                readonly host?: string;
                /** @description the findings of this area */
                readonly findings: readonly {
                    /** @description name of the check */
                    readonly name: string;
                    /**
                     * @description fault: it breaks sandboxes or their isolation
                     * @enum {string}
                     */
                    readonly level: "ok" | "warning" | "fault";
                    /** @description what was found */
                    readonly seen: string;
                    /** @description what to do; absent where all is well */
                    readonly advice?: string;
                }[];
            }[];
            /** @description hosts of the fleet that did not answer in time, or refused what others did, so that theirs are missing; a daemon alone has none */
            readonly unreachable_hosts?: readonly string[];
        };
        /** @description the rights of the caller */
        readonly WhoamiResponse: {
            /**
             * @description the caller has no restrictions
             * @constant
             */
            readonly scoped: false;
            /** @description the key of the request; absent on a daemon without keys */
            readonly key?: {
                /** @description name of the key */
                readonly name: string;
                /** @description tenant of the key; absent: none */
                readonly tenant?: string;
                /**
                 * Format: date-time
                 * @description time after which the key is not valid; absent: none
                 */
                readonly expires_at?: string;
            };
            /** @description the limits on numbers that the caller has, with their use; absent on a daemon without keys */
            readonly usage?: readonly {
                /** @description name of the limit, such as max_sandboxes: a field of the policy, or of the quota of the tenant */
                readonly limit: string;
                /**
                 * @description key: the policy of the key has it; tenant: the quota of the tenant, for all its keys together
                 * @enum {string}
                 */
                readonly of: "key" | "tenant";
                /** @description what counts towards it now */
                readonly used: number;
                /** @description the limit */
                readonly max: number;
            }[];
        } | {
            /**
             * @description a policy restricts the caller
             * @constant
             */
            readonly scoped: true;
            readonly policy: components["schemas"]["Policy"];
            /** @description the tenant of the key; absent if it has none */
            readonly tenant?: string;
            /** @description the key of the request; absent on a daemon without keys */
            readonly key?: {
                /** @description name of the key */
                readonly name: string;
                /** @description tenant of the key; absent: none */
                readonly tenant?: string;
                /**
                 * Format: date-time
                 * @description time after which the key is not valid; absent: none
                 */
                readonly expires_at?: string;
            };
            /** @description the limits on numbers that the caller has, with their use; absent on a daemon without keys */
            readonly usage?: readonly {
                /** @description name of the limit, such as max_sandboxes: a field of the policy, or of the quota of the tenant */
                readonly limit: string;
                /**
                 * @description key: the policy of the key has it; tenant: the quota of the tenant, for all its keys together
                 * @enum {string}
                 */
                readonly of: "key" | "tenant";
                /** @description what counts towards it now */
                readonly used: number;
                /** @description the limit */
                readonly max: number;
            }[];
        };
        readonly PortMapping: {
            /** @description host address to listen on; 0.0.0.0 and :: by default */
            readonly host_ip?: (string | "") | null;
            /** @description port on the host */
            readonly host_port: number;
            /** @description port in the guest */
            readonly guest_port: number;
            /**
             * @description only tcp is supported
             * @default tcp
             */
            readonly protocol?: ("tcp" | "") | null;
        };
        /** @description a host port that is forwarded to the sandbox */
        readonly PublishedPort: {
            /** @description host address; every address if absent */
            readonly host_ip?: string;
            /** @description port on the host */
            readonly host_port: number;
            /** @description port in the guest */
            readonly guest_port: number;
            /**
             * @description tcp
             * @constant
             */
            readonly protocol: "tcp";
        };
        /** @description a port that is open for URLs */
        readonly OpenPort: {
            /** @description TCP port in the guest */
            readonly port: number;
            /**
             * @description private: needs a key with the operation connect, or a link; public: everyone may connect by its URL
             * @enum {string}
             */
            readonly access: "private" | "public";
            /**
             * @description the header Host that the server gets; absent: sent
             * @enum {string}
             */
            readonly host?: "sent" | "localhost";
            /**
             * Format: date-time
             * @description when it was opened, or its access was changed
             */
            readonly opened_at: string;
            /** @description its URL; absent if the daemon has no ingress */
            readonly url?: string;
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description open and published ports of a sandbox */
        readonly OpenPortList: {
            /** @description by number */
            readonly ports: readonly {
                /** @description TCP port in the guest */
                readonly port: number;
                /**
                 * @description private: needs a key with the operation connect, or a link; public: everyone may connect by its URL
                 * @enum {string}
                 */
                readonly access: "private" | "public";
                /**
                 * @description the header Host that the server gets; absent: sent
                 * @enum {string}
                 */
                readonly host?: "sent" | "localhost";
                /**
                 * Format: date-time
                 * @description when it was opened, or its access was changed
                 */
                readonly opened_at: string;
                /** @description its URL; absent if the daemon has no ingress */
                readonly url?: string;
            }[];
            /** @description published ports; absent if there are none */
            readonly published?: readonly components["schemas"]["PublishedPort"][];
        };
        /** @description a port to open */
        readonly OpenPortRequest: {
            /** @description TCP port in the guest */
            readonly port: number;
            /**
             * @description who may connect by the URL of the port
             * @default private
             */
            readonly access?: ("private" | "public" | "") | null;
            /**
             * @description the header Host that the server gets: sent: as the client sent it; localhost: localhost and the port, for development servers that refuse other names
             * @default sent
             */
            readonly host?: ("sent" | "localhost" | "") | null;
        };
        /** @description a host port to publish */
        readonly PublishPortRequest: {
            /** @description host address to listen on; 0.0.0.0 and :: by default */
            readonly host_ip?: (string | "") | null;
            /** @description port on the host */
            readonly host_port: number;
        };
        /** @description a published port */
        readonly PublishedPortAnswer: {
            /** @description host address; every address if absent */
            readonly host_ip?: string;
            /** @description port on the host */
            readonly host_port: number;
            /** @description port in the guest */
            readonly guest_port: number;
            /**
             * @description tcp
             * @constant
             */
            readonly protocol: "tcp";
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description a new link */
        readonly MadeLink: {
            /** @description its id */
            readonly id: string;
            /**
             * Format: date-time
             * @description when it was made
             */
            readonly created_at: string;
            /**
             * Format: date-time
             * @description when it ends
             */
            readonly expires_at: string;
            /** @description what it allows; absent: all */
            readonly methods?: readonly string[];
            /** @description the URL with the secret of the link, which is shown only here */
            readonly url: string;
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description valid links of a port */
        readonly LinkList: {
            /** @description oldest first */
            readonly links: readonly {
                /** @description its id */
                readonly id: string;
                /**
                 * Format: date-time
                 * @description when it was made
                 */
                readonly created_at: string;
                /**
                 * Format: date-time
                 * @description when it ends
                 */
                readonly expires_at: string;
                /** @description what it allows; absent: all */
                readonly methods?: readonly string[];
            }[];
        };
        /** @description a link to make */
        readonly LinkRequest: {
            /**
             * @description seconds after which the link ends
             * @default 86400
             */
            readonly expires_s?: number | null;
            /** @description HTTP methods that the link allows, GET also HEAD and WebSockets; default: all */
            readonly methods?: readonly ("GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS")[] | null;
        };
        /** @description ports of a host, or of a range of addresses, that the guest may reach */
        readonly NetworkRule: {
            /** @description a host name, or a pattern of an allowlist */
            readonly host?: (string & (string)) | null;
            /** @description addresses in place of a host; needs tcp or udp, and no private or special range */
            readonly cidr?: string | null;
            /** @description tls (default), http and postgres are bound to the name; tcp and udp to the addresses of the name */
            readonly protocol?: ("tls" | "http" | "tcp" | "udp" | "postgres") | null;
            /** @description ports and ranges of them; default: 443 of tls, 80 of http, 5432 of postgres */
            readonly ports?: readonly (number | string)[] | null;
            /** @description whether the gateway reads within TLS; default: passthrough, without methods, paths and websocket */
            readonly tls?: ("passthrough" | "inspect") | null;
            /** @description the only methods; GET includes HEAD */
            readonly methods?: readonly (string & (string))[] | null;
            /** @description the only paths: exact, * for one segment, /** for the rest */
            readonly paths?: readonly (string & (string))[] | null;
            /** @description whether a path may have %2F */
            readonly encoded_slash?: boolean | null;
            /** @description whether a connection may become a WebSocket */
            readonly websocket?: boolean | null;
            /** @description whether a name may be encrypted within the handshake; default: allow */
            readonly ech?: ("allow" | "refuse") | null;
        };
        /** @description ports of a host, or of a range of addresses */
        readonly AnsweredNetworkRule: {
            /** @description host name or pattern */
            readonly host?: string;
            /** @description range of addresses */
            readonly cidr?: string;
            /**
             * @description protocol
             * @enum {string}
             */
            readonly protocol: "tls" | "http" | "tcp" | "udp" | "postgres";
            /** @description ports and ranges of them */
            readonly ports: readonly (number | string)[];
            /**
             * @description whether a name may be encrypted; absent: it may
             * @enum {string}
             */
            readonly ech?: "refuse";
            /**
             * @description inspect: the gateway reads within TLS; absent: it does not
             * @enum {string}
             */
            readonly tls?: "inspect";
            /** @description the only methods; absent: all */
            readonly methods?: readonly string[];
            /** @description the only paths; absent: all */
            readonly paths?: readonly string[];
            /**
             * @description a connection may become a WebSocket
             * @constant
             */
            readonly websocket?: true;
            /**
             * @description a path may have %2F
             * @constant
             */
            readonly encoded_slash?: true;
        };
        /** @description a secret that the guest can use and does not have */
        readonly SecretBinding: {
            /** @description the value, for this sandbox and its copies; no answer has it */
            readonly value?: string | null;
            /** @description name of a stored secret, in place of a value */
            readonly use?: (string & (string)) | null;
            /** @description the only hosts that get the value; default: those of the stored secret */
            readonly hosts?: readonly (string & (string))[] | null;
            /** @description the only ports; default: those that the rules have for the host */
            readonly ports?: readonly number[] | null;
            /** @description where the placeholder may be; default: bearer, basic and header, which is any header */
            readonly in?: readonly (("bearer" | "basic" | "header" | "body") | {
                /** @description only this header */
                readonly header: string & (string);
            } | {
                /** @description only this parameter of the URL */
                readonly query: string;
            })[] | null;
            /** @description a header that is added to each request, in place of a placeholder */
            readonly inject?: {
                /** @description header that is added */
                readonly header: string & (string);
                /**
                 * @description its value: {} is the secret, {base64:user:{}} is encoded
                 * @default {}
                 */
                readonly format?: (string & (unknown & unknown)) | null;
            } | null;
            /** @description variable that has the placeholder; default: the key of the entry; null: none */
            readonly env?: (string & (string)) | null;
            /** @description how the placeholder begins, for clients that check it; default: sbxs_ and the name */
            readonly prefix?: (string & (string)) | null;
            /** @description whether it may be sent without TLS, where the daemon permits that */
            readonly plain_http?: boolean | null;
        };
        /** @description a secret that the guest can use */
        readonly BoundSecret: {
            /** @description name */
            readonly name: string;
            /** @description the stored secret; absent: a value of its own */
            readonly use?: string;
            /** @description the only hosts that get the value */
            readonly hosts: readonly string[];
            /** @description the only ports; absent: those of the rules */
            readonly ports?: readonly number[];
            /** @description where the placeholder may be */
            readonly in?: readonly (("bearer" | "basic" | "header" | "body") | {
                /** @description name of a header */
                readonly header: string;
            } | {
                /** @description name of a parameter */
                readonly query: string;
            })[];
            /** @description the header that is added */
            readonly inject?: {
                /** @description header */
                readonly header: string;
                /** @description its value */
                readonly format: string;
            };
            /** @description variable that has the placeholder */
            readonly env?: string;
            /**
             * @description it may be sent without TLS
             * @constant
             */
            readonly plain_http?: true;
            /** @description false: the stored secret was deleted, or the snapshot was imported; requests with it are refused */
            readonly has_value: boolean;
        };
        /** @description a secret to store */
        readonly StoreSecret: {
            /** @description the value; no answer has it */
            readonly value?: string | null;
            /** @description where the value is read, in place of one */
            readonly source?: ({
                /** @description name of a credential */
                readonly credential: string & (string);
            } | {
                /** @description name of a file */
                readonly file: string & (string);
            } | {
                /** @description name of a command */
                readonly command: string & (string);
            }) | null;
            /** @description the only hosts that get the value */
            readonly hosts: readonly (string & (string))[];
        };
        /** @description a stored secret */
        readonly StoredSecret: {
            /** @description name */
            readonly name: string;
            /** @description the only hosts that get the value */
            readonly hosts: readonly string[];
            /** @description where the value is read; absent: it is stored */
            readonly source?: {
                /** @description a credential of systemd */
                readonly credential?: string;
                /** @description a file of the operator */
                readonly file?: string;
                /** @description a command of the operator */
                readonly command?: string;
            };
            /** @description beginning of a keyed digest of the stored value: it changes with the value */
            readonly digest?: string;
            /**
             * Format: date-time
             * @description when it was made
             */
            readonly created_at: string;
            /**
             * Format: date-time
             * @description when its value, source or hosts changed
             */
            readonly changed_at: string;
            /** @description sandboxes that may use it */
            readonly used_by: readonly string[];
            /** @description requests that had its value, as far as gateways reported them; of an older daemon: absent */
            readonly uses?: number;
            /**
             * Format: date-time
             * @description when the last of them was; absent: never
             */
            readonly last_used_at?: string;
            /** @description at the gateway of a fleet: hosts that do not have it; absent: none of those that answered */
            readonly missing_on?: readonly string[];
            /** @description at the gateway of a fleet: hosts that may have an earlier value, as theirs was changed a minute before that of others or earlier; absent: none */
            readonly older_on?: readonly string[];
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description stored secrets */
        readonly SecretList: {
            /** @description by name */
            readonly secrets: readonly components["schemas"]["StoredSecret"][];
            /** @description cursor of the next page; absent on the last page */
            readonly next_cursor?: string;
            /** @description hosts of the fleet that did not answer in time, or refused what others did, so that theirs are missing; a daemon alone has none */
            readonly unreachable_hosts?: readonly string[];
        };
        readonly NetworkRequest: {
            /** @description records that the egress log keeps; default: all */
            readonly log?: ("all" | "denied" | "off") | null;
            /** @description ports of hosts that the guest may reach as well */
            readonly rules?: readonly components["schemas"]["NetworkRule"][] | null;
            /** @description names of lists of rules that the operator keeps */
            readonly presets?: readonly (string & (string))[] | null;
            /**
             * @description whether the sandbox has a network
             * @default false
             */
            readonly enabled?: boolean | null;
            /**
             * @description the only hosts that the guest may reach
             * @default []
             */
            readonly allowlist?: readonly (string & (string))[] | null;
        };
        /** @description the network of the sandbox */
        readonly NetworkResponse: {
            /** @description whether the sandbox has a network */
            readonly enabled: boolean;
            /** @description the hosts that the sandbox may reach */
            readonly allowlist: readonly string[];
            /** @description its rules; absent if it has none */
            readonly rules?: readonly components["schemas"]["AnsweredNetworkRule"][];
            /** @description its presets; absent if it has none */
            readonly presets?: readonly string[];
            /**
             * @description records that the egress log keeps; absent: all
             * @enum {string}
             */
            readonly log?: "all" | "denied" | "off";
            /** @description address of the host on the network of the guest */
            readonly gateway: string;
            /** @description address of the guest */
            readonly guest_ip: string;
        };
        /** @description a change of a network; absent fields stay as they are */
        readonly NetworkPatch: {
            /** @description replaces the allowlist */
            readonly allowlist?: readonly (string & (string))[] | null;
            /** @description replaces all rules */
            readonly rules?: readonly components["schemas"]["NetworkRule"][] | null;
            /** @description replaces the presets, and takes the rules that they have now */
            readonly presets?: readonly (string & (string))[] | null;
            /** @description records that the egress log keeps */
            readonly log?: ("all" | "denied" | "off") | null;
            /** @description secrets to bind or to change; null removes one, others stay */
            readonly secrets?: {
                readonly [key: string]: components["schemas"]["SecretBinding"] | null;
            } | null;
            /** @description the generation that the request changes; if another one holds, nothing is changed: 409 */
            readonly if_generation?: number | null;
        };
        /** @description everything that the guest may reach */
        readonly NetworkReplacement: {
            /**
             * @description the hosts that the guest may reach
             * @default []
             */
            readonly allowlist?: readonly (string & (string))[] | null;
            /**
             * @description ports of hosts that the guest may reach as well
             * @default []
             */
            readonly rules?: readonly components["schemas"]["NetworkRule"][] | null;
            /**
             * @description names of lists of rules that the operator keeps
             * @default []
             */
            readonly presets?: readonly (string & (string))[] | null;
            /**
             * @description records that the egress log keeps
             * @default all
             */
            readonly log?: ("all" | "denied" | "off") | null;
            /** @description all secrets that the guest can use; absent: they stay */
            readonly secrets?: {
                readonly [key: string]: components["schemas"]["SecretBinding"];
            } | null;
            /** @description the generation that the request changes; if another one holds, nothing is changed: 409 */
            readonly if_generation?: number | null;
        };
        /** @description what the guest may reach */
        readonly NetworkPolicy: {
            /** @description number of the policy: 1 at the create, one more with each change */
            readonly generation: number;
            /** @description hosts that the guest may reach on all ports */
            readonly allowlist: readonly string[];
            /** @description ports of hosts that the guest may reach as well */
            readonly rules: readonly components["schemas"]["AnsweredNetworkRule"][];
            /** @description presets, with the rules that each had when it was chosen */
            readonly presets: readonly {
                /** @description name */
                readonly name: string;
                /** @description its rules */
                readonly rules: readonly components["schemas"]["AnsweredNetworkRule"][];
            }[];
            /**
             * @description records that the egress log keeps
             * @enum {string}
             */
            readonly log: "all" | "denied" | "off";
            /** @description secrets that the guest can use */
            readonly secrets: readonly components["schemas"]["BoundSecret"][];
            /** @description address of the host on the network of the guest */
            readonly gateway: string;
            /** @description address of the guest */
            readonly guest_ip: string;
            /** @description certificate authority that signs its inspected TLS connections, the same for its snapshots and forks; absent until a policy has connections inspected */
            readonly ca?: {
                /** @description SHA-256 of the certificate, as openssl x509 -fingerprint -sha256 prints it */
                readonly fingerprint: string;
                /** @description the certificate in PEM; its key never leaves the host */
                readonly certificate: string;
            };
        };
        /** @description what the guest may reach now */
        readonly ChangedNetworkPolicy: {
            /** @description number of the policy: 1 at the create, one more with each change */
            readonly generation: number;
            /** @description hosts that the guest may reach on all ports */
            readonly allowlist: readonly string[];
            /** @description ports of hosts that the guest may reach as well */
            readonly rules: readonly components["schemas"]["AnsweredNetworkRule"][];
            /** @description presets, with the rules that each had when it was chosen */
            readonly presets: readonly {
                /** @description name */
                readonly name: string;
                /** @description its rules */
                readonly rules: readonly components["schemas"]["AnsweredNetworkRule"][];
            }[];
            /**
             * @description records that the egress log keeps
             * @enum {string}
             */
            readonly log: "all" | "denied" | "off";
            /** @description secrets that the guest can use */
            readonly secrets: readonly components["schemas"]["BoundSecret"][];
            /** @description address of the host on the network of the guest */
            readonly gateway: string;
            /** @description address of the guest */
            readonly guest_ip: string;
            /** @description certificate authority that signs its inspected TLS connections, the same for its snapshots and forks; absent until a policy has connections inspected */
            readonly ca?: {
                /** @description SHA-256 of the certificate, as openssl x509 -fingerprint -sha256 prints it */
                readonly fingerprint: string;
                /** @description the certificate in PEM; its key never leaves the host */
                readonly certificate: string;
            };
            /** @description connections that were closed, as the policy does not allow them any more */
            readonly closed: number;
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description a connection that the guest might open */
        readonly NetworkCheck: {
            /** @description host name or IPv4 address */
            readonly host: string;
            /** @description port of the host */
            readonly port: number;
            /**
             * @description protocol of the connection
             * @default tcp
             */
            readonly protocol?: ("tcp" | "udp" | "") | null;
            /** @description method of a request within it; default where a path is given: GET */
            readonly method?: (string & (string)) | null;
            /** @description path of a request within it; default where a method is given: / */
            readonly path?: (string & (string)) | null;
        };
        /** @description a verdict */
        readonly NetworkVerdict: {
            /**
             * @description whether the policy lets it pass
             * @enum {string}
             */
            readonly verdict: "allowed" | "denied";
            /** @description why */
            readonly reason: string;
            /** @description number of the policy */
            readonly generation: number;
            /** @description the rule that allows it */
            readonly rule?: components["schemas"]["AnsweredNetworkRule"];
            /** @description the entry of the allowlist that allows it */
            readonly allowlist?: string;
            /** @description the preset that allows it */
            readonly preset?: string;
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description presets of the operator */
        readonly NetworkPresetList: {
            /** @description by name */
            readonly presets: readonly {
                /** @description name */
                readonly name: string;
                /** @description its rules */
                readonly rules: readonly components["schemas"]["AnsweredNetworkRule"][];
                /** @description what it is for */
                readonly description?: string;
            }[];
        };
        /** @description a connection, a request, or a question for a name */
        readonly EgressRecord: {
            /**
             * Format: date-time
             * @description when it ended or was denied
             */
            readonly at: string;
            /**
             * @description missing: here are records missing, and reason says why
             * @enum {string}
             */
            readonly verdict: "allowed" | "denied" | "missing";
            /** @description why */
            readonly reason: string;
            /** @description number of the policy that judged */
            readonly generation?: number;
            /** @description the rule, entry of the allowlist or preset that allows it */
            readonly rule?: string;
            /**
             * @description protocol; dns: a question for a name
             * @enum {string}
             */
            readonly protocol?: "tls" | "http" | "postgres" | "tcp" | "udp" | "icmp" | "dns" | "other";
            /** @description host name */
            readonly name?: string;
            /** @description IPv4 address */
            readonly address?: string;
            /** @description port of the host */
            readonly port?: number;
            /** @description bytes that the guest sent */
            readonly bytes_up?: number;
            /** @description bytes that the guest received */
            readonly bytes_down?: number;
            /** @description duration of the connection or the request, in milliseconds */
            readonly ms?: number;
            /** @description method of the request, where requests are read */
            readonly method?: string;
            /** @description its path, without the query, at most 1024 characters */
            readonly path?: string;
            /** @description status of its answer */
            readonly status?: number;
            /** @description secrets that the request had */
            readonly secrets?: readonly string[];
            /** @description where they were: bearer, basic, header, query, body, inject */
            readonly forms?: readonly string[];
            /** @description number of missing records, where it is known */
            readonly dropped?: number;
        };
        /** @description a page of the egress log */
        readonly EgressPage: {
            /** @description value of since for the next page */
            readonly next_offset: number;
            /** @description records in order, at most 5000 */
            readonly records: readonly components["schemas"]["EgressRecord"][];
        };
        /** @description resource usage of the whole process tree */
        readonly ResourceUsage: {
            /** @description CPU time in user space */
            readonly cpu_user_ms: number;
            /** @description CPU time in the kernel */
            readonly cpu_sys_ms: number;
            /** @description peak memory in bytes */
            readonly peak_memory_bytes: number;
            /** @description major page faults, which wait for a disk */
            readonly page_faults_major: number;
            /** @description involuntary context switches */
            readonly context_switches_involuntary: number;
            /** @description bytes read from disk */
            readonly io_read_bytes: number;
            /** @description bytes written to disk */
            readonly io_write_bytes: number;
        };
        /** @description an event */
        readonly Event: {
            /** @description id of the event, for Last-Event-ID; at the gateway of a fleet, what is before its dot is the id of the event at its host */
            readonly id: string;
            /**
             * Format: date-time
             * @description time of the event
             */
            readonly at: string;
            /**
             * @description kind of the event
             * @enum {string}
             */
            readonly kind: "created" | "forked" | "adopted" | "updated" | "died" | "hung" | "recovered" | "expired" | "idle" | "idle-kept" | "paused" | "pause-failed" | "resumed" | "port-opened" | "port-closed" | "port-published" | "port-unpublished" | "network-changed" | "secrets-changed" | "rolled-back" | "deleted" | "moved" | "snapshot-taken" | "snapshot-imported" | "snapshot-stored" | "snapshot-fetched" | "snapshot-changed" | "snapshot-deleted" | "host-unreachable" | "host-reachable";
            /**
             * sandbox id
             * @description the sandbox; for snapshot-taken, the source sandbox; for snapshot-imported, the source sandbox on its own host
             */
            readonly sandbox?: string;
            /** @description at the gateway of a fleet: the host of the event; for host-unreachable and host-reachable: the one of which no events come, or come again; a daemon alone has none */
            readonly host?: string;
            /** @description name of the sandbox, or of the snapshot where the kind begins with snapshot; absent if it has none */
            readonly name?: string;
            /** @description labels of the same at that time; absent if it has none */
            readonly labels?: {
                readonly [key: string]: string;
            };
            /** @description for updated, snapshot-changed and network-changed: the fields that were changed, such as labels and rules; for secrets-changed: their names */
            readonly changed?: readonly string[];
            /**
             * snapshot id
             * @description the snapshot that was taken, imported, uploaded, fetched, changed or deleted, to which an idle sandbox was saved, or to which a sandbox went back
             */
            readonly snapshot?: string;
            /**
             * @description for created and forked: what the sandbox was started from
             * @enum {string}
             */
            readonly origin?: "boot" | "template" | "snapshot";
            /**
             * snapshot id
             * @description for forked: the source snapshot
             */
            readonly source_snapshot_id?: string;
            /**
             * sandbox id
             * @description for forked without a snapshot: the source sandbox
             */
            readonly source_sandbox_id?: string;
            /** @description for created, forked, paused, resumed, rolled-back, snapshot-taken, snapshot-stored and snapshot-fetched: duration of the operation */
            readonly duration_ms?: number;
            /** @description for snapshot-taken: how long the guest was paused; for paused: until all of it was written */
            readonly paused_ms?: number;
            /** @description for expired: lifetime of the sandbox, seconds */
            readonly timeout_s?: number;
            /** @description for idle: idle time, seconds */
            readonly idle_s?: number;
            /** @description for resumed: how long the sandbox was paused */
            readonly asleep_ms?: number;
            /** @description for paused and snapshot-fetched: bytes that were written; for snapshot-stored: bytes that were sent */
            readonly bytes?: number;
            /** @description for network-changed: number of the policy that holds now */
            readonly generation?: number;
            /** @description for network-changed: connections that were closed */
            readonly closed?: number;
            /** @description for port-…: the port of the guest */
            readonly port?: number;
            /** @description for port-opened: private or public */
            readonly access?: string;
            /** @description for port-published and port-unpublished: the address; every address if absent */
            readonly host_ip?: string;
            /** @description for port-published and port-unpublished: the port of the host */
            readonly host_port?: number;
            /** @description for died, hung, idle-kept, pause-failed and host-unreachable: the reason; for paused: request, idle_timeout_s, timeout_s or rollback; for resumed: request, use, or rollback after one that failed; for snapshot-deleted: expires_s, keep_last, or store after a delete on another host, absent for a request */
            readonly reason?: string;
            /** @description tenant of the sandbox or snapshot, shown to keys that can see several tenants */
            readonly tenant?: string;
        };
        /** @description a command to run */
        readonly ExecReq: {
            /** @description program and arguments, not a shell command line; the program is searched in the PATH of the command */
            readonly cmd: readonly string[];
            /** @description working directory in the guest, an absolute path */
            readonly cwd?: (string & (string)) | null;
            /**
             * @description environment variables, added to those of the profile or image
             * @default {}
             */
            readonly env?: {
                readonly [key: string]: string;
            } | null;
            /** @description user and group, name|uid[:group|gid], as /etc/passwd and /etc/group of the guest define them; root by default */
            readonly user?: (string & (string)) | null;
            /**
             * @description seconds after which the whole process group gets SIGKILL; 0, or more than 1099511627776, means never
             * @default 0
             */
            readonly timeout_s?: number | null;
            /** @description run in a terminal of this size instead of with pipes; all output is then stdout */
            readonly tty?: {
                /** @description columns */
                readonly cols: number;
                /** @description rows */
                readonly rows: number;
            } | null;
            /** @description true: the response comes when the command has started; the command does not depend on its client, and the guest stores its output */
            readonly detach?: boolean | null;
            /** @description with detach, true: the input of the command stays open for later requests; with a terminal it always does */
            readonly stdin?: boolean | null;
            /** @description with detach: bytes of the newest output that the guest stores; default 1048576; 0 means the default */
            readonly output_buffer_bytes?: number | null;
        };
        /** @description the result of a command: the payload of the exit frame */
        readonly ExecResult: {
            /** @description exit code; after signal n or a failed start, -1 for a command; after signal n, 128 + n for a service */
            readonly exit_code: number;
            /** @description run time in milliseconds */
            readonly duration_ms: number;
            /** @description name of the signal that killed it, such as SIGKILL */
            readonly signal?: string;
            /**
             * @description it was killed because timeout_s expired
             * @constant
             */
            readonly timed_out?: true;
            /**
             * @description the OOM killer of the kernel killed one of its processes
             * @constant
             */
            readonly oom_killed?: true;
            /** @description why it did not start, or why its result is unknown */
            readonly error?: string;
            /**
             * @description code of error; absent if the command caused the error, for example a missing program
             * @enum {string}
             */
            readonly code?: "invalid_argument" | "unauthenticated" | "forbidden" | "not_found" | "conflict" | "paused" | "gone" | "precondition_failed" | "too_large" | "idempotency_mismatch" | "internal" | "unsupported" | "upstream" | "port_failed" | "guest_unreachable" | "port_not_listening" | "exhausted" | "cancelled" | "port_timeout" | "malformed" | "unknown_path" | "method_not_allowed" | "timeout" | "unsupported_media" | "range_not_satisfiable" | "expectation_failed" | "upgrade_required" | "headers_too_large" | "not_implemented";
            readonly usage?: components["schemas"]["ResourceUsage"];
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description the output and result of a command */
        readonly ExecOutput: {
            /** @description output as text, or in base64 if the _base64 flag is set; only the beginning if it is truncated */
            readonly stdout: string;
            /** @description output as text, or in base64 if the _base64 flag is set; only the beginning if it is truncated */
            readonly stderr: string;
            /**
             * @description stdout is not valid UTF-8 and encoded in base64
             * @constant
             */
            readonly stdout_base64?: true;
            /**
             * @description stderr is not valid UTF-8 and encoded in base64
             * @constant
             */
            readonly stderr_base64?: true;
            /**
             * @description stdout exceeded max_output_bytes
             * @constant
             */
            readonly stdout_truncated?: true;
            /**
             * @description stderr exceeded max_output_bytes
             * @constant
             */
            readonly stderr_truncated?: true;
            /** @description exit code; after signal n or a failed start, -1 for a command; after signal n, 128 + n for a service */
            readonly exit_code: number;
            /** @description run time in milliseconds */
            readonly duration_ms: number;
            /** @description name of the signal that killed it, such as SIGKILL */
            readonly signal?: string;
            /**
             * @description it was killed because timeout_s expired
             * @constant
             */
            readonly timed_out?: true;
            /**
             * @description the OOM killer of the kernel killed one of its processes
             * @constant
             */
            readonly oom_killed?: true;
            /** @description why it did not start, or why its result is unknown */
            readonly error?: string;
            /**
             * @description code of error; absent if the command caused the error, for example a missing program
             * @enum {string}
             */
            readonly code?: "invalid_argument" | "unauthenticated" | "forbidden" | "not_found" | "conflict" | "paused" | "gone" | "precondition_failed" | "too_large" | "idempotency_mismatch" | "internal" | "unsupported" | "upstream" | "port_failed" | "guest_unreachable" | "port_not_listening" | "exhausted" | "cancelled" | "port_timeout" | "malformed" | "unknown_path" | "method_not_allowed" | "timeout" | "unsupported_media" | "range_not_satisfiable" | "expectation_failed" | "upgrade_required" | "headers_too_large" | "not_implemented";
            readonly usage?: components["schemas"]["ResourceUsage"];
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description one line: a chunk of output, or the result */
        readonly ExecPiece: {
            /**
             * @description stream to which the output was written
             * @enum {string}
             */
            readonly stream: "stdout" | "stderr";
            /** @description a chunk of output, in whole characters or in base64 */
            readonly data: string;
            /**
             * @description the chunk is not valid UTF-8 and encoded in base64
             * @constant
             */
            readonly base64?: true;
        } | {
            /** @description the result; the last line */
            readonly result: components["schemas"]["ExecResult"];
        };
        /** @description a command of a sandbox */
        readonly Command: {
            /**
             * command id
             * @description id of the command: cmd_ and 13 characters of 0-9 and a-v
             */
            readonly id: string;
            /**
             * @description current state
             * @enum {string}
             */
            readonly state: "running" | "exited";
            /** @description program and arguments */
            readonly cmd: readonly string[];
            /**
             * @description only the first 2048 bytes of cmd are shown
             * @constant
             */
            readonly cmd_truncated?: true;
            /** @description it does not depend on its client; output, attach and stdin are only for such a command */
            readonly detached: boolean;
            /** @description process id in the guest; absent if it never started */
            readonly pid?: number;
            /**
             * @description its input is open
             * @constant
             */
            readonly stdin?: true;
            /** @description size of its terminal; absent without a terminal */
            readonly tty?: {
                /** @description columns */
                readonly cols: number;
                /** @description rows */
                readonly rows: number;
            };
            /**
             * Format: date-time
             * @description time of its start
             */
            readonly started_at: string;
            /**
             * Format: date-time
             * @description time of its end
             */
            readonly exited_at?: string;
            /** @description the result; only after its end */
            readonly result?: components["schemas"]["ExecResult"];
            /** @description its stored output; only of a detached command */
            readonly output?: {
                /** @description sequence number of the oldest stored record */
                readonly first_seq: number;
                /** @description sequence number of the next record */
                readonly next_seq: number;
                /** @description bytes of output that are no longer stored */
                readonly dropped_bytes: number;
            };
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description the commands of a sandbox that run, or have ended within the last hour */
        readonly CommandList: {
            /** @description oldest first */
            readonly commands: readonly components["schemas"]["Command"][];
        };
        /** @description one line: output, dropped output, or the end of the answer */
        readonly CommandLine: {
            /** @description sequence number of the record; in other lines, of the next record */
            readonly seq: number;
            /**
             * @description stream to which the output was written
             * @enum {string}
             */
            readonly stream?: "stdout" | "stderr";
            /** @description time of the output, Unix milliseconds */
            readonly unix_ms?: number;
            /** @description the output as text, or in base64 if the base64 flag is set */
            readonly data?: string;
            /**
             * @description the data is not valid UTF-8 and encoded in base64
             * @constant
             */
            readonly base64?: true;
            /** @description number of dropped records before this one */
            readonly dropped_records?: number;
            /** @description bytes of output in the dropped records */
            readonly dropped_bytes?: number;
            /**
             * @description state of the command; in the last line
             * @enum {string}
             */
            readonly state?: "running" | "exited";
            /** @description the result; in the last line, if the command has ended */
            readonly result?: components["schemas"]["ExecResult"];
        };
        /** @description new size of the terminal */
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
             * @description when to restart the service after its exit
             * @default never
             */
            readonly policy?: ("never" | "on-failure" | "always" | "") | null;
            /**
             * @description consecutive failures after which the state stays failed, 0 for no limit; only with the policy on-failure
             * @default 0
             */
            readonly max_retries?: number | null;
        };
        /** @description the program of the service and how to supervise it */
        readonly ServiceSpec: {
            /** @description program and arguments, not a shell command line; the program is searched in the PATH of the command */
            readonly cmd: readonly string[];
            /** @description working directory in the guest, an absolute path */
            readonly cwd?: (string & (string)) | null;
            /**
             * @description environment variables, added to those of the profile or image
             * @default {}
             */
            readonly env?: {
                readonly [key: string]: string;
            } | null;
            /**
             * @description use only env as environment, plus PATH and HOME if unset, and create cwd if it is missing
             * @default false
             */
            readonly env_exact?: boolean | null;
            /**
             * @description size of the ring buffer in the guest that stores the newest output, bytes; 0 means the default
             * @default 2097152
             */
            readonly log_buffer_bytes?: number | null;
            /**
             * @description restart policy
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
             * @description signal that a stop sends to the process group: a Linux signal, such as SIGTERM or SIGRTMIN+3
             * @default SIGTERM
             */
            readonly stop_signal?: ("SIGHUP" | "SIGINT" | "SIGQUIT" | "SIGILL" | "SIGTRAP" | "SIGABRT" | "SIGBUS" | "SIGFPE" | "SIGKILL" | "SIGUSR1" | "SIGSEGV" | "SIGUSR2" | "SIGPIPE" | "SIGALRM" | "SIGTERM" | "SIGSTKFLT" | "SIGCHLD" | "SIGCONT" | "SIGSTOP" | "SIGTSTP" | "SIGTTIN" | "SIGTTOU" | "SIGURG" | "SIGXCPU" | "SIGXFSZ" | "SIGVTALRM" | "SIGPROF" | "SIGWINCH" | "SIGIO" | "SIGPWR" | "SIGSYS" | "SIGRTMIN" | "SIGRTMIN+1" | "SIGRTMIN+2" | "SIGRTMIN+3" | "SIGRTMIN+4" | "SIGRTMIN+5" | "SIGRTMIN+6" | "SIGRTMIN+7" | "SIGRTMIN+8" | "SIGRTMIN+9" | "SIGRTMIN+10" | "SIGRTMIN+11" | "SIGRTMIN+12" | "SIGRTMIN+13" | "SIGRTMIN+14" | "SIGRTMIN+15" | "SIGRTMIN+16" | "SIGRTMIN+17" | "SIGRTMIN+18" | "SIGRTMIN+19" | "SIGRTMIN+20" | "SIGRTMIN+21" | "SIGRTMIN+22" | "SIGRTMIN+23" | "SIGRTMIN+24" | "SIGRTMIN+25" | "SIGRTMIN+26" | "SIGRTMIN+27" | "SIGRTMIN+28" | "SIGRTMIN+29" | "SIGRTMIN+30" | "") | null;
            /** @description user and group, name|uid[:group|gid], as /etc/passwd and /etc/group of the guest define them; root by default */
            readonly user?: (string & (string)) | null;
        };
        /** @description the service, which is configured and started before the response; with an image, the fields override those of the image */
        readonly CreatedService: {
            /** @description program and arguments; they replace entrypoint and cmd of the image and are required without an image */
            readonly cmd?: readonly string[] | null;
            /** @description working directory in the guest, an absolute path */
            readonly cwd?: (string & (string)) | null;
            /**
             * @description environment variables, added to those of the profile or image
             * @default {}
             */
            readonly env?: {
                readonly [key: string]: string;
            } | null;
            /**
             * @description use only env as environment, plus PATH and HOME if unset, and create cwd if it is missing
             * @default false
             */
            readonly env_exact?: boolean | null;
            /**
             * @description size of the ring buffer in the guest that stores the newest output, bytes; 0 means the default
             * @default 2097152
             */
            readonly log_buffer_bytes?: number | null;
            /**
             * @description restart policy
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
             * @description signal that a stop sends to the process group: a Linux signal, such as SIGTERM or SIGRTMIN+3
             * @default SIGTERM
             */
            readonly stop_signal?: ("SIGHUP" | "SIGINT" | "SIGQUIT" | "SIGILL" | "SIGTRAP" | "SIGABRT" | "SIGBUS" | "SIGFPE" | "SIGKILL" | "SIGUSR1" | "SIGSEGV" | "SIGUSR2" | "SIGPIPE" | "SIGALRM" | "SIGTERM" | "SIGSTKFLT" | "SIGCHLD" | "SIGCONT" | "SIGSTOP" | "SIGTSTP" | "SIGTTIN" | "SIGTTOU" | "SIGURG" | "SIGXCPU" | "SIGXFSZ" | "SIGVTALRM" | "SIGPROF" | "SIGWINCH" | "SIGIO" | "SIGPWR" | "SIGSYS" | "SIGRTMIN" | "SIGRTMIN+1" | "SIGRTMIN+2" | "SIGRTMIN+3" | "SIGRTMIN+4" | "SIGRTMIN+5" | "SIGRTMIN+6" | "SIGRTMIN+7" | "SIGRTMIN+8" | "SIGRTMIN+9" | "SIGRTMIN+10" | "SIGRTMIN+11" | "SIGRTMIN+12" | "SIGRTMIN+13" | "SIGRTMIN+14" | "SIGRTMIN+15" | "SIGRTMIN+16" | "SIGRTMIN+17" | "SIGRTMIN+18" | "SIGRTMIN+19" | "SIGRTMIN+20" | "SIGRTMIN+21" | "SIGRTMIN+22" | "SIGRTMIN+23" | "SIGRTMIN+24" | "SIGRTMIN+25" | "SIGRTMIN+26" | "SIGRTMIN+27" | "SIGRTMIN+28" | "SIGRTMIN+29" | "SIGRTMIN+30" | "") | null;
            /** @description user and group, name|uid[:group|gid], as /etc/passwd and /etc/group of the guest define them; root by default */
            readonly user?: (string & (string)) | null;
        };
        /** @description the configured service */
        readonly ConfiguredService: {
            /** @description program and arguments */
            readonly cmd: readonly string[];
            /** @description working directory */
            readonly cwd?: string;
            /** @description environment variables */
            readonly env?: {
                readonly [key: string]: string;
            };
            /**
             * @description only env is used as environment, apart from PATH and HOME
             * @constant
             */
            readonly env_exact?: true;
            /** @description size of the output buffer in the guest, bytes */
            readonly log_buffer_bytes: number;
            /** @description restart policy */
            readonly restart: {
                /**
                 * @description when the service is restarted
                 * @enum {string}
                 */
                readonly policy: "never" | "on-failure" | "always";
                /** @description consecutive failures after which the state stays failed */
                readonly max_retries?: number;
            };
            /** @description seconds from the stop signal to SIGKILL */
            readonly stop_grace_s: number;
            /**
             * @description signal that a stop sends
             * @enum {string}
             */
            readonly stop_signal: "SIGHUP" | "SIGINT" | "SIGQUIT" | "SIGILL" | "SIGTRAP" | "SIGABRT" | "SIGBUS" | "SIGFPE" | "SIGKILL" | "SIGUSR1" | "SIGSEGV" | "SIGUSR2" | "SIGPIPE" | "SIGALRM" | "SIGTERM" | "SIGSTKFLT" | "SIGCHLD" | "SIGCONT" | "SIGSTOP" | "SIGTSTP" | "SIGTTIN" | "SIGTTOU" | "SIGURG" | "SIGXCPU" | "SIGXFSZ" | "SIGVTALRM" | "SIGPROF" | "SIGWINCH" | "SIGIO" | "SIGPWR" | "SIGSYS" | "SIGRTMIN" | "SIGRTMIN+1" | "SIGRTMIN+2" | "SIGRTMIN+3" | "SIGRTMIN+4" | "SIGRTMIN+5" | "SIGRTMIN+6" | "SIGRTMIN+7" | "SIGRTMIN+8" | "SIGRTMIN+9" | "SIGRTMIN+10" | "SIGRTMIN+11" | "SIGRTMIN+12" | "SIGRTMIN+13" | "SIGRTMIN+14" | "SIGRTMIN+15" | "SIGRTMIN+16" | "SIGRTMIN+17" | "SIGRTMIN+18" | "SIGRTMIN+19" | "SIGRTMIN+20" | "SIGRTMIN+21" | "SIGRTMIN+22" | "SIGRTMIN+23" | "SIGRTMIN+24" | "SIGRTMIN+25" | "SIGRTMIN+26" | "SIGRTMIN+27" | "SIGRTMIN+28" | "SIGRTMIN+29" | "SIGRTMIN+30";
            /** @description user and group; root if absent */
            readonly user?: string;
        };
        /** @description the status of the service; only state is always present */
        readonly ServiceStatus: {
            /**
             * @description current state
             * @enum {string}
             */
            readonly state: "idle" | "starting" | "running" | "stopping" | "backing_off" | "stopped" | "failed";
            /** @description process id in the guest; only while the process runs */
            readonly pid?: number;
            /** @description number of automatic restarts of this spec */
            readonly restarts?: number;
            readonly spec?: components["schemas"]["ConfiguredService"];
            /** @description start time of the process; only while it runs, Unix milliseconds */
            readonly started_at_unix_ms?: number;
            /** @description run time of the process in milliseconds */
            readonly uptime_ms?: number;
            /** @description result of the last run; exit_code -1 and error if the process could not start */
            readonly last_exit?: components["schemas"]["ExecResult"];
            /** @description time of the last exit, Unix milliseconds */
            readonly last_exit_at_unix_ms?: number;
            /** @description true if a stop caused the last exit */
            readonly last_exit_requested?: boolean;
            /** @description resident memory of its processes, bytes */
            readonly live_rss_bytes?: number;
            /** @description peak of live_rss_bytes */
            readonly live_peak_rss_bytes?: number;
            /** @description bytes of output that the buffer has dropped */
            readonly log_dropped_bytes?: number;
            /** @description sequence number of the oldest stored record */
            readonly log_first_seq?: number;
            /** @description sequence number of the next record */
            readonly log_next_seq?: number;
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description how to stop the service */
        readonly StopServiceRequest: {
            /** @description seconds from the stop signal to SIGKILL for this stop; the spec has the default; 0 means the default */
            readonly grace_s?: number | null;
        };
        /** @description a page of service output */
        readonly ServiceLogPage: {
            /** @description records in order; null if there are none */
            readonly records: readonly {
                /** @description sequence number of the record */
                readonly seq: number;
                /**
                 * @description stream to which the output was written
                 * @enum {string}
                 */
                readonly stream: "stdout" | "stderr";
                /** @description time of the output, Unix milliseconds */
                readonly unix_ms: number;
                /**
                 * Format: base64
                 * @description the bytes in base64
                 */
                readonly data: string;
            }[] | null;
            /** @description from_seq of the next page */
            readonly next_seq: number;
            /** @description sequence number of the oldest stored record */
            readonly first_seq: number;
            /** @description number of dropped records between from_seq and the first record of this page */
            readonly dropped_records?: number;
            /** @description bytes of output in the dropped records */
            readonly dropped_bytes?: number;
        };
        /** @description one line of service output */
        readonly ServiceLogLine: {
            /** @description sequence number of the record, or of the next record */
            readonly seq: number;
            /** @description id of the ring to which the following sequence numbers belong; each configured service has its own ring */
            readonly ring?: string;
            /** @description number of dropped records before this one */
            readonly dropped_records?: number;
            /** @description bytes of output in the dropped records */
            readonly dropped_bytes?: number;
            /**
             * @description stream to which the output was written
             * @enum {string}
             */
            readonly stream?: "stdout" | "stderr";
            /** @description time of the output, Unix milliseconds */
            readonly unix_ms?: number;
            /**
             * Format: base64
             * @description the bytes in base64
             */
            readonly data?: string;
        };
        readonly ImageRef: {
            /** @description Docker reference, or digest or digest prefix of a converted image */
            readonly oci?: (string & (string)) | null;
            /** @description path of a root filesystem or image archive on the host, inside a directory that the operator has allowed */
            readonly path?: (string & (string)) | null;
        };
        /** @description an image to pull and convert */
        readonly PullImageRequest: {
            /** @description Docker reference */
            readonly ref?: (string & (string)) | null;
            /**
             * @description when to pull: always, missing (only if the image is not on this host), or never
             * @default always
             */
            readonly pull?: ("missing" | "always" | "never" | "") | null;
        };
        /** @description changes of an image */
        readonly ChangeImageRequest: {
            /** @description labels to set, or with null to remove; others stay */
            readonly user_labels?: {
                readonly [key: string]: string | null;
            } | null;
        };
        /** @description a converted image */
        readonly ImageResponse: {
            /** @description digest of the converted image */
            readonly digest: string;
            /** @description reference that the image was pulled with */
            readonly source_ref?: string;
            /** @description default arguments (CMD) */
            readonly cmd?: readonly string[];
            /** @description default program (ENTRYPOINT) */
            readonly entrypoint?: readonly string[];
            /** @description ports that the image declares, such as 80/tcp */
            readonly exposed_ports?: readonly string[];
            /** @description total size of its files, bytes */
            readonly content_bytes?: number;
            /** @description disk space that its root filesystem uses, bytes */
            readonly size_bytes?: number;
            /** @description labels in the configuration of the image */
            readonly labels?: {
                readonly [key: string]: string;
            };
            /** @description labels that were set on this daemon; absent if there are none */
            readonly user_labels?: {
                readonly [key: string]: string;
            };
            /** @description number of labels that are omitted because all labels together exceed 64 KiB */
            readonly labels_omitted?: number;
            /** @description all references of the image */
            readonly refs?: readonly string[];
            /** @description number of files, directories and links */
            readonly entries?: number;
            /** @description conversion method */
            readonly convert_mode: string;
            /** @description time of the conversion, Unix milliseconds */
            readonly converted_at_unix_ms: number;
            /** @description at the gateway of a fleet: the hosts that have it, none if only the snapshot store does; a daemon alone has none */
            readonly hosts?: readonly string[];
            /**
             * @description with shared=true, where hosts share images. local: not in the snapshot store. stored: on a host and there. remote: only there; a create or a pull fetches it
             * @enum {string}
             */
            readonly storage?: "local" | "stored" | "remote";
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description the converted images */
        readonly ImageListResponse: {
            /** @description oldest first */
            readonly images: readonly components["schemas"]["ImageResponse"][];
            /** @description cursor of the next page; absent on the last page */
            readonly next_cursor?: string;
            /** @description hosts of the fleet that did not answer in time, or refused what others did, so that theirs are missing; a daemon alone has none */
            readonly unreachable_hosts?: readonly string[];
            /** @description with shared=true: why the snapshot store could not be asked; images that are only there may be missing */
            readonly store_error?: string;
        };
        /** @description a sandbox to create; every field is optional */
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
             * @description size of the writable layer, rounded up to 1 MiB; the layer uses disk space only for written data; 0 means the default
             * @default 4294967296
             */
            readonly disk_bytes?: (0 | number) | null;
            /**
             * @description lifetime in seconds after which the sandbox is deleted, 0 for none; forks inherit it and count from their creation
             * @default 0
             */
            readonly timeout_s?: number | null;
            /**
             * @description idle timeout in seconds, 0 for none; a sandbox is idle without commands, transfers, connections, output, network traffic and CPU work; forks inherit it
             * @default 0
             */
            readonly idle_timeout_s?: number | null;
            /**
             * @description action after the idle timeout: delete, pause, or snapshot (take a snapshot and delete), which needs the operation snapshot
             * @default delete
             */
            readonly idle_action?: ("delete" | "snapshot" | "pause" | "") | null;
            /** @description number of snapshots that idle_action snapshot keeps: with each new one, older ones that the sandbox came from are deleted, unless a client took them; absent: all; forks inherit it */
            readonly keep_last?: number | null;
            /**
             * @description seconds after which the snapshots that idle_action takes are deleted, 0 for never; forks inherit it
             * @default 0
             */
            readonly snapshot_expires_s?: number | null;
            /**
             * @description action at the end of timeout_s: delete, which also happens while the sandbox is paused; or pause, and then timeout_s counts only while the sandbox runs, again from each resume
             * @default delete
             */
            readonly timeout_action?: ("delete" | "pause" | "") | null;
            /**
             * @description whether a request that needs the guest resumes the sandbox when it is paused
             * @default true
             */
            readonly auto_resume?: boolean | null;
            /**
             * @description text to append to the kernel command line; such a sandbox always cold-boots
             * @default
             */
            readonly boot_args?: (string & (string)) | null;
            /** @description profile to boot from; the daemon has a default */
            readonly profile?: string | null;
            /** @description container image to boot from, instead of a profile */
            readonly image?: components["schemas"]["ImageRef"] | null;
            /**
             * @description when to pull the image: missing, always, or never (a missing image then causes 404)
             * @default missing
             */
            readonly pull?: ("missing" | "always" | "never" | "") | null;
            /** @description hosts that the guest may reach; no network by default */
            readonly network?: components["schemas"]["NetworkRequest"] | null;
            /**
             * @description host ports to forward to guest ports; a sandbox without a network gets one for this purpose, with no egress
             * @default []
             */
            readonly publish?: readonly components["schemas"]["PortMapping"][] | null;
            /** @description a service to start and supervise */
            readonly service?: components["schemas"]["CreatedService"] | null;
            /** @description name of the sandbox, unique among those of the tenant */
            readonly name?: (string & (string)) | null;
            /**
             * @description labels by key, in the syntax of Kubernetes
             * @default {}
             */
            readonly labels?: {
                readonly [key: string]: string;
            } | null;
            /**
             * @description environment variables of every command and of the service, added to those of the profile or image; those of a request override them; forks inherit them
             * @default {}
             */
            readonly env?: {
                readonly [key: string]: string;
            } | null;
            /** @description secrets by name that the guest can use and does not have: variables with placeholders, whose values the gateway puts into requests to the hosts of each; forks inherit them */
            readonly secrets?: {
                readonly [key: string]: components["schemas"]["SecretBinding"];
            } | null;
            /**
             * @description if the name is taken: error, or return the sandbox of that name (status 200) if its parameters are the same
             * @default error
             */
            readonly if_exists?: ("error" | "return" | "") | null;
        };
        /** @description changes of a sandbox; fields that are absent stay as they are */
        readonly UpdateSandboxRequest: {
            /** @description new name, unique among those of the tenant; null removes the name */
            readonly name?: (string & (string)) | null;
            /** @description changes of labels; null as a value removes the label, null itself removes all */
            readonly labels?: {
                readonly [key: string]: string | null;
            } | null;
            /** @description lifetime in seconds from now; 0 or null removes it */
            readonly timeout_s?: number | null;
            /** @description idle timeout in seconds, which starts again; 0 or null removes it */
            readonly idle_timeout_s?: number | null;
            /** @description action after the idle timeout; snapshot needs the operation snapshot */
            readonly idle_action?: ("delete" | "snapshot" | "pause") | null;
            /** @description action at the end of timeout_s; null: delete */
            readonly timeout_action?: ("delete" | "pause") | null;
            /** @description whether a request that needs the guest resumes the sandbox when it is paused; null: true */
            readonly auto_resume?: boolean | null;
        };
        /** @description result of deleting several sandboxes */
        readonly DeletedSandboxes: {
            /** @description the sandboxes that were deleted */
            readonly deleted: readonly string[];
            /** @description the sandboxes that could not be deleted, and still exist */
            readonly failed: readonly {
                /**
                 * sandbox id
                 * @description id of the sandbox: sbx_ and 13 characters of 0-9 and a-v
                 */
                readonly id: string;
                /**
                 * @description machine-readable error code; later daemons may add codes
                 * @enum {string}
                 */
                readonly code: "invalid_argument" | "unauthenticated" | "forbidden" | "not_found" | "conflict" | "paused" | "gone" | "precondition_failed" | "too_large" | "idempotency_mismatch" | "internal" | "unsupported" | "upstream" | "port_failed" | "guest_unreachable" | "port_not_listening" | "exhausted" | "cancelled" | "port_timeout" | "malformed" | "unknown_path" | "method_not_allowed" | "timeout" | "unsupported_media" | "range_not_satisfiable" | "expectation_failed" | "upgrade_required" | "headers_too_large" | "not_implemented";
                /** @description why it could not be deleted */
                readonly error: string;
            }[];
            /** @description hosts of the fleet that did not answer in time, or refused what others did, so that theirs are missing; a daemon alone has none */
            readonly unreachable_hosts?: readonly string[];
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description a sandbox */
        readonly SandboxResponse: {
            /**
             * sandbox id
             * @description id of the sandbox: sbx_ and 13 characters of 0-9 and a-v
             */
            readonly id: string;
            /** @description name of the sandbox, unique among those of its tenant */
            readonly name?: string & (string);
            /** @description labels by key */
            readonly labels: {
                readonly [key: string]: string;
            };
            /**
             * @description state of the sandbox; later daemons may produce more of them. A sandbox is visible once its create has succeeded, so starting does not occur
             * @enum {string}
             */
            readonly state: "starting" | "running" | "pausing" | "paused" | "resuming" | "failed" | "deleting";
            /** @description why the sandbox failed; present in the state failed */
            readonly reason?: {
                /** @description machine-readable reason, such as vm_exited; later daemons may add codes */
                readonly code: string;
                /** @description the reason as a sentence */
                readonly message: string;
            };
            /**
             * Format: date-time
             * @description creation time
             */
            readonly created_at: string;
            /**
             * Format: date-time
             * @description end of its lifetime; absent if it has none
             */
            readonly expires_at?: string;
            /**
             * Format: date-time
             * @description last use by a client: command, transfer, service request or snapshot; now while one of them runs
             */
            readonly last_used_at: string;
            /** @description lifetime in seconds, as it was last set; 0 for none */
            readonly timeout_s: number;
            /** @description idle timeout in seconds; 0 for none */
            readonly idle_timeout_s: number;
            /**
             * @description action after the idle timeout
             * @enum {string}
             */
            readonly idle_action: "delete" | "snapshot" | "pause";
            /** @description number of snapshots that idle_action keeps; absent: all */
            readonly keep_last?: number;
            /** @description lifetime of the snapshots that idle_action takes; absent: no end */
            readonly snapshot_expires_s?: number;
            /**
             * @description action at the end of the lifetime
             * @enum {string}
             */
            readonly timeout_action: "delete" | "pause";
            /** @description whether a request that needs the guest resumes it */
            readonly auto_resume: boolean;
            /**
             * Format: date-time
             * @description when it was paused; present while it is paused
             */
            readonly paused_at?: string;
            /** @description size of the writable layer */
            readonly disk_bytes: number;
            /** @description memory, MiB */
            readonly memory_mib: number;
            /** @description virtual CPUs */
            readonly vcpus: number;
            /** @description profile of the sandbox; absent if it uses an image */
            readonly profile?: string;
            /** @description container image of the sandbox; absent if it uses a profile */
            readonly image?: {
                /** @description image reference or host path, as it was requested */
                readonly reference: string;
                /** @description digest of the image; absent for a host path */
                readonly digest?: string;
            };
            /** @description names of the variables in its environment; absent in lists. Values are never shown */
            readonly env_names?: readonly string[];
            /** @description directory of the sandbox on the host */
            readonly workdir: string;
            /**
             * snapshot id
             * @description source snapshot of a fork
             */
            readonly source_snapshot_id?: string;
            /**
             * snapshot id
             * @description the last snapshot that was taken of it, else the source snapshot of a fork. It may be deleted
             */
            readonly parent_snapshot_id?: string;
            /**
             * sandbox id
             * @description source sandbox of a fork that has no snapshot
             */
            readonly source_sandbox_id?: string;
            readonly network?: components["schemas"]["NetworkResponse"];
            /** @description published ports */
            readonly published?: readonly components["schemas"]["PublishedPort"][];
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description sandboxes */
        readonly ListResponse: {
            /** @description oldest first */
            readonly sandboxes: readonly components["schemas"]["SandboxResponse"][];
            /** @description cursor of the next page; absent on the last page */
            readonly next_cursor?: string;
            /** @description hosts of the fleet that did not answer in time, or refused what others did, so that theirs are missing; a daemon alone has none */
            readonly unreachable_hosts?: readonly string[];
            /** @description why the snapshot store could not be asked: paused sandboxes that are only there may be missing */
            readonly store_error?: string;
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description resource usage of a sandbox */
        readonly SandboxStats: {
            /**
             * sandbox id
             * @description id of the sandbox: sbx_ and 13 characters of 0-9 and a-v
             */
            readonly id: string;
            /**
             * Format: date-time
             * @description time of the sample
             */
            readonly read_at: string;
            /** @description virtual CPUs */
            readonly vcpus: number;
            /** @description total CPU time of the VMM and its guest, microseconds */
            readonly cpu_us: number;
            /** @description CPU usage since the previous sample, percent of one CPU; absent in the first sample of a stream */
            readonly cpu_percent?: number;
            /** @description memory of the guest, bytes */
            readonly memory_limit_bytes: number;
            /** @description resident memory of the VMM, including pages that it shares with other VMMs */
            readonly resident_bytes: number;
            /** @description resident memory that the VMM does not share */
            readonly private_bytes: number;
            /** @description size of the writable layer, bytes */
            readonly disk_limit_bytes: number;
            /** @description disk space that the writable layer uses, bytes */
            readonly layer_bytes: number;
            /** @description total bytes read from storage */
            readonly read_bytes: number;
            /** @description total bytes written to storage */
            readonly written_bytes: number;
            /** @description network traffic; absent if the sandbox has no network */
            readonly network?: {
                /** @description bytes that the guest received */
                readonly received_bytes: number;
                /** @description packets that the guest received */
                readonly received_packets: number;
                /** @description bytes that the guest sent */
                readonly sent_bytes: number;
                /** @description packets that the guest sent */
                readonly sent_packets: number;
            };
        };
        /** @description what to remember about a snapshot; the body is optional */
        readonly SnapshotRequest: {
            /** @description name, unique among the snapshots of the tenant */
            readonly name?: (string & (string)) | null;
            /** @description labels by key */
            readonly labels?: {
                readonly [key: string]: string;
            } | null;
            /** @description comment */
            readonly comment?: string | null;
            /**
             * @description seconds after which the snapshot is deleted, 0 for never
             * @default 0
             */
            readonly expires_s?: number | null;
        };
        /** @description changes of a snapshot; absent fields stay */
        readonly ChangeSnapshotRequest: {
            /** @description name; null removes it */
            readonly name?: (string & (string)) | null;
            /** @description labels to set, or with null to remove; others stay */
            readonly labels?: {
                readonly [key: string]: string | null;
            } | null;
            /** @description comment; null removes it */
            readonly comment?: string | null;
            /** @description seconds from now after which the snapshot is deleted; 0 or null: never */
            readonly expires_s?: number | null;
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
             * @description creation time
             */
            readonly created_at: string;
            /**
             * sandbox id
             * @description source sandbox
             */
            readonly source_id: string;
            /**
             * snapshot id
             * @description the snapshot that the source sandbox continued from: of which it is a fork, or the last one that was taken of it. It may be deleted
             */
            readonly parent_snapshot_id?: string;
            /** @description directory of the snapshot on the host */
            readonly dir: string;
            /** @description file with the memory of the guest */
            readonly mem_path: string;
            /** @description file with the writable layer */
            readonly rootfs_path: string;
            /** @description file with the device state */
            readonly state_path: string;
            /** @description memory, MiB */
            readonly memory_mib: number;
            /** @description virtual CPUs */
            readonly vcpus: number;
            /** @description name of the snapshot, unique among those of its tenant */
            readonly name?: string & (string);
            /** @description labels by key; absent if there are none */
            readonly labels?: {
                readonly [key: string]: string;
            };
            /** @description comment */
            readonly comment?: string;
            /**
             * Format: date-time
             * @description when it is deleted; absent: never
             */
            readonly expires_at?: string;
            /**
             * @description an idle timeout took it, so keep_last of the sandbox may delete it; absent: a client asked for it
             * @constant
             */
            readonly automatic?: true;
            /**
             * @description local: only on this host, until it is uploaded to the snapshot store. uploading: being sent. stored: on this host and in the snapshot store. remote: only there; the first use fetches it. Absent without a snapshot store
             * @enum {string}
             */
            readonly storage?: "local" | "uploading" | "stored" | "remote";
            /** @description why the last upload failed; it is repeated */
            readonly storage_error?: string;
            /** @description disk space of its files; present where one snapshot is shown */
            readonly disk_bytes?: number;
            /** @description the part of disk_bytes that no other file shares; present where one snapshot is shown */
            readonly unique_bytes?: number;
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description snapshots */
        readonly SnapshotListResponse: {
            /** @description oldest first */
            readonly snapshots: readonly components["schemas"]["SnapshotResponse"][];
            /** @description cursor of the next page; absent on the last page */
            readonly next_cursor?: string;
            /** @description hosts of the fleet that did not answer in time, or refused what others did, so that theirs are missing; a daemon alone has none */
            readonly unreachable_hosts?: readonly string[];
            /** @description why the snapshot store could not be asked: snapshots that are only there may be missing */
            readonly store_error?: string;
        };
        /** @description the tree of a snapshot, as a list */
        readonly SnapshotTree: {
            /** @description oldest first */
            readonly nodes: readonly {
                /**
                 * @description what it is
                 * @enum {string}
                 */
                readonly kind: "snapshot" | "sandbox";
                /** @description its id */
                readonly id: string;
                /**
                 * snapshot id
                 * @description the snapshot that it came from; absent at the top of the tree
                 */
                readonly parent_id?: string;
                /**
                 * Format: date-time
                 * @description creation time
                 */
                readonly created_at: string;
                /** @description its name; absent if it has none */
                readonly name?: string & (string);
                /**
                 * sandbox id
                 * @description source sandbox of a snapshot
                 */
                readonly source_id?: string;
                /**
                 * @description state of a sandbox
                 * @enum {string}
                 */
                readonly state?: "starting" | "running" | "pausing" | "paused" | "resuming" | "failed" | "deleting";
                /**
                 * @description a snapshot that was deleted, and that others came from
                 * @constant
                 */
                readonly deleted?: true;
            }[];
            /** @description cursor of the next page; absent on the last page */
            readonly next_cursor?: string;
        };
        /** @description with which snapshot to compare */
        readonly DiffRequest: {
            /** @description id or name of the other snapshot: what is only there is added */
            readonly with: string & (string);
            /**
             * @description maximum number of files in the page; a page can be shorter
             * @default 1000
             */
            readonly limit?: number | null;
            /** @description next_cursor of the previous page */
            readonly cursor?: (string & (string)) | null;
        };
        /** @description files that differ between the disks of two snapshots */
        readonly SnapshotDiff: {
            /** @description depth first; a directory, then what is in it, in the order of the bytes of their names */
            readonly files: readonly {
                /** @description absolute path; bytes that are not UTF-8 are shown as U+FFFD */
                readonly path: string;
                /** @description the path as base64, if it is not UTF-8 */
                readonly path_base64?: string;
                /**
                 * @description added: only in the snapshot of `with`. removed: only in the other one. changed: in both
                 * @enum {string}
                 */
                readonly change: "added" | "removed" | "changed";
                /**
                 * @description kind of the file
                 * @enum {string}
                 */
                readonly kind: "file" | "directory" | "symlink" | "fifo" | "socket" | "character-device" | "block-device";
                /** @description size of the content in bytes; absent unless it is a file or a symbolic link */
                readonly size_bytes?: number;
                /** @description permissions in octal, such as 0644 */
                readonly mode: string;
                /** @description user id of the owner */
                readonly uid: number;
                /** @description group id */
                readonly gid: number;
                /** @description of a changed one: what is different. content: of a file, the target of a link, the number of a device. xattrs: extended attributes, such as capabilities and access lists */
                readonly differs?: readonly ("kind" | "content" | "mode" | "owner" | "xattrs")[];
                /** @description of a changed one: what it was; the fields beside are of the snapshot of `with` */
                readonly before?: {
                    /**
                     * @description kind of the file
                     * @enum {string}
                     */
                    readonly kind: "file" | "directory" | "symlink" | "fifo" | "socket" | "character-device" | "block-device";
                    /** @description size of the content in bytes; absent unless it is a file or a symbolic link */
                    readonly size_bytes?: number;
                    /** @description permissions in octal, such as 0644 */
                    readonly mode: string;
                    /** @description user id of the owner */
                    readonly uid: number;
                    /** @description group id */
                    readonly gid: number;
                };
            }[];
            /** @description cursor of the next page; absent on the last page */
            readonly next_cursor?: string;
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description options of the forks; the body is optional */
        readonly ForkReq: {
            /**
             * @description number of forks; overrides count of the query unless it is 0
             * @default 0
             */
            readonly count?: number | null;
            /** @description what each fork has of its own, one entry for each, in the order of the answer; count may be absent then */
            readonly children?: readonly {
                /**
                 * @description host ports to forward to guest ports; a sandbox without a network gets one for this purpose, with no egress
                 * @default []
                 */
                readonly publish?: readonly components["schemas"]["PortMapping"][] | null;
                /** @description name of this fork */
                readonly name?: (string & (string)) | null;
                /**
                 * @description changes of its labels, after those for all forks; null removes one
                 * @default {}
                 */
                readonly labels?: {
                    readonly [key: string]: string | null;
                } | null;
                /**
                 * @description its environment variables, added to those of all forks
                 * @default {}
                 */
                readonly env?: {
                    readonly [key: string]: string;
                } | null;
            }[] | null;
            /**
             * @description host ports to forward to guest ports; a sandbox without a network gets one for this purpose, with no egress
             * @default []
             */
            readonly publish?: readonly components["schemas"]["PortMapping"][] | null;
            /** @description name of the only fork; forks do not inherit the name */
            readonly name?: (string & (string)) | null;
            /**
             * @description changes of the labels that forks inherit from the source sandbox; null removes a label
             * @default {}
             */
            readonly labels?: {
                readonly [key: string]: string | null;
            } | null;
            /**
             * @description environment variables, added to those that forks inherit from the source sandbox
             * @default {}
             */
            readonly env?: {
                readonly [key: string]: string;
            } | null;
            /** @description changes of the secrets that forks inherit from the source sandbox; null drops one */
            readonly secrets?: {
                readonly [key: string]: components["schemas"]["SecretBinding"] | null;
            } | null;
        };
        /** @description number of files and bytes written */
        readonly PushResult: {
            /** @description number of regular files written */
            readonly files: number;
            /** @description total size of their contents in bytes */
            readonly bytes: number;
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description a file of the guest */
        readonly FileEntry: {
            /** @description last part of the path */
            readonly name: string;
            /** @description absolute path below the root of the request; bytes that are not UTF-8 are shown as U+FFFD */
            readonly path: string;
            /** @description the path as base64, if it is not UTF-8 */
            readonly path_base64?: string;
            /**
             * @description kind of the file
             * @enum {string}
             */
            readonly type: "file" | "directory" | "symlink" | "fifo" | "socket" | "character-device" | "block-device";
            /** @description size of the content in bytes */
            readonly size_bytes: number;
            /** @description permissions in octal, such as 0644 */
            readonly mode: string;
            /** @description user id of the owner */
            readonly uid: number;
            /** @description group id */
            readonly gid: number;
            /** @description name of the owner, if the guest has one */
            readonly user?: string;
            /** @description name of the group, if the guest has one */
            readonly group?: string;
            /**
             * Format: date-time
             * @description modification time
             */
            readonly modified_at: string;
            /** @description number of hard links */
            readonly links: number;
            /** @description target of a symbolic link; bytes that are not UTF-8 are shown as U+FFFD */
            readonly target?: string;
            /** @description the target as base64, if it is not UTF-8 */
            readonly target_base64?: string;
            /** @description with with_attributes: extended attributes of the namespace user, without that prefix; those that are not UTF-8 are left out, and those beyond 64 KiB */
            readonly attributes?: {
                readonly [key: string]: string;
            };
            /** @description ETag of the file: changes with its content and attributes */
            readonly etag: string;
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description entries of a directory */
        readonly FileList: {
            /** @description depth first; names of each directory in the order of their bytes */
            readonly entries: readonly components["schemas"]["FileEntry"][];
            /** @description cursor of the next page; absent on the last page */
            readonly next_cursor?: string;
        };
        /** @description one change in a watched directory */
        readonly WatchEvent: {
            /**
             * @description armed: every change from here on is reported. create: a new entry, or another one in place of it. write: new content. attrib: other permissions, owner or time. remove: the entry is gone. rename: it has a new name. overflow: changes were lost, list the directory again. end: nothing follows
             * @enum {string}
             */
            readonly type: "armed" | "create" | "write" | "attrib" | "remove" | "rename" | "overflow" | "end";
            /** @description absolute path below the root of the request; bytes that are not UTF-8 are shown as U+FFFD */
            readonly path?: string;
            /** @description the path as base64, if it is not UTF-8 */
            readonly path_base64?: string;
            /** @description of a rename: the former path */
            readonly from?: string;
            /** @description the former path as base64, if it is not UTF-8 */
            readonly from_base64?: string;
            /**
             * @description the entry is a directory
             * @constant
             */
            readonly directory?: true;
            /**
             * @description of a write: the program has closed the file
             * @constant
             */
            readonly closed?: true;
            /** @description of armed and overflow: number of directories that are watched */
            readonly directories?: number;
            /**
             * @description of end. removed: the directory was removed, moved or unmounted. unreadable: the user may no longer read it. limit: there are too many directories. lost: the sandbox ended, or does not respond. stopping: the daemon stops
             * @enum {string}
             */
            readonly reason?: "removed" | "unreadable" | "limit" | "lost" | "stopping";
            /** @description of end: the reason as a sentence */
            readonly message?: string;
        };
        /** @description the copy */
        readonly CopyResult: {
            /** @description last part of the path */
            readonly name: string;
            /** @description absolute path below the root of the request; bytes that are not UTF-8 are shown as U+FFFD */
            readonly path: string;
            /** @description the path as base64, if it is not UTF-8 */
            readonly path_base64?: string;
            /**
             * @description kind of the file
             * @enum {string}
             */
            readonly type: "file" | "directory" | "symlink" | "fifo" | "socket" | "character-device" | "block-device";
            /** @description size of the content in bytes */
            readonly size_bytes: number;
            /** @description permissions in octal, such as 0644 */
            readonly mode: string;
            /** @description user id of the owner */
            readonly uid: number;
            /** @description group id */
            readonly gid: number;
            /** @description name of the owner, if the guest has one */
            readonly user?: string;
            /** @description name of the group, if the guest has one */
            readonly group?: string;
            /**
             * Format: date-time
             * @description modification time
             */
            readonly modified_at: string;
            /** @description number of hard links */
            readonly links: number;
            /** @description target of a symbolic link; bytes that are not UTF-8 are shown as U+FFFD */
            readonly target?: string;
            /** @description the target as base64, if it is not UTF-8 */
            readonly target_base64?: string;
            /** @description with with_attributes: extended attributes of the namespace user, without that prefix; those that are not UTF-8 are left out, and those beyond 64 KiB */
            readonly attributes?: {
                readonly [key: string]: string;
            };
            /** @description ETag of the file: changes with its content and attributes */
            readonly etag: string;
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
            /** @description number of sockets, FIFOs and devices that were not copied */
            readonly left_out: number;
        };
        /** @description what was removed */
        readonly RemoveResult: {
            /** @description number of files and directories removed */
            readonly removed: number;
            /** @description unknown fields and parameters of the request, with suggestions; absent if there are none */
            readonly warnings?: readonly string[];
        };
        /** @description a directory to make */
        readonly MakeDirectoryRequest: {
            /** @description absolute path in the guest */
            readonly path?: (string & (string)) | null;
            /** @description the path as base64 of its bytes, if they are not UTF-8 */
            readonly path_base64?: (string & (string)) | null;
            /** @description absolute path of a directory that is the root for all paths of the request: neither .. nor a symbolic link leads out of it; default: / */
            readonly root?: (string & (string)) | null;
            /** @description the user whose rights apply, as name|uid[:group|gid]; it owns what is created; default: root */
            readonly user?: string | null;
            /** @description permissions in octal; default: 0755 */
            readonly mode?: (string & (string)) | null;
            /**
             * @description make missing parents, too
             * @default true
             */
            readonly parents?: boolean | null;
            /**
             * @description an existing directory is not an error; it stays as it is
             * @default false
             */
            readonly may_exist?: boolean | null;
        };
        /** @description a file or directory to move */
        readonly MoveFileRequest: {
            /** @description absolute path in the guest */
            readonly path?: (string & (string)) | null;
            /** @description the path as base64 of its bytes, if they are not UTF-8 */
            readonly path_base64?: (string & (string)) | null;
            /** @description absolute path of a directory that is the root for all paths of the request: neither .. nor a symbolic link leads out of it; default: / */
            readonly root?: (string & (string)) | null;
            /** @description the user whose rights apply, as name|uid[:group|gid]; it owns what is created; default: root */
            readonly user?: string | null;
            /** @description absolute path of the new name in the guest */
            readonly to?: (string & (string)) | null;
            /** @description the new name as base64 of its bytes, if they are not UTF-8 */
            readonly to_base64?: (string & (string)) | null;
            /**
             * @description replace a file, link or empty directory of that name; otherwise an existing name is an error
             * @default false
             */
            readonly overwrite?: boolean | null;
        };
        /** @description a file or directory to copy */
        readonly CopyFileRequest: {
            /** @description absolute path in the guest */
            readonly path?: (string & (string)) | null;
            /** @description the path as base64 of its bytes, if they are not UTF-8 */
            readonly path_base64?: (string & (string)) | null;
            /** @description absolute path of a directory that is the root for all paths of the request: neither .. nor a symbolic link leads out of it; default: / */
            readonly root?: (string & (string)) | null;
            /** @description the user whose rights apply, as name|uid[:group|gid]; it owns what is created; default: root */
            readonly user?: string | null;
            /** @description absolute path of the new name in the guest */
            readonly to?: (string & (string)) | null;
            /** @description the new name as base64 of its bytes, if they are not UTF-8 */
            readonly to_base64?: (string & (string)) | null;
            /**
             * @description replace a file, link or empty directory of that name; otherwise an existing name is an error
             * @default false
             */
            readonly overwrite?: boolean | null;
            /**
             * @description copy a directory with everything in it
             * @default false
             */
            readonly recursive?: boolean | null;
        };
        /** @description attributes to change; absent ones stay as they are */
        readonly ChangeFileRequest: {
            /** @description absolute path in the guest */
            readonly path?: (string & (string)) | null;
            /** @description the path as base64 of its bytes, if they are not UTF-8 */
            readonly path_base64?: (string & (string)) | null;
            /** @description absolute path of a directory that is the root for all paths of the request: neither .. nor a symbolic link leads out of it; default: / */
            readonly root?: (string & (string)) | null;
            /** @description the user whose rights apply, as name|uid[:group|gid]; it owns what is created; default: root */
            readonly user?: string | null;
            /** @description new permissions in octal */
            readonly mode?: (string & (string)) | null;
            /** @description new owner, as name|uid[:group|gid]; without a group, the group stays */
            readonly owner?: string | null;
            /** @description new modification time */
            readonly modified_at?: string | null;
            /** @description extended attributes of the namespace user, by their names without that prefix; null removes one, others stay */
            readonly attributes?: {
                readonly [key: string]: string | null;
            } | null;
        };
        /** @description a chunk of output or a message of the daemon */
        readonly LogRecord: {
            /**
             * @description source of the output: service or exec
             * @enum {string}
             */
            readonly source: "service" | "exec";
            /**
             * @description stdout, stderr, or event for a message of the daemon
             * @enum {string}
             */
            readonly stream: "stdout" | "stderr" | "event";
            /** @description a chunk of output, not necessarily a whole line; U+FFFD replaces invalid UTF-8 */
            readonly text: string;
            /** @description time of the record, Unix milliseconds */
            readonly time_ms: number;
        };
        /** @description a page of the log */
        readonly LogsResponse: {
            /** @description value of since for the next page */
            readonly next_offset: number;
            /** @description records in order, at most 5000 */
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
