import * as $protobuf from "protobufjs/minimal.js";
import Long = require("long");

/** Namespace sandboxd. */
export namespace sandboxd {

    /** Namespace agent. */
    namespace agent {

        /** Namespace v1. */
        namespace v1 {

            /**
             * Properties of a Frame.
             * @deprecated Use sandboxd.agent.v1.Frame.$Properties instead.
             */
            interface IFrame extends sandboxd.agent.v1.Frame.$Properties {
            }

            /** Represents a Frame. */
            class Frame {

                /**
                 * Constructs a new Frame.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Frame.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** Frame stream. */
                stream: number;

                /** Frame flow. */
                flow: number;

                /** Frame data. */
                data?: (Uint8Array|null);

                /** Frame end. */
                end?: (sandboxd.agent.v1.End.$Properties|null);

                /** Frame credit. */
                credit?: (number|null);

                /** Frame hello. */
                hello?: (sandboxd.agent.v1.Hello.$Properties|null);

                /** Frame request. */
                request?: (sandboxd.agent.v1.Request.$Properties|null);

                /** Frame cancel. */
                cancel?: (sandboxd.agent.v1.Cancel.$Properties|null);

                /** Frame signal. */
                signal?: (sandboxd.agent.v1.Signal.$Properties|null);

                /** Frame resize. */
                resize?: (sandboxd.agent.v1.TtySize.$Properties|null);

                /** Frame ping. */
                ping?: (sandboxd.agent.v1.Ping.$Properties|null);

                /** Frame helloReply. */
                helloReply?: (sandboxd.agent.v1.HelloReply.$Properties|null);

                /** Frame started. */
                started?: (sandboxd.agent.v1.Started.$Properties|null);

                /** Frame result. */
                result?: (sandboxd.agent.v1.Result.$Properties|null);

                /** Frame pong. */
                pong?: (sandboxd.agent.v1.Pong.$Properties|null);

                /** Frame part. */
                part?: (sandboxd.agent.v1.Part.$Properties|null);

                /** Frame whole. */
                whole: boolean;

                /** Frame body. */
                body?: ("data"|"end"|"credit"|"hello"|"request"|"cancel"|"signal"|"resize"|"ping"|"helloReply"|"started"|"result"|"pong"|"part");

                /**
                 * Creates a new Frame instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Frame instance
                 */
                static create(properties: sandboxd.agent.v1.Frame.$Shape): sandboxd.agent.v1.Frame & sandboxd.agent.v1.Frame.$Shape;
                static create(properties?: sandboxd.agent.v1.Frame.$Properties): sandboxd.agent.v1.Frame;

                /**
                 * Encodes the specified Frame message. Does not implicitly {@link sandboxd.agent.v1.Frame.verify|verify} messages.
                 * @param message Frame message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Frame.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a Frame message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Frame & sandboxd.agent.v1.Frame.$Shape} Frame
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Frame & sandboxd.agent.v1.Frame.$Shape;
            }

            namespace Frame {

                /** Properties of a Frame. */
                interface $Properties {

                    /** Frame stream */
                    stream?: (number|null);

                    /** Frame flow */
                    flow?: (number|null);

                    /** Frame data */
                    data?: (Uint8Array|null);

                    /** Frame end */
                    end?: (sandboxd.agent.v1.End.$Properties|null);

                    /** Frame credit */
                    credit?: (number|null);

                    /** Frame hello */
                    hello?: (sandboxd.agent.v1.Hello.$Properties|null);

                    /** Frame request */
                    request?: (sandboxd.agent.v1.Request.$Properties|null);

                    /** Frame cancel */
                    cancel?: (sandboxd.agent.v1.Cancel.$Properties|null);

                    /** Frame signal */
                    signal?: (sandboxd.agent.v1.Signal.$Properties|null);

                    /** Frame resize */
                    resize?: (sandboxd.agent.v1.TtySize.$Properties|null);

                    /** Frame ping */
                    ping?: (sandboxd.agent.v1.Ping.$Properties|null);

                    /** Frame helloReply */
                    helloReply?: (sandboxd.agent.v1.HelloReply.$Properties|null);

                    /** Frame started */
                    started?: (sandboxd.agent.v1.Started.$Properties|null);

                    /** Frame result */
                    result?: (sandboxd.agent.v1.Result.$Properties|null);

                    /** Frame pong */
                    pong?: (sandboxd.agent.v1.Pong.$Properties|null);

                    /** Frame part */
                    part?: (sandboxd.agent.v1.Part.$Properties|null);

                    /** Frame whole */
                    whole?: (boolean|null);

                    /** Frame body */
                    body?: ("data"|"end"|"credit"|"hello"|"request"|"cancel"|"signal"|"resize"|"ping"|"helloReply"|"started"|"result"|"pong"|"part");

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Narrowed shape of a Frame. */
                type $Shape = {
                  stream?: number|null;
                  flow?: number|null;
                  data?: Uint8Array|null;
                  end?: sandboxd.agent.v1.End.$Shape|null;
                  credit?: number|null;
                  hello?: sandboxd.agent.v1.Hello.$Shape|null;
                  request?: sandboxd.agent.v1.Request.$Shape|null;
                  cancel?: sandboxd.agent.v1.Cancel.$Shape|null;
                  signal?: sandboxd.agent.v1.Signal.$Shape|null;
                  resize?: sandboxd.agent.v1.TtySize.$Shape|null;
                  ping?: sandboxd.agent.v1.Ping.$Shape|null;
                  helloReply?: sandboxd.agent.v1.HelloReply.$Shape|null;
                  started?: sandboxd.agent.v1.Started.$Shape|null;
                  result?: sandboxd.agent.v1.Result.$Shape|null;
                  pong?: sandboxd.agent.v1.Pong.$Shape|null;
                  part?: sandboxd.agent.v1.Part.$Shape|null;
                  whole?: boolean|null;
                  $unknowns?: Uint8Array[];
                } & (
                  ({ body?: undefined; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "data"; data: Uint8Array; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "end"; data?: null; end: sandboxd.agent.v1.End.$Shape; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "credit"; data?: null; end?: null; credit: number; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "hello"; data?: null; end?: null; credit?: null; hello: sandboxd.agent.v1.Hello.$Shape; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "request"; data?: null; end?: null; credit?: null; hello?: null; request: sandboxd.agent.v1.Request.$Shape; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "cancel"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel: sandboxd.agent.v1.Cancel.$Shape; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "signal"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal: sandboxd.agent.v1.Signal.$Shape; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "resize"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize: sandboxd.agent.v1.TtySize.$Shape; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "ping"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping: sandboxd.agent.v1.Ping.$Shape; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "helloReply"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply: sandboxd.agent.v1.HelloReply.$Shape; started?: null; result?: null; pong?: null; part?: null }|{ body?: "started"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started: sandboxd.agent.v1.Started.$Shape; result?: null; pong?: null; part?: null }|{ body?: "result"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result: sandboxd.agent.v1.Result.$Shape; pong?: null; part?: null }|{ body?: "pong"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong: sandboxd.agent.v1.Pong.$Shape; part?: null }|{ body?: "part"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part: sandboxd.agent.v1.Part.$Shape })
                );
            }

            /** Flow enum. */
            enum Flow {

                /** FLOW_IN value */
                FLOW_IN = 0,

                /** FLOW_OUT value */
                FLOW_OUT = 1,

                /** FLOW_ERR value */
                FLOW_ERR = 2
            }

            /**
             * Properties of an End.
             * @deprecated Use sandboxd.agent.v1.End.$Properties instead.
             */
            interface IEnd extends sandboxd.agent.v1.End.$Properties {
            }

            /** Represents an End. */
            class End {

                /**
                 * Constructs a new End.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.End.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /**
                 * Creates a new End instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns End instance
                 */
                static create(properties: sandboxd.agent.v1.End.$Shape): sandboxd.agent.v1.End & sandboxd.agent.v1.End.$Shape;
                static create(properties?: sandboxd.agent.v1.End.$Properties): sandboxd.agent.v1.End;

                /**
                 * Encodes the specified End message. Does not implicitly {@link sandboxd.agent.v1.End.verify|verify} messages.
                 * @param message End message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.End.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes an End message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.End & sandboxd.agent.v1.End.$Shape} End
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.End & sandboxd.agent.v1.End.$Shape;
            }

            namespace End {

                /** Properties of an End. */
                interface $Properties {

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of an End. */
                type $Shape = sandboxd.agent.v1.End.$Properties;
            }

            /**
             * Properties of a Part.
             * @deprecated Use sandboxd.agent.v1.Part.$Properties instead.
             */
            interface IPart extends sandboxd.agent.v1.Part.$Properties {
            }

            /** Represents a Part. */
            class Part {

                /**
                 * Constructs a new Part.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Part.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** Part bytes. */
                bytes: Uint8Array;

                /** Part last. */
                last: boolean;

                /**
                 * Creates a new Part instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Part instance
                 */
                static create(properties: sandboxd.agent.v1.Part.$Shape): sandboxd.agent.v1.Part & sandboxd.agent.v1.Part.$Shape;
                static create(properties?: sandboxd.agent.v1.Part.$Properties): sandboxd.agent.v1.Part;

                /**
                 * Encodes the specified Part message. Does not implicitly {@link sandboxd.agent.v1.Part.verify|verify} messages.
                 * @param message Part message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Part.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a Part message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Part & sandboxd.agent.v1.Part.$Shape} Part
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Part & sandboxd.agent.v1.Part.$Shape;
            }

            namespace Part {

                /** Properties of a Part. */
                interface $Properties {

                    /** Part bytes */
                    bytes?: (Uint8Array|null);

                    /** Part last */
                    last?: (boolean|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a Part. */
                type $Shape = sandboxd.agent.v1.Part.$Properties;
            }

            /**
             * Properties of a Hello.
             * @deprecated Use sandboxd.agent.v1.Hello.$Properties instead.
             */
            interface IHello extends sandboxd.agent.v1.Hello.$Properties {
            }

            /** Represents a Hello. */
            class Hello {

                /**
                 * Constructs a new Hello.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Hello.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** Hello version. */
                version: number;

                /** Hello nonce. */
                nonce: Uint8Array;

                /** Hello incarnation. */
                incarnation: string;

                /** Hello window. */
                window: number;

                /**
                 * Creates a new Hello instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Hello instance
                 */
                static create(properties: sandboxd.agent.v1.Hello.$Shape): sandboxd.agent.v1.Hello & sandboxd.agent.v1.Hello.$Shape;
                static create(properties?: sandboxd.agent.v1.Hello.$Properties): sandboxd.agent.v1.Hello;

                /**
                 * Encodes the specified Hello message. Does not implicitly {@link sandboxd.agent.v1.Hello.verify|verify} messages.
                 * @param message Hello message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Hello.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a Hello message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Hello & sandboxd.agent.v1.Hello.$Shape} Hello
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Hello & sandboxd.agent.v1.Hello.$Shape;
            }

            namespace Hello {

                /** Properties of a Hello. */
                interface $Properties {

                    /** Hello version */
                    version?: (number|null);

                    /** Hello nonce */
                    nonce?: (Uint8Array|null);

                    /** Hello incarnation */
                    incarnation?: (string|null);

                    /** Hello window */
                    window?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a Hello. */
                type $Shape = sandboxd.agent.v1.Hello.$Properties;
            }

            /**
             * Properties of a HelloReply.
             * @deprecated Use sandboxd.agent.v1.HelloReply.$Properties instead.
             */
            interface IHelloReply extends sandboxd.agent.v1.HelloReply.$Properties {
            }

            /** Represents a HelloReply. */
            class HelloReply {

                /**
                 * Constructs a new HelloReply.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.HelloReply.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** HelloReply version. */
                version: number;

                /** HelloReply nonce. */
                nonce: Uint8Array;

                /** HelloReply capabilities. */
                capabilities: string[];

                /** HelloReply window. */
                window: number;

                /** HelloReply agentVersion. */
                agentVersion: string;

                /** HelloReply bootId. */
                bootId: string;

                /** HelloReply agentStartUs. */
                agentStartUs: number;

                /** HelloReply agentReadyUs. */
                agentReadyUs: number;

                /**
                 * Creates a new HelloReply instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns HelloReply instance
                 */
                static create(properties: sandboxd.agent.v1.HelloReply.$Shape): sandboxd.agent.v1.HelloReply & sandboxd.agent.v1.HelloReply.$Shape;
                static create(properties?: sandboxd.agent.v1.HelloReply.$Properties): sandboxd.agent.v1.HelloReply;

                /**
                 * Encodes the specified HelloReply message. Does not implicitly {@link sandboxd.agent.v1.HelloReply.verify|verify} messages.
                 * @param message HelloReply message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.HelloReply.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a HelloReply message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.HelloReply & sandboxd.agent.v1.HelloReply.$Shape} HelloReply
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.HelloReply & sandboxd.agent.v1.HelloReply.$Shape;
            }

            namespace HelloReply {

                /** Properties of a HelloReply. */
                interface $Properties {

                    /** HelloReply version */
                    version?: (number|null);

                    /** HelloReply nonce */
                    nonce?: (Uint8Array|null);

                    /** HelloReply capabilities */
                    capabilities?: (string[]|null);

                    /** HelloReply window */
                    window?: (number|null);

                    /** HelloReply agentVersion */
                    agentVersion?: (string|null);

                    /** HelloReply bootId */
                    bootId?: (string|null);

                    /** HelloReply agentStartUs */
                    agentStartUs?: (number|null);

                    /** HelloReply agentReadyUs */
                    agentReadyUs?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a HelloReply. */
                type $Shape = sandboxd.agent.v1.HelloReply.$Properties;
            }

            /**
             * Properties of a Ping.
             * @deprecated Use sandboxd.agent.v1.Ping.$Properties instead.
             */
            interface IPing extends sandboxd.agent.v1.Ping.$Properties {
            }

            /** Represents a Ping. */
            class Ping {

                /**
                 * Constructs a new Ping.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Ping.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** Ping payload. */
                payload: Uint8Array;

                /**
                 * Creates a new Ping instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Ping instance
                 */
                static create(properties: sandboxd.agent.v1.Ping.$Shape): sandboxd.agent.v1.Ping & sandboxd.agent.v1.Ping.$Shape;
                static create(properties?: sandboxd.agent.v1.Ping.$Properties): sandboxd.agent.v1.Ping;

                /**
                 * Encodes the specified Ping message. Does not implicitly {@link sandboxd.agent.v1.Ping.verify|verify} messages.
                 * @param message Ping message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Ping.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a Ping message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Ping & sandboxd.agent.v1.Ping.$Shape} Ping
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Ping & sandboxd.agent.v1.Ping.$Shape;
            }

            namespace Ping {

                /** Properties of a Ping. */
                interface $Properties {

                    /** Ping payload */
                    payload?: (Uint8Array|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a Ping. */
                type $Shape = sandboxd.agent.v1.Ping.$Properties;
            }

            /**
             * Properties of a Pong.
             * @deprecated Use sandboxd.agent.v1.Pong.$Properties instead.
             */
            interface IPong extends sandboxd.agent.v1.Pong.$Properties {
            }

            /** Represents a Pong. */
            class Pong {

                /**
                 * Constructs a new Pong.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Pong.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** Pong payload. */
                payload: Uint8Array;

                /**
                 * Creates a new Pong instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Pong instance
                 */
                static create(properties: sandboxd.agent.v1.Pong.$Shape): sandboxd.agent.v1.Pong & sandboxd.agent.v1.Pong.$Shape;
                static create(properties?: sandboxd.agent.v1.Pong.$Properties): sandboxd.agent.v1.Pong;

                /**
                 * Encodes the specified Pong message. Does not implicitly {@link sandboxd.agent.v1.Pong.verify|verify} messages.
                 * @param message Pong message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Pong.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a Pong message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Pong & sandboxd.agent.v1.Pong.$Shape} Pong
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Pong & sandboxd.agent.v1.Pong.$Shape;
            }

            namespace Pong {

                /** Properties of a Pong. */
                interface $Properties {

                    /** Pong payload */
                    payload?: (Uint8Array|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a Pong. */
                type $Shape = sandboxd.agent.v1.Pong.$Properties;
            }

            /**
             * Properties of a Cancel.
             * @deprecated Use sandboxd.agent.v1.Cancel.$Properties instead.
             */
            interface ICancel extends sandboxd.agent.v1.Cancel.$Properties {
            }

            /** Represents a Cancel. */
            class Cancel {

                /**
                 * Constructs a new Cancel.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Cancel.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /**
                 * Creates a new Cancel instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Cancel instance
                 */
                static create(properties: sandboxd.agent.v1.Cancel.$Shape): sandboxd.agent.v1.Cancel & sandboxd.agent.v1.Cancel.$Shape;
                static create(properties?: sandboxd.agent.v1.Cancel.$Properties): sandboxd.agent.v1.Cancel;

                /**
                 * Encodes the specified Cancel message. Does not implicitly {@link sandboxd.agent.v1.Cancel.verify|verify} messages.
                 * @param message Cancel message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Cancel.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a Cancel message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Cancel & sandboxd.agent.v1.Cancel.$Shape} Cancel
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Cancel & sandboxd.agent.v1.Cancel.$Shape;
            }

            namespace Cancel {

                /** Properties of a Cancel. */
                interface $Properties {

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a Cancel. */
                type $Shape = sandboxd.agent.v1.Cancel.$Properties;
            }

            /**
             * Properties of a Signal.
             * @deprecated Use sandboxd.agent.v1.Signal.$Properties instead.
             */
            interface ISignal extends sandboxd.agent.v1.Signal.$Properties {
            }

            /** Represents a Signal. */
            class Signal {

                /**
                 * Constructs a new Signal.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Signal.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** Signal name. */
                name: string;

                /**
                 * Creates a new Signal instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Signal instance
                 */
                static create(properties: sandboxd.agent.v1.Signal.$Shape): sandboxd.agent.v1.Signal & sandboxd.agent.v1.Signal.$Shape;
                static create(properties?: sandboxd.agent.v1.Signal.$Properties): sandboxd.agent.v1.Signal;

                /**
                 * Encodes the specified Signal message. Does not implicitly {@link sandboxd.agent.v1.Signal.verify|verify} messages.
                 * @param message Signal message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Signal.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a Signal message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Signal & sandboxd.agent.v1.Signal.$Shape} Signal
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Signal & sandboxd.agent.v1.Signal.$Shape;
            }

            namespace Signal {

                /** Properties of a Signal. */
                interface $Properties {

                    /** Signal name */
                    name?: (string|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a Signal. */
                type $Shape = sandboxd.agent.v1.Signal.$Properties;
            }

            /**
             * Properties of a TtySize.
             * @deprecated Use sandboxd.agent.v1.TtySize.$Properties instead.
             */
            interface ITtySize extends sandboxd.agent.v1.TtySize.$Properties {
            }

            /** Represents a TtySize. */
            class TtySize {

                /**
                 * Constructs a new TtySize.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.TtySize.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** TtySize cols. */
                cols: number;

                /** TtySize rows. */
                rows: number;

                /**
                 * Creates a new TtySize instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns TtySize instance
                 */
                static create(properties: sandboxd.agent.v1.TtySize.$Shape): sandboxd.agent.v1.TtySize & sandboxd.agent.v1.TtySize.$Shape;
                static create(properties?: sandboxd.agent.v1.TtySize.$Properties): sandboxd.agent.v1.TtySize;

                /**
                 * Encodes the specified TtySize message. Does not implicitly {@link sandboxd.agent.v1.TtySize.verify|verify} messages.
                 * @param message TtySize message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.TtySize.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a TtySize message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.TtySize & sandboxd.agent.v1.TtySize.$Shape} TtySize
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.TtySize & sandboxd.agent.v1.TtySize.$Shape;
            }

            namespace TtySize {

                /** Properties of a TtySize. */
                interface $Properties {

                    /** TtySize cols */
                    cols?: (number|null);

                    /** TtySize rows */
                    rows?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a TtySize. */
                type $Shape = sandboxd.agent.v1.TtySize.$Properties;
            }

            /**
             * Properties of a Request.
             * @deprecated Use sandboxd.agent.v1.Request.$Properties instead.
             */
            interface IRequest extends sandboxd.agent.v1.Request.$Properties {
            }

            /** Represents a Request. */
            class Request {

                /**
                 * Constructs a new Request.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Request.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** Request exec. */
                exec?: (sandboxd.agent.v1.Exec.$Properties|null);

                /** Request identity. */
                identity?: (sandboxd.agent.v1.Identity.$Properties|null);

                /** Request stats. */
                stats?: (sandboxd.agent.v1.Stats.$Properties|null);

                /** Request serviceConfigure. */
                serviceConfigure?: (sandboxd.agent.v1.ServiceConfigure.$Properties|null);

                /** Request serviceControl. */
                serviceControl?: (sandboxd.agent.v1.ServiceControl.$Properties|null);

                /** Request serviceOutput. */
                serviceOutput?: (sandboxd.agent.v1.ServiceOutput.$Properties|null);

                /** Request filePush. */
                filePush?: (sandboxd.agent.v1.FilePush.$Properties|null);

                /** Request filePull. */
                filePull?: (sandboxd.agent.v1.FilePull.$Properties|null);

                /** Request dirPull. */
                dirPull?: (sandboxd.agent.v1.DirPull.$Properties|null);

                /** Request fileCall. */
                fileCall?: (sandboxd.agent.v1.FileCall.$Properties|null);

                /** Request fileRead. */
                fileRead?: (sandboxd.agent.v1.FileRead.$Properties|null);

                /** Request fileWrite. */
                fileWrite?: (sandboxd.agent.v1.FileWrite.$Properties|null);

                /** Request fileWatch. */
                fileWatch?: (sandboxd.agent.v1.FileWatch.$Properties|null);

                /** Request growDisk. */
                growDisk?: (sandboxd.agent.v1.GrowDisk.$Properties|null);

                /** Request setClock. */
                setClock?: (sandboxd.agent.v1.SetClock.$Properties|null);

                /** Request freeze. */
                freeze?: (sandboxd.agent.v1.Freeze.$Properties|null);

                /** Request commandList. */
                commandList?: (sandboxd.agent.v1.CommandList.$Properties|null);

                /** Request commandCall. */
                commandCall?: (sandboxd.agent.v1.CommandCall.$Properties|null);

                /** Request commandAttach. */
                commandAttach?: (sandboxd.agent.v1.CommandAttach.$Properties|null);

                /** Request wake. */
                wake?: (sandboxd.agent.v1.Wake.$Properties|null);

                /** Request portConnect. */
                portConnect?: (sandboxd.agent.v1.PortConnect.$Properties|null);

                /** Request trust. */
                trust?: (sandboxd.agent.v1.Trust.$Properties|null);

                /** Request call. */
                call?: ("exec"|"identity"|"stats"|"serviceConfigure"|"serviceControl"|"serviceOutput"|"filePush"|"filePull"|"dirPull"|"fileCall"|"fileRead"|"fileWrite"|"fileWatch"|"growDisk"|"setClock"|"freeze"|"commandList"|"commandCall"|"commandAttach"|"wake"|"portConnect"|"trust");

                /**
                 * Creates a new Request instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Request instance
                 */
                static create(properties: sandboxd.agent.v1.Request.$Shape): sandboxd.agent.v1.Request & sandboxd.agent.v1.Request.$Shape;
                static create(properties?: sandboxd.agent.v1.Request.$Properties): sandboxd.agent.v1.Request;

                /**
                 * Encodes the specified Request message. Does not implicitly {@link sandboxd.agent.v1.Request.verify|verify} messages.
                 * @param message Request message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Request.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a Request message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Request & sandboxd.agent.v1.Request.$Shape} Request
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Request & sandboxd.agent.v1.Request.$Shape;
            }

            namespace Request {

                /** Properties of a Request. */
                interface $Properties {

                    /** Request exec */
                    exec?: (sandboxd.agent.v1.Exec.$Properties|null);

                    /** Request identity */
                    identity?: (sandboxd.agent.v1.Identity.$Properties|null);

                    /** Request stats */
                    stats?: (sandboxd.agent.v1.Stats.$Properties|null);

                    /** Request serviceConfigure */
                    serviceConfigure?: (sandboxd.agent.v1.ServiceConfigure.$Properties|null);

                    /** Request serviceControl */
                    serviceControl?: (sandboxd.agent.v1.ServiceControl.$Properties|null);

                    /** Request serviceOutput */
                    serviceOutput?: (sandboxd.agent.v1.ServiceOutput.$Properties|null);

                    /** Request filePush */
                    filePush?: (sandboxd.agent.v1.FilePush.$Properties|null);

                    /** Request filePull */
                    filePull?: (sandboxd.agent.v1.FilePull.$Properties|null);

                    /** Request dirPull */
                    dirPull?: (sandboxd.agent.v1.DirPull.$Properties|null);

                    /** Request fileCall */
                    fileCall?: (sandboxd.agent.v1.FileCall.$Properties|null);

                    /** Request fileRead */
                    fileRead?: (sandboxd.agent.v1.FileRead.$Properties|null);

                    /** Request fileWrite */
                    fileWrite?: (sandboxd.agent.v1.FileWrite.$Properties|null);

                    /** Request fileWatch */
                    fileWatch?: (sandboxd.agent.v1.FileWatch.$Properties|null);

                    /** Request growDisk */
                    growDisk?: (sandboxd.agent.v1.GrowDisk.$Properties|null);

                    /** Request setClock */
                    setClock?: (sandboxd.agent.v1.SetClock.$Properties|null);

                    /** Request freeze */
                    freeze?: (sandboxd.agent.v1.Freeze.$Properties|null);

                    /** Request commandList */
                    commandList?: (sandboxd.agent.v1.CommandList.$Properties|null);

                    /** Request commandCall */
                    commandCall?: (sandboxd.agent.v1.CommandCall.$Properties|null);

                    /** Request commandAttach */
                    commandAttach?: (sandboxd.agent.v1.CommandAttach.$Properties|null);

                    /** Request wake */
                    wake?: (sandboxd.agent.v1.Wake.$Properties|null);

                    /** Request portConnect */
                    portConnect?: (sandboxd.agent.v1.PortConnect.$Properties|null);

                    /** Request trust */
                    trust?: (sandboxd.agent.v1.Trust.$Properties|null);

                    /** Request call */
                    call?: ("exec"|"identity"|"stats"|"serviceConfigure"|"serviceControl"|"serviceOutput"|"filePush"|"filePull"|"dirPull"|"fileCall"|"fileRead"|"fileWrite"|"fileWatch"|"growDisk"|"setClock"|"freeze"|"commandList"|"commandCall"|"commandAttach"|"wake"|"portConnect"|"trust");

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Narrowed shape of a Request. */
                type $Shape = {
                  exec?: sandboxd.agent.v1.Exec.$Shape|null;
                  identity?: sandboxd.agent.v1.Identity.$Shape|null;
                  stats?: sandboxd.agent.v1.Stats.$Shape|null;
                  serviceConfigure?: sandboxd.agent.v1.ServiceConfigure.$Shape|null;
                  serviceControl?: sandboxd.agent.v1.ServiceControl.$Shape|null;
                  serviceOutput?: sandboxd.agent.v1.ServiceOutput.$Shape|null;
                  filePush?: sandboxd.agent.v1.FilePush.$Shape|null;
                  filePull?: sandboxd.agent.v1.FilePull.$Shape|null;
                  dirPull?: sandboxd.agent.v1.DirPull.$Shape|null;
                  fileCall?: sandboxd.agent.v1.FileCall.$Shape|null;
                  fileRead?: sandboxd.agent.v1.FileRead.$Shape|null;
                  fileWrite?: sandboxd.agent.v1.FileWrite.$Shape|null;
                  fileWatch?: sandboxd.agent.v1.FileWatch.$Shape|null;
                  growDisk?: sandboxd.agent.v1.GrowDisk.$Shape|null;
                  setClock?: sandboxd.agent.v1.SetClock.$Shape|null;
                  freeze?: sandboxd.agent.v1.Freeze.$Shape|null;
                  commandList?: sandboxd.agent.v1.CommandList.$Shape|null;
                  commandCall?: sandboxd.agent.v1.CommandCall.$Shape|null;
                  commandAttach?: sandboxd.agent.v1.CommandAttach.$Shape|null;
                  wake?: sandboxd.agent.v1.Wake.$Shape|null;
                  portConnect?: sandboxd.agent.v1.PortConnect.$Shape|null;
                  trust?: sandboxd.agent.v1.Trust.$Shape|null;
                  $unknowns?: Uint8Array[];
                } & (
                  ({ call?: undefined; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "exec"; exec: sandboxd.agent.v1.Exec.$Shape; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "identity"; exec?: null; identity: sandboxd.agent.v1.Identity.$Shape; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "stats"; exec?: null; identity?: null; stats: sandboxd.agent.v1.Stats.$Shape; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "serviceConfigure"; exec?: null; identity?: null; stats?: null; serviceConfigure: sandboxd.agent.v1.ServiceConfigure.$Shape; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "serviceControl"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl: sandboxd.agent.v1.ServiceControl.$Shape; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "serviceOutput"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput: sandboxd.agent.v1.ServiceOutput.$Shape; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "filePush"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush: sandboxd.agent.v1.FilePush.$Shape; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "filePull"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull: sandboxd.agent.v1.FilePull.$Shape; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "dirPull"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull: sandboxd.agent.v1.DirPull.$Shape; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "fileCall"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall: sandboxd.agent.v1.FileCall.$Shape; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "fileRead"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead: sandboxd.agent.v1.FileRead.$Shape; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "fileWrite"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite: sandboxd.agent.v1.FileWrite.$Shape; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "fileWatch"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch: sandboxd.agent.v1.FileWatch.$Shape; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "growDisk"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk: sandboxd.agent.v1.GrowDisk.$Shape; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "setClock"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock: sandboxd.agent.v1.SetClock.$Shape; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "freeze"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze: sandboxd.agent.v1.Freeze.$Shape; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "commandList"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList: sandboxd.agent.v1.CommandList.$Shape; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "commandCall"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall: sandboxd.agent.v1.CommandCall.$Shape; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "commandAttach"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach: sandboxd.agent.v1.CommandAttach.$Shape; wake?: null; portConnect?: null; trust?: null }|{ call?: "wake"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake: sandboxd.agent.v1.Wake.$Shape; portConnect?: null; trust?: null }|{ call?: "portConnect"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect: sandboxd.agent.v1.PortConnect.$Shape; trust?: null }|{ call?: "trust"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust: sandboxd.agent.v1.Trust.$Shape })
                );
            }

            /**
             * Properties of a Result.
             * @deprecated Use sandboxd.agent.v1.Result.$Properties instead.
             */
            interface IResult extends sandboxd.agent.v1.Result.$Properties {
            }

            /** Represents a Result. */
            class Result {

                /**
                 * Constructs a new Result.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Result.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** Result error. */
                error?: (sandboxd.agent.v1.Error.$Properties|null);

                /** Result exec. */
                exec?: (sandboxd.agent.v1.ExecResult.$Properties|null);

                /** Result identity. */
                identity?: (sandboxd.agent.v1.IdentityResult.$Properties|null);

                /** Result stats. */
                stats?: (sandboxd.agent.v1.StatsResult.$Properties|null);

                /** Result serviceStatus. */
                serviceStatus?: (sandboxd.agent.v1.ServiceStatus.$Properties|null);

                /** Result serviceOutput. */
                serviceOutput?: (sandboxd.agent.v1.ServiceOutputResult.$Properties|null);

                /** Result filePush. */
                filePush?: (sandboxd.agent.v1.FilePushResult.$Properties|null);

                /** Result filePull. */
                filePull?: (sandboxd.agent.v1.FilePullResult.$Properties|null);

                /** Result dirPull. */
                dirPull?: (sandboxd.agent.v1.DirPullResult.$Properties|null);

                /** Result fileCall. */
                fileCall?: (sandboxd.agent.v1.FileCallResult.$Properties|null);

                /** Result fileWatch. */
                fileWatch?: (sandboxd.agent.v1.FileWatchResult.$Properties|null);

                /** Result growDisk. */
                growDisk?: (sandboxd.agent.v1.GrowDiskResult.$Properties|null);

                /** Result setClock. */
                setClock?: (sandboxd.agent.v1.SetClockResult.$Properties|null);

                /** Result freeze. */
                freeze?: (sandboxd.agent.v1.FreezeResult.$Properties|null);

                /** Result commandList. */
                commandList?: (sandboxd.agent.v1.CommandListResult.$Properties|null);

                /** Result command. */
                command?: (sandboxd.agent.v1.CommandStatus.$Properties|null);

                /** Result commandAttach. */
                commandAttach?: (sandboxd.agent.v1.CommandAttachResult.$Properties|null);

                /** Result wake. */
                wake?: (sandboxd.agent.v1.WakeResult.$Properties|null);

                /** Result portConnect. */
                portConnect?: (sandboxd.agent.v1.PortConnectResult.$Properties|null);

                /** Result trust. */
                trust?: (sandboxd.agent.v1.TrustResult.$Properties|null);

                /** Result value. */
                value?: ("exec"|"identity"|"stats"|"serviceStatus"|"serviceOutput"|"filePush"|"filePull"|"dirPull"|"fileCall"|"fileWatch"|"growDisk"|"setClock"|"freeze"|"commandList"|"command"|"commandAttach"|"wake"|"portConnect"|"trust");

                /**
                 * Creates a new Result instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Result instance
                 */
                static create(properties: sandboxd.agent.v1.Result.$Shape): sandboxd.agent.v1.Result & sandboxd.agent.v1.Result.$Shape;
                static create(properties?: sandboxd.agent.v1.Result.$Properties): sandboxd.agent.v1.Result;

                /**
                 * Encodes the specified Result message. Does not implicitly {@link sandboxd.agent.v1.Result.verify|verify} messages.
                 * @param message Result message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Result.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a Result message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Result & sandboxd.agent.v1.Result.$Shape} Result
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Result & sandboxd.agent.v1.Result.$Shape;
            }

            namespace Result {

                /** Properties of a Result. */
                interface $Properties {

                    /** Result error */
                    error?: (sandboxd.agent.v1.Error.$Properties|null);

                    /** Result exec */
                    exec?: (sandboxd.agent.v1.ExecResult.$Properties|null);

                    /** Result identity */
                    identity?: (sandboxd.agent.v1.IdentityResult.$Properties|null);

                    /** Result stats */
                    stats?: (sandboxd.agent.v1.StatsResult.$Properties|null);

                    /** Result serviceStatus */
                    serviceStatus?: (sandboxd.agent.v1.ServiceStatus.$Properties|null);

                    /** Result serviceOutput */
                    serviceOutput?: (sandboxd.agent.v1.ServiceOutputResult.$Properties|null);

                    /** Result filePush */
                    filePush?: (sandboxd.agent.v1.FilePushResult.$Properties|null);

                    /** Result filePull */
                    filePull?: (sandboxd.agent.v1.FilePullResult.$Properties|null);

                    /** Result dirPull */
                    dirPull?: (sandboxd.agent.v1.DirPullResult.$Properties|null);

                    /** Result fileCall */
                    fileCall?: (sandboxd.agent.v1.FileCallResult.$Properties|null);

                    /** Result fileWatch */
                    fileWatch?: (sandboxd.agent.v1.FileWatchResult.$Properties|null);

                    /** Result growDisk */
                    growDisk?: (sandboxd.agent.v1.GrowDiskResult.$Properties|null);

                    /** Result setClock */
                    setClock?: (sandboxd.agent.v1.SetClockResult.$Properties|null);

                    /** Result freeze */
                    freeze?: (sandboxd.agent.v1.FreezeResult.$Properties|null);

                    /** Result commandList */
                    commandList?: (sandboxd.agent.v1.CommandListResult.$Properties|null);

                    /** Result command */
                    command?: (sandboxd.agent.v1.CommandStatus.$Properties|null);

                    /** Result commandAttach */
                    commandAttach?: (sandboxd.agent.v1.CommandAttachResult.$Properties|null);

                    /** Result wake */
                    wake?: (sandboxd.agent.v1.WakeResult.$Properties|null);

                    /** Result portConnect */
                    portConnect?: (sandboxd.agent.v1.PortConnectResult.$Properties|null);

                    /** Result trust */
                    trust?: (sandboxd.agent.v1.TrustResult.$Properties|null);

                    /** Result value */
                    value?: ("exec"|"identity"|"stats"|"serviceStatus"|"serviceOutput"|"filePush"|"filePull"|"dirPull"|"fileCall"|"fileWatch"|"growDisk"|"setClock"|"freeze"|"commandList"|"command"|"commandAttach"|"wake"|"portConnect"|"trust");

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Narrowed shape of a Result. */
                type $Shape = {
                  error?: sandboxd.agent.v1.Error.$Shape|null;
                  exec?: sandboxd.agent.v1.ExecResult.$Shape|null;
                  identity?: sandboxd.agent.v1.IdentityResult.$Shape|null;
                  stats?: sandboxd.agent.v1.StatsResult.$Shape|null;
                  serviceStatus?: sandboxd.agent.v1.ServiceStatus.$Shape|null;
                  serviceOutput?: sandboxd.agent.v1.ServiceOutputResult.$Shape|null;
                  filePush?: sandboxd.agent.v1.FilePushResult.$Shape|null;
                  filePull?: sandboxd.agent.v1.FilePullResult.$Shape|null;
                  dirPull?: sandboxd.agent.v1.DirPullResult.$Shape|null;
                  fileCall?: sandboxd.agent.v1.FileCallResult.$Shape|null;
                  fileWatch?: sandboxd.agent.v1.FileWatchResult.$Shape|null;
                  growDisk?: sandboxd.agent.v1.GrowDiskResult.$Shape|null;
                  setClock?: sandboxd.agent.v1.SetClockResult.$Shape|null;
                  freeze?: sandboxd.agent.v1.FreezeResult.$Shape|null;
                  commandList?: sandboxd.agent.v1.CommandListResult.$Shape|null;
                  command?: sandboxd.agent.v1.CommandStatus.$Shape|null;
                  commandAttach?: sandboxd.agent.v1.CommandAttachResult.$Shape|null;
                  wake?: sandboxd.agent.v1.WakeResult.$Shape|null;
                  portConnect?: sandboxd.agent.v1.PortConnectResult.$Shape|null;
                  trust?: sandboxd.agent.v1.TrustResult.$Shape|null;
                  $unknowns?: Uint8Array[];
                } & (
                  ({ value?: undefined; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "exec"; exec: sandboxd.agent.v1.ExecResult.$Shape; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "identity"; exec?: null; identity: sandboxd.agent.v1.IdentityResult.$Shape; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "stats"; exec?: null; identity?: null; stats: sandboxd.agent.v1.StatsResult.$Shape; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "serviceStatus"; exec?: null; identity?: null; stats?: null; serviceStatus: sandboxd.agent.v1.ServiceStatus.$Shape; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "serviceOutput"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput: sandboxd.agent.v1.ServiceOutputResult.$Shape; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "filePush"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush: sandboxd.agent.v1.FilePushResult.$Shape; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "filePull"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull: sandboxd.agent.v1.FilePullResult.$Shape; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "dirPull"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull: sandboxd.agent.v1.DirPullResult.$Shape; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "fileCall"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall: sandboxd.agent.v1.FileCallResult.$Shape; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "fileWatch"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch: sandboxd.agent.v1.FileWatchResult.$Shape; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "growDisk"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk: sandboxd.agent.v1.GrowDiskResult.$Shape; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "setClock"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock: sandboxd.agent.v1.SetClockResult.$Shape; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "freeze"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze: sandboxd.agent.v1.FreezeResult.$Shape; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "commandList"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList: sandboxd.agent.v1.CommandListResult.$Shape; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "command"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command: sandboxd.agent.v1.CommandStatus.$Shape; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "commandAttach"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach: sandboxd.agent.v1.CommandAttachResult.$Shape; wake?: null; portConnect?: null; trust?: null }|{ value?: "wake"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake: sandboxd.agent.v1.WakeResult.$Shape; portConnect?: null; trust?: null }|{ value?: "portConnect"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect: sandboxd.agent.v1.PortConnectResult.$Shape; trust?: null }|{ value?: "trust"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust: sandboxd.agent.v1.TrustResult.$Shape })
                );
            }

            /**
             * Properties of an Error.
             * @deprecated Use sandboxd.agent.v1.Error.$Properties instead.
             */
            interface IError extends sandboxd.agent.v1.Error.$Properties {
            }

            /** Represents an Error. */
            class Error {

                /**
                 * Constructs a new Error.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Error.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** Error code. */
                code: string;

                /** Error message. */
                message: string;

                /**
                 * Creates a new Error instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Error instance
                 */
                static create(properties: sandboxd.agent.v1.Error.$Shape): sandboxd.agent.v1.Error & sandboxd.agent.v1.Error.$Shape;
                static create(properties?: sandboxd.agent.v1.Error.$Properties): sandboxd.agent.v1.Error;

                /**
                 * Encodes the specified Error message. Does not implicitly {@link sandboxd.agent.v1.Error.verify|verify} messages.
                 * @param message Error message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Error.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes an Error message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Error & sandboxd.agent.v1.Error.$Shape} Error
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Error & sandboxd.agent.v1.Error.$Shape;
            }

            namespace Error {

                /** Properties of an Error. */
                interface $Properties {

                    /** Error code */
                    code?: (string|null);

                    /** Error message */
                    message?: (string|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of an Error. */
                type $Shape = sandboxd.agent.v1.Error.$Properties;
            }

            /**
             * Properties of a Started.
             * @deprecated Use sandboxd.agent.v1.Started.$Properties instead.
             */
            interface IStarted extends sandboxd.agent.v1.Started.$Properties {
            }

            /** Represents a Started. */
            class Started {

                /**
                 * Constructs a new Started.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Started.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** Started pid. */
                pid: number;

                /** Started file. */
                file?: (sandboxd.agent.v1.FileInfo.$Properties|null);

                /**
                 * Creates a new Started instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Started instance
                 */
                static create(properties: sandboxd.agent.v1.Started.$Shape): sandboxd.agent.v1.Started & sandboxd.agent.v1.Started.$Shape;
                static create(properties?: sandboxd.agent.v1.Started.$Properties): sandboxd.agent.v1.Started;

                /**
                 * Encodes the specified Started message. Does not implicitly {@link sandboxd.agent.v1.Started.verify|verify} messages.
                 * @param message Started message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Started.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a Started message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Started & sandboxd.agent.v1.Started.$Shape} Started
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Started & sandboxd.agent.v1.Started.$Shape;
            }

            namespace Started {

                /** Properties of a Started. */
                interface $Properties {

                    /** Started pid */
                    pid?: (number|null);

                    /** Started file */
                    file?: (sandboxd.agent.v1.FileInfo.$Properties|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a Started. */
                type $Shape = sandboxd.agent.v1.Started.$Properties;
            }

            /**
             * Properties of an Exec.
             * @deprecated Use sandboxd.agent.v1.Exec.$Properties instead.
             */
            interface IExec extends sandboxd.agent.v1.Exec.$Properties {
            }

            /** Represents an Exec. */
            class Exec {

                /**
                 * Constructs a new Exec.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Exec.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** Exec cmd. */
                cmd: string[];

                /** Exec env. */
                env: string[];

                /** Exec cwd. */
                cwd: string;

                /** Exec user. */
                user: string;

                /** Exec timeoutMs. */
                timeoutMs: number;

                /** Exec stdin. */
                stdin: boolean;

                /** Exec tty. */
                tty?: (sandboxd.agent.v1.TtySize.$Properties|null);

                /** Exec id. */
                id: string;

                /** Exec detach. */
                detach: boolean;

                /** Exec outputBufferBytes. */
                outputBufferBytes: number;

                /**
                 * Creates a new Exec instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Exec instance
                 */
                static create(properties: sandboxd.agent.v1.Exec.$Shape): sandboxd.agent.v1.Exec & sandboxd.agent.v1.Exec.$Shape;
                static create(properties?: sandboxd.agent.v1.Exec.$Properties): sandboxd.agent.v1.Exec;

                /**
                 * Encodes the specified Exec message. Does not implicitly {@link sandboxd.agent.v1.Exec.verify|verify} messages.
                 * @param message Exec message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Exec.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes an Exec message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Exec & sandboxd.agent.v1.Exec.$Shape} Exec
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Exec & sandboxd.agent.v1.Exec.$Shape;
            }

            namespace Exec {

                /** Properties of an Exec. */
                interface $Properties {

                    /** Exec cmd */
                    cmd?: (string[]|null);

                    /** Exec env */
                    env?: (string[]|null);

                    /** Exec cwd */
                    cwd?: (string|null);

                    /** Exec user */
                    user?: (string|null);

                    /** Exec timeoutMs */
                    timeoutMs?: (number|null);

                    /** Exec stdin */
                    stdin?: (boolean|null);

                    /** Exec tty */
                    tty?: (sandboxd.agent.v1.TtySize.$Properties|null);

                    /** Exec id */
                    id?: (string|null);

                    /** Exec detach */
                    detach?: (boolean|null);

                    /** Exec outputBufferBytes */
                    outputBufferBytes?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of an Exec. */
                type $Shape = sandboxd.agent.v1.Exec.$Properties;
            }

            /**
             * Properties of an ExecResult.
             * @deprecated Use sandboxd.agent.v1.ExecResult.$Properties instead.
             */
            interface IExecResult extends sandboxd.agent.v1.ExecResult.$Properties {
            }

            /** Represents an ExecResult. */
            class ExecResult {

                /**
                 * Constructs a new ExecResult.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.ExecResult.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** ExecResult exitCode. */
                exitCode: number;

                /** ExecResult durationUs. */
                durationUs: number;

                /** ExecResult signal. */
                signal: string;

                /** ExecResult timedOut. */
                timedOut: boolean;

                /** ExecResult oomKilled. */
                oomKilled: boolean;

                /** ExecResult error. */
                error: string;

                /** ExecResult usage. */
                usage?: (sandboxd.agent.v1.ResourceUsage.$Properties|null);

                /** ExecResult agentUs. */
                agentUs: number;

                /**
                 * Creates a new ExecResult instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns ExecResult instance
                 */
                static create(properties: sandboxd.agent.v1.ExecResult.$Shape): sandboxd.agent.v1.ExecResult & sandboxd.agent.v1.ExecResult.$Shape;
                static create(properties?: sandboxd.agent.v1.ExecResult.$Properties): sandboxd.agent.v1.ExecResult;

                /**
                 * Encodes the specified ExecResult message. Does not implicitly {@link sandboxd.agent.v1.ExecResult.verify|verify} messages.
                 * @param message ExecResult message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.ExecResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes an ExecResult message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ExecResult & sandboxd.agent.v1.ExecResult.$Shape} ExecResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.ExecResult & sandboxd.agent.v1.ExecResult.$Shape;
            }

            namespace ExecResult {

                /** Properties of an ExecResult. */
                interface $Properties {

                    /** ExecResult exitCode */
                    exitCode?: (number|null);

                    /** ExecResult durationUs */
                    durationUs?: (number|null);

                    /** ExecResult signal */
                    signal?: (string|null);

                    /** ExecResult timedOut */
                    timedOut?: (boolean|null);

                    /** ExecResult oomKilled */
                    oomKilled?: (boolean|null);

                    /** ExecResult error */
                    error?: (string|null);

                    /** ExecResult usage */
                    usage?: (sandboxd.agent.v1.ResourceUsage.$Properties|null);

                    /** ExecResult agentUs */
                    agentUs?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of an ExecResult. */
                type $Shape = sandboxd.agent.v1.ExecResult.$Properties;
            }

            /**
             * Properties of a ResourceUsage.
             * @deprecated Use sandboxd.agent.v1.ResourceUsage.$Properties instead.
             */
            interface IResourceUsage extends sandboxd.agent.v1.ResourceUsage.$Properties {
            }

            /** Represents a ResourceUsage. */
            class ResourceUsage {

                /**
                 * Constructs a new ResourceUsage.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.ResourceUsage.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** ResourceUsage cpuUserUs. */
                cpuUserUs: number;

                /** ResourceUsage cpuSysUs. */
                cpuSysUs: number;

                /** ResourceUsage peakMemoryBytes. */
                peakMemoryBytes: number;

                /** ResourceUsage pageFaultsMajor. */
                pageFaultsMajor: number;

                /** ResourceUsage contextSwitchesInvoluntary. */
                contextSwitchesInvoluntary: number;

                /** ResourceUsage ioReadBytes. */
                ioReadBytes: number;

                /** ResourceUsage ioWriteBytes. */
                ioWriteBytes: number;

                /**
                 * Creates a new ResourceUsage instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns ResourceUsage instance
                 */
                static create(properties: sandboxd.agent.v1.ResourceUsage.$Shape): sandboxd.agent.v1.ResourceUsage & sandboxd.agent.v1.ResourceUsage.$Shape;
                static create(properties?: sandboxd.agent.v1.ResourceUsage.$Properties): sandboxd.agent.v1.ResourceUsage;

                /**
                 * Encodes the specified ResourceUsage message. Does not implicitly {@link sandboxd.agent.v1.ResourceUsage.verify|verify} messages.
                 * @param message ResourceUsage message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.ResourceUsage.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a ResourceUsage message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ResourceUsage & sandboxd.agent.v1.ResourceUsage.$Shape} ResourceUsage
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.ResourceUsage & sandboxd.agent.v1.ResourceUsage.$Shape;
            }

            namespace ResourceUsage {

                /** Properties of a ResourceUsage. */
                interface $Properties {

                    /** ResourceUsage cpuUserUs */
                    cpuUserUs?: (number|null);

                    /** ResourceUsage cpuSysUs */
                    cpuSysUs?: (number|null);

                    /** ResourceUsage peakMemoryBytes */
                    peakMemoryBytes?: (number|null);

                    /** ResourceUsage pageFaultsMajor */
                    pageFaultsMajor?: (number|null);

                    /** ResourceUsage contextSwitchesInvoluntary */
                    contextSwitchesInvoluntary?: (number|null);

                    /** ResourceUsage ioReadBytes */
                    ioReadBytes?: (number|null);

                    /** ResourceUsage ioWriteBytes */
                    ioWriteBytes?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a ResourceUsage. */
                type $Shape = sandboxd.agent.v1.ResourceUsage.$Properties;
            }

            /**
             * Properties of a CommandStatus.
             * @deprecated Use sandboxd.agent.v1.CommandStatus.$Properties instead.
             */
            interface ICommandStatus extends sandboxd.agent.v1.CommandStatus.$Properties {
            }

            /** Represents a CommandStatus. */
            class CommandStatus {

                /**
                 * Constructs a new CommandStatus.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.CommandStatus.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** CommandStatus id. */
                id: string;

                /** CommandStatus cmd. */
                cmd: string[];

                /** CommandStatus cmdTruncated. */
                cmdTruncated: boolean;

                /** CommandStatus pid. */
                pid: number;

                /** CommandStatus detached. */
                detached: boolean;

                /** CommandStatus stdin. */
                stdin: boolean;

                /** CommandStatus tty. */
                tty?: (sandboxd.agent.v1.TtySize.$Properties|null);

                /** CommandStatus startedUnixMs. */
                startedUnixMs: number;

                /** CommandStatus result. */
                result?: (sandboxd.agent.v1.ExecResult.$Properties|null);

                /** CommandStatus endedUnixMs. */
                endedUnixMs: number;

                /** CommandStatus output. */
                output?: (sandboxd.agent.v1.OutputRing.$Properties|null);

                /**
                 * Creates a new CommandStatus instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns CommandStatus instance
                 */
                static create(properties: sandboxd.agent.v1.CommandStatus.$Shape): sandboxd.agent.v1.CommandStatus & sandboxd.agent.v1.CommandStatus.$Shape;
                static create(properties?: sandboxd.agent.v1.CommandStatus.$Properties): sandboxd.agent.v1.CommandStatus;

                /**
                 * Encodes the specified CommandStatus message. Does not implicitly {@link sandboxd.agent.v1.CommandStatus.verify|verify} messages.
                 * @param message CommandStatus message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.CommandStatus.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a CommandStatus message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.CommandStatus & sandboxd.agent.v1.CommandStatus.$Shape} CommandStatus
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.CommandStatus & sandboxd.agent.v1.CommandStatus.$Shape;
            }

            namespace CommandStatus {

                /** Properties of a CommandStatus. */
                interface $Properties {

                    /** CommandStatus id */
                    id?: (string|null);

                    /** CommandStatus cmd */
                    cmd?: (string[]|null);

                    /** CommandStatus cmdTruncated */
                    cmdTruncated?: (boolean|null);

                    /** CommandStatus pid */
                    pid?: (number|null);

                    /** CommandStatus detached */
                    detached?: (boolean|null);

                    /** CommandStatus stdin */
                    stdin?: (boolean|null);

                    /** CommandStatus tty */
                    tty?: (sandboxd.agent.v1.TtySize.$Properties|null);

                    /** CommandStatus startedUnixMs */
                    startedUnixMs?: (number|null);

                    /** CommandStatus result */
                    result?: (sandboxd.agent.v1.ExecResult.$Properties|null);

                    /** CommandStatus endedUnixMs */
                    endedUnixMs?: (number|null);

                    /** CommandStatus output */
                    output?: (sandboxd.agent.v1.OutputRing.$Properties|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a CommandStatus. */
                type $Shape = sandboxd.agent.v1.CommandStatus.$Properties;
            }

            /**
             * Properties of an OutputRing.
             * @deprecated Use sandboxd.agent.v1.OutputRing.$Properties instead.
             */
            interface IOutputRing extends sandboxd.agent.v1.OutputRing.$Properties {
            }

            /** Represents an OutputRing. */
            class OutputRing {

                /**
                 * Constructs a new OutputRing.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.OutputRing.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** OutputRing firstSeq. */
                firstSeq: number;

                /** OutputRing nextSeq. */
                nextSeq: number;

                /** OutputRing droppedBytes. */
                droppedBytes: number;

                /**
                 * Creates a new OutputRing instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns OutputRing instance
                 */
                static create(properties: sandboxd.agent.v1.OutputRing.$Shape): sandboxd.agent.v1.OutputRing & sandboxd.agent.v1.OutputRing.$Shape;
                static create(properties?: sandboxd.agent.v1.OutputRing.$Properties): sandboxd.agent.v1.OutputRing;

                /**
                 * Encodes the specified OutputRing message. Does not implicitly {@link sandboxd.agent.v1.OutputRing.verify|verify} messages.
                 * @param message OutputRing message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.OutputRing.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes an OutputRing message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.OutputRing & sandboxd.agent.v1.OutputRing.$Shape} OutputRing
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.OutputRing & sandboxd.agent.v1.OutputRing.$Shape;
            }

            namespace OutputRing {

                /** Properties of an OutputRing. */
                interface $Properties {

                    /** OutputRing firstSeq */
                    firstSeq?: (number|null);

                    /** OutputRing nextSeq */
                    nextSeq?: (number|null);

                    /** OutputRing droppedBytes */
                    droppedBytes?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of an OutputRing. */
                type $Shape = sandboxd.agent.v1.OutputRing.$Properties;
            }

            /**
             * Properties of a CommandList.
             * @deprecated Use sandboxd.agent.v1.CommandList.$Properties instead.
             */
            interface ICommandList extends sandboxd.agent.v1.CommandList.$Properties {
            }

            /** Represents a CommandList. */
            class CommandList {

                /**
                 * Constructs a new CommandList.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.CommandList.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /**
                 * Creates a new CommandList instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns CommandList instance
                 */
                static create(properties: sandboxd.agent.v1.CommandList.$Shape): sandboxd.agent.v1.CommandList & sandboxd.agent.v1.CommandList.$Shape;
                static create(properties?: sandboxd.agent.v1.CommandList.$Properties): sandboxd.agent.v1.CommandList;

                /**
                 * Encodes the specified CommandList message. Does not implicitly {@link sandboxd.agent.v1.CommandList.verify|verify} messages.
                 * @param message CommandList message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.CommandList.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a CommandList message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.CommandList & sandboxd.agent.v1.CommandList.$Shape} CommandList
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.CommandList & sandboxd.agent.v1.CommandList.$Shape;
            }

            namespace CommandList {

                /** Properties of a CommandList. */
                interface $Properties {

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a CommandList. */
                type $Shape = sandboxd.agent.v1.CommandList.$Properties;
            }

            /**
             * Properties of a CommandListResult.
             * @deprecated Use sandboxd.agent.v1.CommandListResult.$Properties instead.
             */
            interface ICommandListResult extends sandboxd.agent.v1.CommandListResult.$Properties {
            }

            /** Represents a CommandListResult. */
            class CommandListResult {

                /**
                 * Constructs a new CommandListResult.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.CommandListResult.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** CommandListResult commands. */
                commands: Uint8Array;

                /**
                 * Creates a new CommandListResult instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns CommandListResult instance
                 */
                static create(properties: sandboxd.agent.v1.CommandListResult.$Shape): sandboxd.agent.v1.CommandListResult & sandboxd.agent.v1.CommandListResult.$Shape;
                static create(properties?: sandboxd.agent.v1.CommandListResult.$Properties): sandboxd.agent.v1.CommandListResult;

                /**
                 * Encodes the specified CommandListResult message. Does not implicitly {@link sandboxd.agent.v1.CommandListResult.verify|verify} messages.
                 * @param message CommandListResult message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.CommandListResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a CommandListResult message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.CommandListResult & sandboxd.agent.v1.CommandListResult.$Shape} CommandListResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.CommandListResult & sandboxd.agent.v1.CommandListResult.$Shape;
            }

            namespace CommandListResult {

                /** Properties of a CommandListResult. */
                interface $Properties {

                    /** CommandListResult commands */
                    commands?: (Uint8Array|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a CommandListResult. */
                type $Shape = sandboxd.agent.v1.CommandListResult.$Properties;
            }

            /**
             * Properties of a CommandCall.
             * @deprecated Use sandboxd.agent.v1.CommandCall.$Properties instead.
             */
            interface ICommandCall extends sandboxd.agent.v1.CommandCall.$Properties {
            }

            /** Represents a CommandCall. */
            class CommandCall {

                /**
                 * Constructs a new CommandCall.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.CommandCall.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** CommandCall id. */
                id: string;

                /** CommandCall wait. */
                wait?: (sandboxd.agent.v1.CommandWait.$Properties|null);

                /** CommandCall signal. */
                signal?: (sandboxd.agent.v1.Signal.$Properties|null);

                /** CommandCall resize. */
                resize?: (sandboxd.agent.v1.TtySize.$Properties|null);

                /** CommandCall kill. */
                kill?: (sandboxd.agent.v1.CommandKill.$Properties|null);

                /** CommandCall action. */
                action?: ("wait"|"signal"|"resize"|"kill");

                /**
                 * Creates a new CommandCall instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns CommandCall instance
                 */
                static create(properties: sandboxd.agent.v1.CommandCall.$Shape): sandboxd.agent.v1.CommandCall & sandboxd.agent.v1.CommandCall.$Shape;
                static create(properties?: sandboxd.agent.v1.CommandCall.$Properties): sandboxd.agent.v1.CommandCall;

                /**
                 * Encodes the specified CommandCall message. Does not implicitly {@link sandboxd.agent.v1.CommandCall.verify|verify} messages.
                 * @param message CommandCall message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.CommandCall.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a CommandCall message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.CommandCall & sandboxd.agent.v1.CommandCall.$Shape} CommandCall
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.CommandCall & sandboxd.agent.v1.CommandCall.$Shape;
            }

            namespace CommandCall {

                /** Properties of a CommandCall. */
                interface $Properties {

                    /** CommandCall id */
                    id?: (string|null);

                    /** CommandCall wait */
                    wait?: (sandboxd.agent.v1.CommandWait.$Properties|null);

                    /** CommandCall signal */
                    signal?: (sandboxd.agent.v1.Signal.$Properties|null);

                    /** CommandCall resize */
                    resize?: (sandboxd.agent.v1.TtySize.$Properties|null);

                    /** CommandCall kill */
                    kill?: (sandboxd.agent.v1.CommandKill.$Properties|null);

                    /** CommandCall action */
                    action?: ("wait"|"signal"|"resize"|"kill");

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Narrowed shape of a CommandCall. */
                type $Shape = {
                  id?: string|null;
                  wait?: sandboxd.agent.v1.CommandWait.$Shape|null;
                  signal?: sandboxd.agent.v1.Signal.$Shape|null;
                  resize?: sandboxd.agent.v1.TtySize.$Shape|null;
                  kill?: sandboxd.agent.v1.CommandKill.$Shape|null;
                  $unknowns?: Uint8Array[];
                } & (
                  ({ action?: undefined; wait?: null; signal?: null; resize?: null; kill?: null }|{ action?: "wait"; wait: sandboxd.agent.v1.CommandWait.$Shape; signal?: null; resize?: null; kill?: null }|{ action?: "signal"; wait?: null; signal: sandboxd.agent.v1.Signal.$Shape; resize?: null; kill?: null }|{ action?: "resize"; wait?: null; signal?: null; resize: sandboxd.agent.v1.TtySize.$Shape; kill?: null }|{ action?: "kill"; wait?: null; signal?: null; resize?: null; kill: sandboxd.agent.v1.CommandKill.$Shape })
                );
            }

            /**
             * Properties of a CommandWait.
             * @deprecated Use sandboxd.agent.v1.CommandWait.$Properties instead.
             */
            interface ICommandWait extends sandboxd.agent.v1.CommandWait.$Properties {
            }

            /** Represents a CommandWait. */
            class CommandWait {

                /**
                 * Constructs a new CommandWait.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.CommandWait.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /**
                 * Creates a new CommandWait instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns CommandWait instance
                 */
                static create(properties: sandboxd.agent.v1.CommandWait.$Shape): sandboxd.agent.v1.CommandWait & sandboxd.agent.v1.CommandWait.$Shape;
                static create(properties?: sandboxd.agent.v1.CommandWait.$Properties): sandboxd.agent.v1.CommandWait;

                /**
                 * Encodes the specified CommandWait message. Does not implicitly {@link sandboxd.agent.v1.CommandWait.verify|verify} messages.
                 * @param message CommandWait message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.CommandWait.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a CommandWait message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.CommandWait & sandboxd.agent.v1.CommandWait.$Shape} CommandWait
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.CommandWait & sandboxd.agent.v1.CommandWait.$Shape;
            }

            namespace CommandWait {

                /** Properties of a CommandWait. */
                interface $Properties {

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a CommandWait. */
                type $Shape = sandboxd.agent.v1.CommandWait.$Properties;
            }

            /**
             * Properties of a CommandKill.
             * @deprecated Use sandboxd.agent.v1.CommandKill.$Properties instead.
             */
            interface ICommandKill extends sandboxd.agent.v1.CommandKill.$Properties {
            }

            /** Represents a CommandKill. */
            class CommandKill {

                /**
                 * Constructs a new CommandKill.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.CommandKill.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** CommandKill graceMs. */
                graceMs: number;

                /**
                 * Creates a new CommandKill instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns CommandKill instance
                 */
                static create(properties: sandboxd.agent.v1.CommandKill.$Shape): sandboxd.agent.v1.CommandKill & sandboxd.agent.v1.CommandKill.$Shape;
                static create(properties?: sandboxd.agent.v1.CommandKill.$Properties): sandboxd.agent.v1.CommandKill;

                /**
                 * Encodes the specified CommandKill message. Does not implicitly {@link sandboxd.agent.v1.CommandKill.verify|verify} messages.
                 * @param message CommandKill message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.CommandKill.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a CommandKill message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.CommandKill & sandboxd.agent.v1.CommandKill.$Shape} CommandKill
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.CommandKill & sandboxd.agent.v1.CommandKill.$Shape;
            }

            namespace CommandKill {

                /** Properties of a CommandKill. */
                interface $Properties {

                    /** CommandKill graceMs */
                    graceMs?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a CommandKill. */
                type $Shape = sandboxd.agent.v1.CommandKill.$Properties;
            }

            /**
             * Properties of a CommandAttach.
             * @deprecated Use sandboxd.agent.v1.CommandAttach.$Properties instead.
             */
            interface ICommandAttach extends sandboxd.agent.v1.CommandAttach.$Properties {
            }

            /** Represents a CommandAttach. */
            class CommandAttach {

                /**
                 * Constructs a new CommandAttach.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.CommandAttach.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** CommandAttach id. */
                id: string;

                /** CommandAttach fromSeq. */
                fromSeq: number;

                /** CommandAttach follow. */
                follow: boolean;

                /** CommandAttach noOutput. */
                noOutput: boolean;

                /** CommandAttach input. */
                input: sandboxd.agent.v1.CommandInput;

                /** CommandAttach closesInput. */
                closesInput: boolean;

                /**
                 * Creates a new CommandAttach instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns CommandAttach instance
                 */
                static create(properties: sandboxd.agent.v1.CommandAttach.$Shape): sandboxd.agent.v1.CommandAttach & sandboxd.agent.v1.CommandAttach.$Shape;
                static create(properties?: sandboxd.agent.v1.CommandAttach.$Properties): sandboxd.agent.v1.CommandAttach;

                /**
                 * Encodes the specified CommandAttach message. Does not implicitly {@link sandboxd.agent.v1.CommandAttach.verify|verify} messages.
                 * @param message CommandAttach message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.CommandAttach.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a CommandAttach message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.CommandAttach & sandboxd.agent.v1.CommandAttach.$Shape} CommandAttach
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.CommandAttach & sandboxd.agent.v1.CommandAttach.$Shape;
            }

            namespace CommandAttach {

                /** Properties of a CommandAttach. */
                interface $Properties {

                    /** CommandAttach id */
                    id?: (string|null);

                    /** CommandAttach fromSeq */
                    fromSeq?: (number|null);

                    /** CommandAttach follow */
                    follow?: (boolean|null);

                    /** CommandAttach noOutput */
                    noOutput?: (boolean|null);

                    /** CommandAttach input */
                    input?: (sandboxd.agent.v1.CommandInput|null);

                    /** CommandAttach closesInput */
                    closesInput?: (boolean|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a CommandAttach. */
                type $Shape = sandboxd.agent.v1.CommandAttach.$Properties;
            }

            /** CommandInput enum. */
            enum CommandInput {

                /** COMMAND_INPUT_NONE value */
                COMMAND_INPUT_NONE = 0,

                /** COMMAND_INPUT_WRITE value */
                COMMAND_INPUT_WRITE = 1,

                /** COMMAND_INPUT_TAKE value */
                COMMAND_INPUT_TAKE = 2
            }

            /**
             * Properties of a CommandAttachResult.
             * @deprecated Use sandboxd.agent.v1.CommandAttachResult.$Properties instead.
             */
            interface ICommandAttachResult extends sandboxd.agent.v1.CommandAttachResult.$Properties {
            }

            /** Represents a CommandAttachResult. */
            class CommandAttachResult {

                /**
                 * Constructs a new CommandAttachResult.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.CommandAttachResult.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** CommandAttachResult nextSeq. */
                nextSeq: number;

                /** CommandAttachResult status. */
                status?: (sandboxd.agent.v1.CommandStatus.$Properties|null);

                /**
                 * Creates a new CommandAttachResult instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns CommandAttachResult instance
                 */
                static create(properties: sandboxd.agent.v1.CommandAttachResult.$Shape): sandboxd.agent.v1.CommandAttachResult & sandboxd.agent.v1.CommandAttachResult.$Shape;
                static create(properties?: sandboxd.agent.v1.CommandAttachResult.$Properties): sandboxd.agent.v1.CommandAttachResult;

                /**
                 * Encodes the specified CommandAttachResult message. Does not implicitly {@link sandboxd.agent.v1.CommandAttachResult.verify|verify} messages.
                 * @param message CommandAttachResult message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.CommandAttachResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a CommandAttachResult message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.CommandAttachResult & sandboxd.agent.v1.CommandAttachResult.$Shape} CommandAttachResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.CommandAttachResult & sandboxd.agent.v1.CommandAttachResult.$Shape;
            }

            namespace CommandAttachResult {

                /** Properties of a CommandAttachResult. */
                interface $Properties {

                    /** CommandAttachResult nextSeq */
                    nextSeq?: (number|null);

                    /** CommandAttachResult status */
                    status?: (sandboxd.agent.v1.CommandStatus.$Properties|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a CommandAttachResult. */
                type $Shape = sandboxd.agent.v1.CommandAttachResult.$Properties;
            }

            /**
             * Properties of an Identity.
             * @deprecated Use sandboxd.agent.v1.Identity.$Properties instead.
             */
            interface IIdentity extends sandboxd.agent.v1.Identity.$Properties {
            }

            /** Represents an Identity. */
            class Identity {

                /**
                 * Constructs a new Identity.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Identity.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** Identity sandboxId. */
                sandboxId: string;

                /** Identity hostname. */
                hostname: string;

                /** Identity machineId. */
                machineId: string;

                /** Identity entropy. */
                entropy: Uint8Array;

                /** Identity unixTimeUs. */
                unixTimeUs: number;

                /** Identity network. */
                network?: (sandboxd.agent.v1.Network.$Properties|null);

                /** Identity entersRoot. */
                entersRoot: boolean;

                /** Identity pidsLimit. */
                pidsLimit: number;

                /** Identity trust. */
                trust?: (sandboxd.agent.v1.Trust.$Properties|null);

                /** Identity environment. */
                environment: string[];

                /**
                 * Creates a new Identity instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Identity instance
                 */
                static create(properties: sandboxd.agent.v1.Identity.$Shape): sandboxd.agent.v1.Identity & sandboxd.agent.v1.Identity.$Shape;
                static create(properties?: sandboxd.agent.v1.Identity.$Properties): sandboxd.agent.v1.Identity;

                /**
                 * Encodes the specified Identity message. Does not implicitly {@link sandboxd.agent.v1.Identity.verify|verify} messages.
                 * @param message Identity message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Identity.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes an Identity message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Identity & sandboxd.agent.v1.Identity.$Shape} Identity
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Identity & sandboxd.agent.v1.Identity.$Shape;
            }

            namespace Identity {

                /** Properties of an Identity. */
                interface $Properties {

                    /** Identity sandboxId */
                    sandboxId?: (string|null);

                    /** Identity hostname */
                    hostname?: (string|null);

                    /** Identity machineId */
                    machineId?: (string|null);

                    /** Identity entropy */
                    entropy?: (Uint8Array|null);

                    /** Identity unixTimeUs */
                    unixTimeUs?: (number|null);

                    /** Identity network */
                    network?: (sandboxd.agent.v1.Network.$Properties|null);

                    /** Identity entersRoot */
                    entersRoot?: (boolean|null);

                    /** Identity pidsLimit */
                    pidsLimit?: (number|null);

                    /** Identity trust */
                    trust?: (sandboxd.agent.v1.Trust.$Properties|null);

                    /** Identity environment */
                    environment?: (string[]|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of an Identity. */
                type $Shape = sandboxd.agent.v1.Identity.$Properties;
            }

            /**
             * Properties of a Network.
             * @deprecated Use sandboxd.agent.v1.Network.$Properties instead.
             */
            interface INetwork extends sandboxd.agent.v1.Network.$Properties {
            }

            /** Represents a Network. */
            class Network {

                /**
                 * Constructs a new Network.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Network.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** Network mac. */
                mac: string;

                /** Network gatewayMac. */
                gatewayMac: string;

                /** Network address. */
                address: string;

                /** Network prefixLength. */
                prefixLength: number;

                /** Network gateway. */
                gateway: string;

                /** Network dns. */
                dns: string;

                /**
                 * Creates a new Network instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Network instance
                 */
                static create(properties: sandboxd.agent.v1.Network.$Shape): sandboxd.agent.v1.Network & sandboxd.agent.v1.Network.$Shape;
                static create(properties?: sandboxd.agent.v1.Network.$Properties): sandboxd.agent.v1.Network;

                /**
                 * Encodes the specified Network message. Does not implicitly {@link sandboxd.agent.v1.Network.verify|verify} messages.
                 * @param message Network message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Network.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a Network message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Network & sandboxd.agent.v1.Network.$Shape} Network
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Network & sandboxd.agent.v1.Network.$Shape;
            }

            namespace Network {

                /** Properties of a Network. */
                interface $Properties {

                    /** Network mac */
                    mac?: (string|null);

                    /** Network gatewayMac */
                    gatewayMac?: (string|null);

                    /** Network address */
                    address?: (string|null);

                    /** Network prefixLength */
                    prefixLength?: (number|null);

                    /** Network gateway */
                    gateway?: (string|null);

                    /** Network dns */
                    dns?: (string|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a Network. */
                type $Shape = sandboxd.agent.v1.Network.$Properties;
            }

            /**
             * Properties of an IdentityResult.
             * @deprecated Use sandboxd.agent.v1.IdentityResult.$Properties instead.
             */
            interface IIdentityResult extends sandboxd.agent.v1.IdentityResult.$Properties {
            }

            /** Represents an IdentityResult. */
            class IdentityResult {

                /**
                 * Constructs a new IdentityResult.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.IdentityResult.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** IdentityResult unixTimeUs. */
                unixTimeUs: number;

                /** IdentityResult trust. */
                trust?: (sandboxd.agent.v1.TrustResult.$Properties|null);

                /**
                 * Creates a new IdentityResult instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns IdentityResult instance
                 */
                static create(properties: sandboxd.agent.v1.IdentityResult.$Shape): sandboxd.agent.v1.IdentityResult & sandboxd.agent.v1.IdentityResult.$Shape;
                static create(properties?: sandboxd.agent.v1.IdentityResult.$Properties): sandboxd.agent.v1.IdentityResult;

                /**
                 * Encodes the specified IdentityResult message. Does not implicitly {@link sandboxd.agent.v1.IdentityResult.verify|verify} messages.
                 * @param message IdentityResult message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.IdentityResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes an IdentityResult message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.IdentityResult & sandboxd.agent.v1.IdentityResult.$Shape} IdentityResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.IdentityResult & sandboxd.agent.v1.IdentityResult.$Shape;
            }

            namespace IdentityResult {

                /** Properties of an IdentityResult. */
                interface $Properties {

                    /** IdentityResult unixTimeUs */
                    unixTimeUs?: (number|null);

                    /** IdentityResult trust */
                    trust?: (sandboxd.agent.v1.TrustResult.$Properties|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of an IdentityResult. */
                type $Shape = sandboxd.agent.v1.IdentityResult.$Properties;
            }

            /**
             * Properties of a Trust.
             * @deprecated Use sandboxd.agent.v1.Trust.$Properties instead.
             */
            interface ITrust extends sandboxd.agent.v1.Trust.$Properties {
            }

            /** Represents a Trust. */
            class Trust {

                /**
                 * Constructs a new Trust.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Trust.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** Trust certificate. */
                certificate: string;

                /** Trust subjectHash. */
                subjectHash: string;

                /** Trust isRehearsal. */
                isRehearsal: boolean;

                /**
                 * Creates a new Trust instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Trust instance
                 */
                static create(properties: sandboxd.agent.v1.Trust.$Shape): sandboxd.agent.v1.Trust & sandboxd.agent.v1.Trust.$Shape;
                static create(properties?: sandboxd.agent.v1.Trust.$Properties): sandboxd.agent.v1.Trust;

                /**
                 * Encodes the specified Trust message. Does not implicitly {@link sandboxd.agent.v1.Trust.verify|verify} messages.
                 * @param message Trust message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Trust.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a Trust message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Trust & sandboxd.agent.v1.Trust.$Shape} Trust
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Trust & sandboxd.agent.v1.Trust.$Shape;
            }

            namespace Trust {

                /** Properties of a Trust. */
                interface $Properties {

                    /** Trust certificate */
                    certificate?: (string|null);

                    /** Trust subjectHash */
                    subjectHash?: (string|null);

                    /** Trust isRehearsal */
                    isRehearsal?: (boolean|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a Trust. */
                type $Shape = sandboxd.agent.v1.Trust.$Properties;
            }

            /**
             * Properties of a TrustResult.
             * @deprecated Use sandboxd.agent.v1.TrustResult.$Properties instead.
             */
            interface ITrustResult extends sandboxd.agent.v1.TrustResult.$Properties {
            }

            /** Represents a TrustResult. */
            class TrustResult {

                /**
                 * Constructs a new TrustResult.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.TrustResult.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** TrustResult problems. */
                problems: string[];

                /**
                 * Creates a new TrustResult instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns TrustResult instance
                 */
                static create(properties: sandboxd.agent.v1.TrustResult.$Shape): sandboxd.agent.v1.TrustResult & sandboxd.agent.v1.TrustResult.$Shape;
                static create(properties?: sandboxd.agent.v1.TrustResult.$Properties): sandboxd.agent.v1.TrustResult;

                /**
                 * Encodes the specified TrustResult message. Does not implicitly {@link sandboxd.agent.v1.TrustResult.verify|verify} messages.
                 * @param message TrustResult message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.TrustResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a TrustResult message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.TrustResult & sandboxd.agent.v1.TrustResult.$Shape} TrustResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.TrustResult & sandboxd.agent.v1.TrustResult.$Shape;
            }

            namespace TrustResult {

                /** Properties of a TrustResult. */
                interface $Properties {

                    /** TrustResult problems */
                    problems?: (string[]|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a TrustResult. */
                type $Shape = sandboxd.agent.v1.TrustResult.$Properties;
            }

            /**
             * Properties of a Stats.
             * @deprecated Use sandboxd.agent.v1.Stats.$Properties instead.
             */
            interface IStats extends sandboxd.agent.v1.Stats.$Properties {
            }

            /** Represents a Stats. */
            class Stats {

                /**
                 * Constructs a new Stats.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Stats.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /**
                 * Creates a new Stats instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Stats instance
                 */
                static create(properties: sandboxd.agent.v1.Stats.$Shape): sandboxd.agent.v1.Stats & sandboxd.agent.v1.Stats.$Shape;
                static create(properties?: sandboxd.agent.v1.Stats.$Properties): sandboxd.agent.v1.Stats;

                /**
                 * Encodes the specified Stats message. Does not implicitly {@link sandboxd.agent.v1.Stats.verify|verify} messages.
                 * @param message Stats message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Stats.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a Stats message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Stats & sandboxd.agent.v1.Stats.$Shape} Stats
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Stats & sandboxd.agent.v1.Stats.$Shape;
            }

            namespace Stats {

                /** Properties of a Stats. */
                interface $Properties {

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a Stats. */
                type $Shape = sandboxd.agent.v1.Stats.$Properties;
            }

            /**
             * Properties of a StatsResult.
             * @deprecated Use sandboxd.agent.v1.StatsResult.$Properties instead.
             */
            interface IStatsResult extends sandboxd.agent.v1.StatsResult.$Properties {
            }

            /** Represents a StatsResult. */
            class StatsResult {

                /**
                 * Constructs a new StatsResult.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.StatsResult.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** StatsResult agentRssBytes. */
                agentRssBytes: number;

                /** StatsResult agentPssBytes. */
                agentPssBytes: number;

                /** StatsResult agentAnonBytes. */
                agentAnonBytes: number;

                /** StatsResult memoryTotalBytes. */
                memoryTotalBytes: number;

                /** StatsResult memoryAvailableBytes. */
                memoryAvailableBytes: number;

                /** StatsResult openFds. */
                openFds: number;

                /** StatsResult execCgroups. */
                execCgroups: number;

                /** StatsResult streams. */
                streams: number;

                /** StatsResult processes. */
                processes: number;

                /**
                 * Creates a new StatsResult instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns StatsResult instance
                 */
                static create(properties: sandboxd.agent.v1.StatsResult.$Shape): sandboxd.agent.v1.StatsResult & sandboxd.agent.v1.StatsResult.$Shape;
                static create(properties?: sandboxd.agent.v1.StatsResult.$Properties): sandboxd.agent.v1.StatsResult;

                /**
                 * Encodes the specified StatsResult message. Does not implicitly {@link sandboxd.agent.v1.StatsResult.verify|verify} messages.
                 * @param message StatsResult message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.StatsResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a StatsResult message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.StatsResult & sandboxd.agent.v1.StatsResult.$Shape} StatsResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.StatsResult & sandboxd.agent.v1.StatsResult.$Shape;
            }

            namespace StatsResult {

                /** Properties of a StatsResult. */
                interface $Properties {

                    /** StatsResult agentRssBytes */
                    agentRssBytes?: (number|null);

                    /** StatsResult agentPssBytes */
                    agentPssBytes?: (number|null);

                    /** StatsResult agentAnonBytes */
                    agentAnonBytes?: (number|null);

                    /** StatsResult memoryTotalBytes */
                    memoryTotalBytes?: (number|null);

                    /** StatsResult memoryAvailableBytes */
                    memoryAvailableBytes?: (number|null);

                    /** StatsResult openFds */
                    openFds?: (number|null);

                    /** StatsResult execCgroups */
                    execCgroups?: (number|null);

                    /** StatsResult streams */
                    streams?: (number|null);

                    /** StatsResult processes */
                    processes?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a StatsResult. */
                type $Shape = sandboxd.agent.v1.StatsResult.$Properties;
            }

            /**
             * Properties of a SetClock.
             * @deprecated Use sandboxd.agent.v1.SetClock.$Properties instead.
             */
            interface ISetClock extends sandboxd.agent.v1.SetClock.$Properties {
            }

            /** Represents a SetClock. */
            class SetClock {

                /**
                 * Constructs a new SetClock.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.SetClock.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** SetClock unixTimeUs. */
                unixTimeUs: number;

                /** SetClock shiftUs. */
                shiftUs: number;

                /**
                 * Creates a new SetClock instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns SetClock instance
                 */
                static create(properties: sandboxd.agent.v1.SetClock.$Shape): sandboxd.agent.v1.SetClock & sandboxd.agent.v1.SetClock.$Shape;
                static create(properties?: sandboxd.agent.v1.SetClock.$Properties): sandboxd.agent.v1.SetClock;

                /**
                 * Encodes the specified SetClock message. Does not implicitly {@link sandboxd.agent.v1.SetClock.verify|verify} messages.
                 * @param message SetClock message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.SetClock.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a SetClock message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.SetClock & sandboxd.agent.v1.SetClock.$Shape} SetClock
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.SetClock & sandboxd.agent.v1.SetClock.$Shape;
            }

            namespace SetClock {

                /** Properties of a SetClock. */
                interface $Properties {

                    /** SetClock unixTimeUs */
                    unixTimeUs?: (number|null);

                    /** SetClock shiftUs */
                    shiftUs?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a SetClock. */
                type $Shape = sandboxd.agent.v1.SetClock.$Properties;
            }

            /**
             * Properties of a SetClockResult.
             * @deprecated Use sandboxd.agent.v1.SetClockResult.$Properties instead.
             */
            interface ISetClockResult extends sandboxd.agent.v1.SetClockResult.$Properties {
            }

            /** Represents a SetClockResult. */
            class SetClockResult {

                /**
                 * Constructs a new SetClockResult.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.SetClockResult.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** SetClockResult unixTimeUs. */
                unixTimeUs: number;

                /**
                 * Creates a new SetClockResult instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns SetClockResult instance
                 */
                static create(properties: sandboxd.agent.v1.SetClockResult.$Shape): sandboxd.agent.v1.SetClockResult & sandboxd.agent.v1.SetClockResult.$Shape;
                static create(properties?: sandboxd.agent.v1.SetClockResult.$Properties): sandboxd.agent.v1.SetClockResult;

                /**
                 * Encodes the specified SetClockResult message. Does not implicitly {@link sandboxd.agent.v1.SetClockResult.verify|verify} messages.
                 * @param message SetClockResult message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.SetClockResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a SetClockResult message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.SetClockResult & sandboxd.agent.v1.SetClockResult.$Shape} SetClockResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.SetClockResult & sandboxd.agent.v1.SetClockResult.$Shape;
            }

            namespace SetClockResult {

                /** Properties of a SetClockResult. */
                interface $Properties {

                    /** SetClockResult unixTimeUs */
                    unixTimeUs?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a SetClockResult. */
                type $Shape = sandboxd.agent.v1.SetClockResult.$Properties;
            }

            /**
             * Properties of a Freeze.
             * @deprecated Use sandboxd.agent.v1.Freeze.$Properties instead.
             */
            interface IFreeze extends sandboxd.agent.v1.Freeze.$Properties {
            }

            /** Represents a Freeze. */
            class Freeze {

                /**
                 * Constructs a new Freeze.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Freeze.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** Freeze isFrozen. */
                isFrozen: boolean;

                /** Freeze sync. */
                sync: boolean;

                /**
                 * Creates a new Freeze instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Freeze instance
                 */
                static create(properties: sandboxd.agent.v1.Freeze.$Shape): sandboxd.agent.v1.Freeze & sandboxd.agent.v1.Freeze.$Shape;
                static create(properties?: sandboxd.agent.v1.Freeze.$Properties): sandboxd.agent.v1.Freeze;

                /**
                 * Encodes the specified Freeze message. Does not implicitly {@link sandboxd.agent.v1.Freeze.verify|verify} messages.
                 * @param message Freeze message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Freeze.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a Freeze message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Freeze & sandboxd.agent.v1.Freeze.$Shape} Freeze
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Freeze & sandboxd.agent.v1.Freeze.$Shape;
            }

            namespace Freeze {

                /** Properties of a Freeze. */
                interface $Properties {

                    /** Freeze isFrozen */
                    isFrozen?: (boolean|null);

                    /** Freeze sync */
                    sync?: (boolean|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a Freeze. */
                type $Shape = sandboxd.agent.v1.Freeze.$Properties;
            }

            /**
             * Properties of a FreezeResult.
             * @deprecated Use sandboxd.agent.v1.FreezeResult.$Properties instead.
             */
            interface IFreezeResult extends sandboxd.agent.v1.FreezeResult.$Properties {
            }

            /** Represents a FreezeResult. */
            class FreezeResult {

                /**
                 * Constructs a new FreezeResult.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FreezeResult.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /**
                 * Creates a new FreezeResult instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FreezeResult instance
                 */
                static create(properties: sandboxd.agent.v1.FreezeResult.$Shape): sandboxd.agent.v1.FreezeResult & sandboxd.agent.v1.FreezeResult.$Shape;
                static create(properties?: sandboxd.agent.v1.FreezeResult.$Properties): sandboxd.agent.v1.FreezeResult;

                /**
                 * Encodes the specified FreezeResult message. Does not implicitly {@link sandboxd.agent.v1.FreezeResult.verify|verify} messages.
                 * @param message FreezeResult message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FreezeResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FreezeResult message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FreezeResult & sandboxd.agent.v1.FreezeResult.$Shape} FreezeResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FreezeResult & sandboxd.agent.v1.FreezeResult.$Shape;
            }

            namespace FreezeResult {

                /** Properties of a FreezeResult. */
                interface $Properties {

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FreezeResult. */
                type $Shape = sandboxd.agent.v1.FreezeResult.$Properties;
            }

            /**
             * Properties of a Wake.
             * @deprecated Use sandboxd.agent.v1.Wake.$Properties instead.
             */
            interface IWake extends sandboxd.agent.v1.Wake.$Properties {
            }

            /** Represents a Wake. */
            class Wake {

                /**
                 * Constructs a new Wake.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Wake.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** Wake entropy. */
                entropy: Uint8Array;

                /** Wake unixTimeUs. */
                unixTimeUs: number;

                /** Wake network. */
                network?: (sandboxd.agent.v1.Network.$Properties|null);

                /** Wake connections. */
                connections?: (sandboxd.agent.v1.Connections.$Properties|null);

                /** Wake trust. */
                trust?: (sandboxd.agent.v1.Trust.$Properties|null);

                /**
                 * Creates a new Wake instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Wake instance
                 */
                static create(properties: sandboxd.agent.v1.Wake.$Shape): sandboxd.agent.v1.Wake & sandboxd.agent.v1.Wake.$Shape;
                static create(properties?: sandboxd.agent.v1.Wake.$Properties): sandboxd.agent.v1.Wake;

                /**
                 * Encodes the specified Wake message. Does not implicitly {@link sandboxd.agent.v1.Wake.verify|verify} messages.
                 * @param message Wake message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Wake.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a Wake message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Wake & sandboxd.agent.v1.Wake.$Shape} Wake
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Wake & sandboxd.agent.v1.Wake.$Shape;
            }

            namespace Wake {

                /** Properties of a Wake. */
                interface $Properties {

                    /** Wake entropy */
                    entropy?: (Uint8Array|null);

                    /** Wake unixTimeUs */
                    unixTimeUs?: (number|null);

                    /** Wake network */
                    network?: (sandboxd.agent.v1.Network.$Properties|null);

                    /** Wake connections */
                    connections?: (sandboxd.agent.v1.Connections.$Properties|null);

                    /** Wake trust */
                    trust?: (sandboxd.agent.v1.Trust.$Properties|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a Wake. */
                type $Shape = sandboxd.agent.v1.Wake.$Properties;
            }

            /**
             * Properties of a Connections.
             * @deprecated Use sandboxd.agent.v1.Connections.$Properties instead.
             */
            interface IConnections extends sandboxd.agent.v1.Connections.$Properties {
            }

            /** Represents a Connections. */
            class Connections {

                /**
                 * Constructs a new Connections.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.Connections.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** Connections address. */
                address: Uint8Array;

                /** Connections tracked. */
                tracked: Uint8Array;

                /**
                 * Creates a new Connections instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns Connections instance
                 */
                static create(properties: sandboxd.agent.v1.Connections.$Shape): sandboxd.agent.v1.Connections & sandboxd.agent.v1.Connections.$Shape;
                static create(properties?: sandboxd.agent.v1.Connections.$Properties): sandboxd.agent.v1.Connections;

                /**
                 * Encodes the specified Connections message. Does not implicitly {@link sandboxd.agent.v1.Connections.verify|verify} messages.
                 * @param message Connections message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.Connections.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a Connections message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Connections & sandboxd.agent.v1.Connections.$Shape} Connections
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.Connections & sandboxd.agent.v1.Connections.$Shape;
            }

            namespace Connections {

                /** Properties of a Connections. */
                interface $Properties {

                    /** Connections address */
                    address?: (Uint8Array|null);

                    /** Connections tracked */
                    tracked?: (Uint8Array|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a Connections. */
                type $Shape = sandboxd.agent.v1.Connections.$Properties;
            }

            /**
             * Properties of a WakeResult.
             * @deprecated Use sandboxd.agent.v1.WakeResult.$Properties instead.
             */
            interface IWakeResult extends sandboxd.agent.v1.WakeResult.$Properties {
            }

            /** Represents a WakeResult. */
            class WakeResult {

                /**
                 * Constructs a new WakeResult.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.WakeResult.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** WakeResult unixTimeUs. */
                unixTimeUs: number;

                /** WakeResult trust. */
                trust?: (sandboxd.agent.v1.TrustResult.$Properties|null);

                /**
                 * Creates a new WakeResult instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns WakeResult instance
                 */
                static create(properties: sandboxd.agent.v1.WakeResult.$Shape): sandboxd.agent.v1.WakeResult & sandboxd.agent.v1.WakeResult.$Shape;
                static create(properties?: sandboxd.agent.v1.WakeResult.$Properties): sandboxd.agent.v1.WakeResult;

                /**
                 * Encodes the specified WakeResult message. Does not implicitly {@link sandboxd.agent.v1.WakeResult.verify|verify} messages.
                 * @param message WakeResult message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.WakeResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a WakeResult message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.WakeResult & sandboxd.agent.v1.WakeResult.$Shape} WakeResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.WakeResult & sandboxd.agent.v1.WakeResult.$Shape;
            }

            namespace WakeResult {

                /** Properties of a WakeResult. */
                interface $Properties {

                    /** WakeResult unixTimeUs */
                    unixTimeUs?: (number|null);

                    /** WakeResult trust */
                    trust?: (sandboxd.agent.v1.TrustResult.$Properties|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a WakeResult. */
                type $Shape = sandboxd.agent.v1.WakeResult.$Properties;
            }

            /**
             * Properties of a ServiceSpec.
             * @deprecated Use sandboxd.agent.v1.ServiceSpec.$Properties instead.
             */
            interface IServiceSpec extends sandboxd.agent.v1.ServiceSpec.$Properties {
            }

            /** Represents a ServiceSpec. */
            class ServiceSpec {

                /**
                 * Constructs a new ServiceSpec.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.ServiceSpec.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** ServiceSpec cmd. */
                cmd: string[];

                /** ServiceSpec env. */
                env: string[];

                /** ServiceSpec baseEnv. */
                baseEnv: string[];

                /** ServiceSpec makeCwd. */
                makeCwd: boolean;

                /** ServiceSpec cwd. */
                cwd: string;

                /** ServiceSpec user. */
                user: string;

                /** ServiceSpec stopSignal. */
                stopSignal: string;

                /** ServiceSpec stopGraceMs. */
                stopGraceMs: number;

                /** ServiceSpec restartPolicy. */
                restartPolicy: string;

                /** ServiceSpec maxRetries. */
                maxRetries: number;

                /** ServiceSpec logBufferBytes. */
                logBufferBytes: number;

                /**
                 * Creates a new ServiceSpec instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns ServiceSpec instance
                 */
                static create(properties: sandboxd.agent.v1.ServiceSpec.$Shape): sandboxd.agent.v1.ServiceSpec & sandboxd.agent.v1.ServiceSpec.$Shape;
                static create(properties?: sandboxd.agent.v1.ServiceSpec.$Properties): sandboxd.agent.v1.ServiceSpec;

                /**
                 * Encodes the specified ServiceSpec message. Does not implicitly {@link sandboxd.agent.v1.ServiceSpec.verify|verify} messages.
                 * @param message ServiceSpec message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.ServiceSpec.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a ServiceSpec message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ServiceSpec & sandboxd.agent.v1.ServiceSpec.$Shape} ServiceSpec
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.ServiceSpec & sandboxd.agent.v1.ServiceSpec.$Shape;
            }

            namespace ServiceSpec {

                /** Properties of a ServiceSpec. */
                interface $Properties {

                    /** ServiceSpec cmd */
                    cmd?: (string[]|null);

                    /** ServiceSpec env */
                    env?: (string[]|null);

                    /** ServiceSpec baseEnv */
                    baseEnv?: (string[]|null);

                    /** ServiceSpec makeCwd */
                    makeCwd?: (boolean|null);

                    /** ServiceSpec cwd */
                    cwd?: (string|null);

                    /** ServiceSpec user */
                    user?: (string|null);

                    /** ServiceSpec stopSignal */
                    stopSignal?: (string|null);

                    /** ServiceSpec stopGraceMs */
                    stopGraceMs?: (number|null);

                    /** ServiceSpec restartPolicy */
                    restartPolicy?: (string|null);

                    /** ServiceSpec maxRetries */
                    maxRetries?: (number|null);

                    /** ServiceSpec logBufferBytes */
                    logBufferBytes?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a ServiceSpec. */
                type $Shape = sandboxd.agent.v1.ServiceSpec.$Properties;
            }

            /**
             * Properties of a ServiceConfigure.
             * @deprecated Use sandboxd.agent.v1.ServiceConfigure.$Properties instead.
             */
            interface IServiceConfigure extends sandboxd.agent.v1.ServiceConfigure.$Properties {
            }

            /** Represents a ServiceConfigure. */
            class ServiceConfigure {

                /**
                 * Constructs a new ServiceConfigure.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.ServiceConfigure.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** ServiceConfigure spec. */
                spec?: (sandboxd.agent.v1.ServiceSpec.$Properties|null);

                /**
                 * Creates a new ServiceConfigure instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns ServiceConfigure instance
                 */
                static create(properties: sandboxd.agent.v1.ServiceConfigure.$Shape): sandboxd.agent.v1.ServiceConfigure & sandboxd.agent.v1.ServiceConfigure.$Shape;
                static create(properties?: sandboxd.agent.v1.ServiceConfigure.$Properties): sandboxd.agent.v1.ServiceConfigure;

                /**
                 * Encodes the specified ServiceConfigure message. Does not implicitly {@link sandboxd.agent.v1.ServiceConfigure.verify|verify} messages.
                 * @param message ServiceConfigure message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.ServiceConfigure.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a ServiceConfigure message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ServiceConfigure & sandboxd.agent.v1.ServiceConfigure.$Shape} ServiceConfigure
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.ServiceConfigure & sandboxd.agent.v1.ServiceConfigure.$Shape;
            }

            namespace ServiceConfigure {

                /** Properties of a ServiceConfigure. */
                interface $Properties {

                    /** ServiceConfigure spec */
                    spec?: (sandboxd.agent.v1.ServiceSpec.$Properties|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a ServiceConfigure. */
                type $Shape = sandboxd.agent.v1.ServiceConfigure.$Properties;
            }

            /**
             * Properties of a ServiceControl.
             * @deprecated Use sandboxd.agent.v1.ServiceControl.$Properties instead.
             */
            interface IServiceControl extends sandboxd.agent.v1.ServiceControl.$Properties {
            }

            /** Represents a ServiceControl. */
            class ServiceControl {

                /**
                 * Constructs a new ServiceControl.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.ServiceControl.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** ServiceControl verb. */
                verb: sandboxd.agent.v1.ServiceControl.Verb;

                /** ServiceControl graceMs. */
                graceMs?: (number|null);

                /**
                 * Creates a new ServiceControl instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns ServiceControl instance
                 */
                static create(properties: sandboxd.agent.v1.ServiceControl.$Shape): sandboxd.agent.v1.ServiceControl & sandboxd.agent.v1.ServiceControl.$Shape;
                static create(properties?: sandboxd.agent.v1.ServiceControl.$Properties): sandboxd.agent.v1.ServiceControl;

                /**
                 * Encodes the specified ServiceControl message. Does not implicitly {@link sandboxd.agent.v1.ServiceControl.verify|verify} messages.
                 * @param message ServiceControl message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.ServiceControl.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a ServiceControl message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ServiceControl & sandboxd.agent.v1.ServiceControl.$Shape} ServiceControl
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.ServiceControl & sandboxd.agent.v1.ServiceControl.$Shape;
            }

            namespace ServiceControl {

                /** Properties of a ServiceControl. */
                interface $Properties {

                    /** ServiceControl verb */
                    verb?: (sandboxd.agent.v1.ServiceControl.Verb|null);

                    /** ServiceControl graceMs */
                    graceMs?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a ServiceControl. */
                type $Shape = sandboxd.agent.v1.ServiceControl.$Properties;

                /** Verb enum. */
                enum Verb {

                    /** STATUS value */
                    STATUS = 0,

                    /** START value */
                    START = 1,

                    /** STOP value */
                    STOP = 2,

                    /** RESTART value */
                    RESTART = 3
                }
            }

            /**
             * Properties of a ServiceStatus.
             * @deprecated Use sandboxd.agent.v1.ServiceStatus.$Properties instead.
             */
            interface IServiceStatus extends sandboxd.agent.v1.ServiceStatus.$Properties {
            }

            /** Represents a ServiceStatus. */
            class ServiceStatus {

                /**
                 * Constructs a new ServiceStatus.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.ServiceStatus.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** ServiceStatus state. */
                state: string;

                /** ServiceStatus pid. */
                pid: number;

                /** ServiceStatus restarts. */
                restarts: number;

                /** ServiceStatus spec. */
                spec?: (sandboxd.agent.v1.ServiceSpec.$Properties|null);

                /** ServiceStatus startedUnixMs. */
                startedUnixMs: number;

                /** ServiceStatus uptimeMs. */
                uptimeMs: number;

                /** ServiceStatus lastExit. */
                lastExit?: (sandboxd.agent.v1.ExecResult.$Properties|null);

                /** ServiceStatus lastExitUnixMs. */
                lastExitUnixMs: number;

                /** ServiceStatus lastExitRequested. */
                lastExitRequested: boolean;

                /** ServiceStatus liveRssBytes. */
                liveRssBytes: number;

                /** ServiceStatus livePeakRssBytes. */
                livePeakRssBytes: number;

                /** ServiceStatus ring. */
                ring?: (sandboxd.agent.v1.ServiceRing.$Properties|null);

                /**
                 * Creates a new ServiceStatus instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns ServiceStatus instance
                 */
                static create(properties: sandboxd.agent.v1.ServiceStatus.$Shape): sandboxd.agent.v1.ServiceStatus & sandboxd.agent.v1.ServiceStatus.$Shape;
                static create(properties?: sandboxd.agent.v1.ServiceStatus.$Properties): sandboxd.agent.v1.ServiceStatus;

                /**
                 * Encodes the specified ServiceStatus message. Does not implicitly {@link sandboxd.agent.v1.ServiceStatus.verify|verify} messages.
                 * @param message ServiceStatus message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.ServiceStatus.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a ServiceStatus message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ServiceStatus & sandboxd.agent.v1.ServiceStatus.$Shape} ServiceStatus
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.ServiceStatus & sandboxd.agent.v1.ServiceStatus.$Shape;
            }

            namespace ServiceStatus {

                /** Properties of a ServiceStatus. */
                interface $Properties {

                    /** ServiceStatus state */
                    state?: (string|null);

                    /** ServiceStatus pid */
                    pid?: (number|null);

                    /** ServiceStatus restarts */
                    restarts?: (number|null);

                    /** ServiceStatus spec */
                    spec?: (sandboxd.agent.v1.ServiceSpec.$Properties|null);

                    /** ServiceStatus startedUnixMs */
                    startedUnixMs?: (number|null);

                    /** ServiceStatus uptimeMs */
                    uptimeMs?: (number|null);

                    /** ServiceStatus lastExit */
                    lastExit?: (sandboxd.agent.v1.ExecResult.$Properties|null);

                    /** ServiceStatus lastExitUnixMs */
                    lastExitUnixMs?: (number|null);

                    /** ServiceStatus lastExitRequested */
                    lastExitRequested?: (boolean|null);

                    /** ServiceStatus liveRssBytes */
                    liveRssBytes?: (number|null);

                    /** ServiceStatus livePeakRssBytes */
                    livePeakRssBytes?: (number|null);

                    /** ServiceStatus ring */
                    ring?: (sandboxd.agent.v1.ServiceRing.$Properties|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a ServiceStatus. */
                type $Shape = sandboxd.agent.v1.ServiceStatus.$Properties;
            }

            /**
             * Properties of a ServiceRing.
             * @deprecated Use sandboxd.agent.v1.ServiceRing.$Properties instead.
             */
            interface IServiceRing extends sandboxd.agent.v1.ServiceRing.$Properties {
            }

            /** Represents a ServiceRing. */
            class ServiceRing {

                /**
                 * Constructs a new ServiceRing.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.ServiceRing.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** ServiceRing id. */
                id: string;

                /** ServiceRing firstSeq. */
                firstSeq: number;

                /** ServiceRing nextSeq. */
                nextSeq: number;

                /** ServiceRing droppedRecords. */
                droppedRecords: number;

                /** ServiceRing droppedBytes. */
                droppedBytes: number;

                /**
                 * Creates a new ServiceRing instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns ServiceRing instance
                 */
                static create(properties: sandboxd.agent.v1.ServiceRing.$Shape): sandboxd.agent.v1.ServiceRing & sandboxd.agent.v1.ServiceRing.$Shape;
                static create(properties?: sandboxd.agent.v1.ServiceRing.$Properties): sandboxd.agent.v1.ServiceRing;

                /**
                 * Encodes the specified ServiceRing message. Does not implicitly {@link sandboxd.agent.v1.ServiceRing.verify|verify} messages.
                 * @param message ServiceRing message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.ServiceRing.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a ServiceRing message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ServiceRing & sandboxd.agent.v1.ServiceRing.$Shape} ServiceRing
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.ServiceRing & sandboxd.agent.v1.ServiceRing.$Shape;
            }

            namespace ServiceRing {

                /** Properties of a ServiceRing. */
                interface $Properties {

                    /** ServiceRing id */
                    id?: (string|null);

                    /** ServiceRing firstSeq */
                    firstSeq?: (number|null);

                    /** ServiceRing nextSeq */
                    nextSeq?: (number|null);

                    /** ServiceRing droppedRecords */
                    droppedRecords?: (number|null);

                    /** ServiceRing droppedBytes */
                    droppedBytes?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a ServiceRing. */
                type $Shape = sandboxd.agent.v1.ServiceRing.$Properties;
            }

            /**
             * Properties of a ServiceOutput.
             * @deprecated Use sandboxd.agent.v1.ServiceOutput.$Properties instead.
             */
            interface IServiceOutput extends sandboxd.agent.v1.ServiceOutput.$Properties {
            }

            /** Represents a ServiceOutput. */
            class ServiceOutput {

                /**
                 * Constructs a new ServiceOutput.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.ServiceOutput.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** ServiceOutput ring. */
                ring: string;

                /** ServiceOutput fromSeq. */
                fromSeq: number;

                /** ServiceOutput follow. */
                follow: boolean;

                /** ServiceOutput wait. */
                wait: boolean;

                /** ServiceOutput maxBytes. */
                maxBytes: number;

                /**
                 * Creates a new ServiceOutput instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns ServiceOutput instance
                 */
                static create(properties: sandboxd.agent.v1.ServiceOutput.$Shape): sandboxd.agent.v1.ServiceOutput & sandboxd.agent.v1.ServiceOutput.$Shape;
                static create(properties?: sandboxd.agent.v1.ServiceOutput.$Properties): sandboxd.agent.v1.ServiceOutput;

                /**
                 * Encodes the specified ServiceOutput message. Does not implicitly {@link sandboxd.agent.v1.ServiceOutput.verify|verify} messages.
                 * @param message ServiceOutput message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.ServiceOutput.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a ServiceOutput message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ServiceOutput & sandboxd.agent.v1.ServiceOutput.$Shape} ServiceOutput
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.ServiceOutput & sandboxd.agent.v1.ServiceOutput.$Shape;
            }

            namespace ServiceOutput {

                /** Properties of a ServiceOutput. */
                interface $Properties {

                    /** ServiceOutput ring */
                    ring?: (string|null);

                    /** ServiceOutput fromSeq */
                    fromSeq?: (number|null);

                    /** ServiceOutput follow */
                    follow?: (boolean|null);

                    /** ServiceOutput wait */
                    wait?: (boolean|null);

                    /** ServiceOutput maxBytes */
                    maxBytes?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a ServiceOutput. */
                type $Shape = sandboxd.agent.v1.ServiceOutput.$Properties;
            }

            /**
             * Properties of a ServiceOutputResult.
             * @deprecated Use sandboxd.agent.v1.ServiceOutputResult.$Properties instead.
             */
            interface IServiceOutputResult extends sandboxd.agent.v1.ServiceOutputResult.$Properties {
            }

            /** Represents a ServiceOutputResult. */
            class ServiceOutputResult {

                /**
                 * Constructs a new ServiceOutputResult.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.ServiceOutputResult.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** ServiceOutputResult ring. */
                ring?: (sandboxd.agent.v1.ServiceRing.$Properties|null);

                /** ServiceOutputResult nextSeq. */
                nextSeq: number;

                /**
                 * Creates a new ServiceOutputResult instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns ServiceOutputResult instance
                 */
                static create(properties: sandboxd.agent.v1.ServiceOutputResult.$Shape): sandboxd.agent.v1.ServiceOutputResult & sandboxd.agent.v1.ServiceOutputResult.$Shape;
                static create(properties?: sandboxd.agent.v1.ServiceOutputResult.$Properties): sandboxd.agent.v1.ServiceOutputResult;

                /**
                 * Encodes the specified ServiceOutputResult message. Does not implicitly {@link sandboxd.agent.v1.ServiceOutputResult.verify|verify} messages.
                 * @param message ServiceOutputResult message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.ServiceOutputResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a ServiceOutputResult message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ServiceOutputResult & sandboxd.agent.v1.ServiceOutputResult.$Shape} ServiceOutputResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.ServiceOutputResult & sandboxd.agent.v1.ServiceOutputResult.$Shape;
            }

            namespace ServiceOutputResult {

                /** Properties of a ServiceOutputResult. */
                interface $Properties {

                    /** ServiceOutputResult ring */
                    ring?: (sandboxd.agent.v1.ServiceRing.$Properties|null);

                    /** ServiceOutputResult nextSeq */
                    nextSeq?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a ServiceOutputResult. */
                type $Shape = sandboxd.agent.v1.ServiceOutputResult.$Properties;
            }

            /**
             * Properties of a FilePush.
             * @deprecated Use sandboxd.agent.v1.FilePush.$Properties instead.
             */
            interface IFilePush extends sandboxd.agent.v1.FilePush.$Properties {
            }

            /** Represents a FilePush. */
            class FilePush {

                /**
                 * Constructs a new FilePush.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FilePush.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FilePush path. */
                path: string;

                /** FilePush owner. */
                owner: string;

                /**
                 * Creates a new FilePush instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FilePush instance
                 */
                static create(properties: sandboxd.agent.v1.FilePush.$Shape): sandboxd.agent.v1.FilePush & sandboxd.agent.v1.FilePush.$Shape;
                static create(properties?: sandboxd.agent.v1.FilePush.$Properties): sandboxd.agent.v1.FilePush;

                /**
                 * Encodes the specified FilePush message. Does not implicitly {@link sandboxd.agent.v1.FilePush.verify|verify} messages.
                 * @param message FilePush message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FilePush.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FilePush message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FilePush & sandboxd.agent.v1.FilePush.$Shape} FilePush
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FilePush & sandboxd.agent.v1.FilePush.$Shape;
            }

            namespace FilePush {

                /** Properties of a FilePush. */
                interface $Properties {

                    /** FilePush path */
                    path?: (string|null);

                    /** FilePush owner */
                    owner?: (string|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FilePush. */
                type $Shape = sandboxd.agent.v1.FilePush.$Properties;
            }

            /**
             * Properties of a FilePushResult.
             * @deprecated Use sandboxd.agent.v1.FilePushResult.$Properties instead.
             */
            interface IFilePushResult extends sandboxd.agent.v1.FilePushResult.$Properties {
            }

            /** Represents a FilePushResult. */
            class FilePushResult {

                /**
                 * Constructs a new FilePushResult.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FilePushResult.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FilePushResult files. */
                files: number;

                /** FilePushResult bytes. */
                bytes: number;

                /**
                 * Creates a new FilePushResult instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FilePushResult instance
                 */
                static create(properties: sandboxd.agent.v1.FilePushResult.$Shape): sandboxd.agent.v1.FilePushResult & sandboxd.agent.v1.FilePushResult.$Shape;
                static create(properties?: sandboxd.agent.v1.FilePushResult.$Properties): sandboxd.agent.v1.FilePushResult;

                /**
                 * Encodes the specified FilePushResult message. Does not implicitly {@link sandboxd.agent.v1.FilePushResult.verify|verify} messages.
                 * @param message FilePushResult message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FilePushResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FilePushResult message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FilePushResult & sandboxd.agent.v1.FilePushResult.$Shape} FilePushResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FilePushResult & sandboxd.agent.v1.FilePushResult.$Shape;
            }

            namespace FilePushResult {

                /** Properties of a FilePushResult. */
                interface $Properties {

                    /** FilePushResult files */
                    files?: (number|null);

                    /** FilePushResult bytes */
                    bytes?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FilePushResult. */
                type $Shape = sandboxd.agent.v1.FilePushResult.$Properties;
            }

            /**
             * Properties of a FilePull.
             * @deprecated Use sandboxd.agent.v1.FilePull.$Properties instead.
             */
            interface IFilePull extends sandboxd.agent.v1.FilePull.$Properties {
            }

            /** Represents a FilePull. */
            class FilePull {

                /**
                 * Constructs a new FilePull.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FilePull.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FilePull path. */
                path: string;

                /** FilePull maxBytes. */
                maxBytes: number;

                /**
                 * Creates a new FilePull instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FilePull instance
                 */
                static create(properties: sandboxd.agent.v1.FilePull.$Shape): sandboxd.agent.v1.FilePull & sandboxd.agent.v1.FilePull.$Shape;
                static create(properties?: sandboxd.agent.v1.FilePull.$Properties): sandboxd.agent.v1.FilePull;

                /**
                 * Encodes the specified FilePull message. Does not implicitly {@link sandboxd.agent.v1.FilePull.verify|verify} messages.
                 * @param message FilePull message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FilePull.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FilePull message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FilePull & sandboxd.agent.v1.FilePull.$Shape} FilePull
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FilePull & sandboxd.agent.v1.FilePull.$Shape;
            }

            namespace FilePull {

                /** Properties of a FilePull. */
                interface $Properties {

                    /** FilePull path */
                    path?: (string|null);

                    /** FilePull maxBytes */
                    maxBytes?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FilePull. */
                type $Shape = sandboxd.agent.v1.FilePull.$Properties;
            }

            /**
             * Properties of a FilePullResult.
             * @deprecated Use sandboxd.agent.v1.FilePullResult.$Properties instead.
             */
            interface IFilePullResult extends sandboxd.agent.v1.FilePullResult.$Properties {
            }

            /** Represents a FilePullResult. */
            class FilePullResult {

                /**
                 * Constructs a new FilePullResult.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FilePullResult.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /**
                 * Creates a new FilePullResult instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FilePullResult instance
                 */
                static create(properties: sandboxd.agent.v1.FilePullResult.$Shape): sandboxd.agent.v1.FilePullResult & sandboxd.agent.v1.FilePullResult.$Shape;
                static create(properties?: sandboxd.agent.v1.FilePullResult.$Properties): sandboxd.agent.v1.FilePullResult;

                /**
                 * Encodes the specified FilePullResult message. Does not implicitly {@link sandboxd.agent.v1.FilePullResult.verify|verify} messages.
                 * @param message FilePullResult message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FilePullResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FilePullResult message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FilePullResult & sandboxd.agent.v1.FilePullResult.$Shape} FilePullResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FilePullResult & sandboxd.agent.v1.FilePullResult.$Shape;
            }

            namespace FilePullResult {

                /** Properties of a FilePullResult. */
                interface $Properties {

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FilePullResult. */
                type $Shape = sandboxd.agent.v1.FilePullResult.$Properties;
            }

            /**
             * Properties of a FileInfo.
             * @deprecated Use sandboxd.agent.v1.FileInfo.$Properties instead.
             */
            interface IFileInfo extends sandboxd.agent.v1.FileInfo.$Properties {
            }

            /** Represents a FileInfo. */
            class FileInfo {

                /**
                 * Constructs a new FileInfo.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FileInfo.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FileInfo isSizeKnown. */
                isSizeKnown: boolean;

                /** FileInfo sizeBytes. */
                sizeBytes: number;

                /** FileInfo contentBytes. */
                contentBytes: number;

                /** FileInfo offsetBytes. */
                offsetBytes: number;

                /** FileInfo entry. */
                entry?: (sandboxd.agent.v1.FileEntry.$Properties|null);

                /**
                 * Creates a new FileInfo instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FileInfo instance
                 */
                static create(properties: sandboxd.agent.v1.FileInfo.$Shape): sandboxd.agent.v1.FileInfo & sandboxd.agent.v1.FileInfo.$Shape;
                static create(properties?: sandboxd.agent.v1.FileInfo.$Properties): sandboxd.agent.v1.FileInfo;

                /**
                 * Encodes the specified FileInfo message. Does not implicitly {@link sandboxd.agent.v1.FileInfo.verify|verify} messages.
                 * @param message FileInfo message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FileInfo.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FileInfo message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileInfo & sandboxd.agent.v1.FileInfo.$Shape} FileInfo
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FileInfo & sandboxd.agent.v1.FileInfo.$Shape;
            }

            namespace FileInfo {

                /** Properties of a FileInfo. */
                interface $Properties {

                    /** FileInfo isSizeKnown */
                    isSizeKnown?: (boolean|null);

                    /** FileInfo sizeBytes */
                    sizeBytes?: (number|null);

                    /** FileInfo contentBytes */
                    contentBytes?: (number|null);

                    /** FileInfo offsetBytes */
                    offsetBytes?: (number|null);

                    /** FileInfo entry */
                    entry?: (sandboxd.agent.v1.FileEntry.$Properties|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FileInfo. */
                type $Shape = sandboxd.agent.v1.FileInfo.$Properties;
            }

            /**
             * Properties of a DirPull.
             * @deprecated Use sandboxd.agent.v1.DirPull.$Properties instead.
             */
            interface IDirPull extends sandboxd.agent.v1.DirPull.$Properties {
            }

            /** Represents a DirPull. */
            class DirPull {

                /**
                 * Constructs a new DirPull.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.DirPull.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** DirPull path. */
                path: string;

                /**
                 * Creates a new DirPull instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns DirPull instance
                 */
                static create(properties: sandboxd.agent.v1.DirPull.$Shape): sandboxd.agent.v1.DirPull & sandboxd.agent.v1.DirPull.$Shape;
                static create(properties?: sandboxd.agent.v1.DirPull.$Properties): sandboxd.agent.v1.DirPull;

                /**
                 * Encodes the specified DirPull message. Does not implicitly {@link sandboxd.agent.v1.DirPull.verify|verify} messages.
                 * @param message DirPull message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.DirPull.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a DirPull message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.DirPull & sandboxd.agent.v1.DirPull.$Shape} DirPull
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.DirPull & sandboxd.agent.v1.DirPull.$Shape;
            }

            namespace DirPull {

                /** Properties of a DirPull. */
                interface $Properties {

                    /** DirPull path */
                    path?: (string|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a DirPull. */
                type $Shape = sandboxd.agent.v1.DirPull.$Properties;
            }

            /**
             * Properties of a DirPullResult.
             * @deprecated Use sandboxd.agent.v1.DirPullResult.$Properties instead.
             */
            interface IDirPullResult extends sandboxd.agent.v1.DirPullResult.$Properties {
            }

            /** Represents a DirPullResult. */
            class DirPullResult {

                /**
                 * Constructs a new DirPullResult.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.DirPullResult.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** DirPullResult leftOut. */
                leftOut: number;

                /**
                 * Creates a new DirPullResult instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns DirPullResult instance
                 */
                static create(properties: sandboxd.agent.v1.DirPullResult.$Shape): sandboxd.agent.v1.DirPullResult & sandboxd.agent.v1.DirPullResult.$Shape;
                static create(properties?: sandboxd.agent.v1.DirPullResult.$Properties): sandboxd.agent.v1.DirPullResult;

                /**
                 * Encodes the specified DirPullResult message. Does not implicitly {@link sandboxd.agent.v1.DirPullResult.verify|verify} messages.
                 * @param message DirPullResult message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.DirPullResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a DirPullResult message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.DirPullResult & sandboxd.agent.v1.DirPullResult.$Shape} DirPullResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.DirPullResult & sandboxd.agent.v1.DirPullResult.$Shape;
            }

            namespace DirPullResult {

                /** Properties of a DirPullResult. */
                interface $Properties {

                    /** DirPullResult leftOut */
                    leftOut?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a DirPullResult. */
                type $Shape = sandboxd.agent.v1.DirPullResult.$Properties;
            }

            /**
             * Properties of a FilePlace.
             * @deprecated Use sandboxd.agent.v1.FilePlace.$Properties instead.
             */
            interface IFilePlace extends sandboxd.agent.v1.FilePlace.$Properties {
            }

            /** Represents a FilePlace. */
            class FilePlace {

                /**
                 * Constructs a new FilePlace.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FilePlace.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FilePlace path. */
                path: Uint8Array;

                /** FilePlace root. */
                root: Uint8Array;

                /** FilePlace user. */
                user: string;

                /**
                 * Creates a new FilePlace instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FilePlace instance
                 */
                static create(properties: sandboxd.agent.v1.FilePlace.$Shape): sandboxd.agent.v1.FilePlace & sandboxd.agent.v1.FilePlace.$Shape;
                static create(properties?: sandboxd.agent.v1.FilePlace.$Properties): sandboxd.agent.v1.FilePlace;

                /**
                 * Encodes the specified FilePlace message. Does not implicitly {@link sandboxd.agent.v1.FilePlace.verify|verify} messages.
                 * @param message FilePlace message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FilePlace.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FilePlace message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FilePlace & sandboxd.agent.v1.FilePlace.$Shape} FilePlace
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FilePlace & sandboxd.agent.v1.FilePlace.$Shape;
            }

            namespace FilePlace {

                /** Properties of a FilePlace. */
                interface $Properties {

                    /** FilePlace path */
                    path?: (Uint8Array|null);

                    /** FilePlace root */
                    root?: (Uint8Array|null);

                    /** FilePlace user */
                    user?: (string|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FilePlace. */
                type $Shape = sandboxd.agent.v1.FilePlace.$Properties;
            }

            /**
             * Properties of a FileEntry.
             * @deprecated Use sandboxd.agent.v1.FileEntry.$Properties instead.
             */
            interface IFileEntry extends sandboxd.agent.v1.FileEntry.$Properties {
            }

            /** Represents a FileEntry. */
            class FileEntry {

                /**
                 * Constructs a new FileEntry.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FileEntry.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FileEntry path. */
                path: Uint8Array;

                /** FileEntry mode. */
                mode: number;

                /** FileEntry sizeBytes. */
                sizeBytes: number;

                /** FileEntry mtimeUs. */
                mtimeUs: number;

                /** FileEntry uid. */
                uid: number;

                /** FileEntry gid. */
                gid: number;

                /** FileEntry user. */
                user: string;

                /** FileEntry group. */
                group: string;

                /** FileEntry target. */
                target: Uint8Array;

                /** FileEntry links. */
                links: number;

                /** FileEntry version. */
                version: string;

                /** FileEntry attributes. */
                attributes: Uint8Array;

                /**
                 * Creates a new FileEntry instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FileEntry instance
                 */
                static create(properties: sandboxd.agent.v1.FileEntry.$Shape): sandboxd.agent.v1.FileEntry & sandboxd.agent.v1.FileEntry.$Shape;
                static create(properties?: sandboxd.agent.v1.FileEntry.$Properties): sandboxd.agent.v1.FileEntry;

                /**
                 * Encodes the specified FileEntry message. Does not implicitly {@link sandboxd.agent.v1.FileEntry.verify|verify} messages.
                 * @param message FileEntry message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FileEntry.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FileEntry message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileEntry & sandboxd.agent.v1.FileEntry.$Shape} FileEntry
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FileEntry & sandboxd.agent.v1.FileEntry.$Shape;
            }

            namespace FileEntry {

                /** Properties of a FileEntry. */
                interface $Properties {

                    /** FileEntry path */
                    path?: (Uint8Array|null);

                    /** FileEntry mode */
                    mode?: (number|null);

                    /** FileEntry sizeBytes */
                    sizeBytes?: (number|null);

                    /** FileEntry mtimeUs */
                    mtimeUs?: (number|null);

                    /** FileEntry uid */
                    uid?: (number|null);

                    /** FileEntry gid */
                    gid?: (number|null);

                    /** FileEntry user */
                    user?: (string|null);

                    /** FileEntry group */
                    group?: (string|null);

                    /** FileEntry target */
                    target?: (Uint8Array|null);

                    /** FileEntry links */
                    links?: (number|null);

                    /** FileEntry version */
                    version?: (string|null);

                    /** FileEntry attributes */
                    attributes?: (Uint8Array|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FileEntry. */
                type $Shape = sandboxd.agent.v1.FileEntry.$Properties;
            }

            /**
             * Properties of a FileAttribute.
             * @deprecated Use sandboxd.agent.v1.FileAttribute.$Properties instead.
             */
            interface IFileAttribute extends sandboxd.agent.v1.FileAttribute.$Properties {
            }

            /** Represents a FileAttribute. */
            class FileAttribute {

                /**
                 * Constructs a new FileAttribute.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FileAttribute.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FileAttribute name. */
                name: Uint8Array;

                /** FileAttribute value. */
                value?: (Uint8Array|null);

                /**
                 * Creates a new FileAttribute instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FileAttribute instance
                 */
                static create(properties: sandboxd.agent.v1.FileAttribute.$Shape): sandboxd.agent.v1.FileAttribute & sandboxd.agent.v1.FileAttribute.$Shape;
                static create(properties?: sandboxd.agent.v1.FileAttribute.$Properties): sandboxd.agent.v1.FileAttribute;

                /**
                 * Encodes the specified FileAttribute message. Does not implicitly {@link sandboxd.agent.v1.FileAttribute.verify|verify} messages.
                 * @param message FileAttribute message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FileAttribute.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FileAttribute message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileAttribute & sandboxd.agent.v1.FileAttribute.$Shape} FileAttribute
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FileAttribute & sandboxd.agent.v1.FileAttribute.$Shape;
            }

            namespace FileAttribute {

                /** Properties of a FileAttribute. */
                interface $Properties {

                    /** FileAttribute name */
                    name?: (Uint8Array|null);

                    /** FileAttribute value */
                    value?: (Uint8Array|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FileAttribute. */
                type $Shape = sandboxd.agent.v1.FileAttribute.$Properties;
            }

            /**
             * Properties of a FileCall.
             * @deprecated Use sandboxd.agent.v1.FileCall.$Properties instead.
             */
            interface IFileCall extends sandboxd.agent.v1.FileCall.$Properties {
            }

            /** Represents a FileCall. */
            class FileCall {

                /**
                 * Constructs a new FileCall.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FileCall.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FileCall place. */
                place?: (sandboxd.agent.v1.FilePlace.$Properties|null);

                /** FileCall stat. */
                stat?: (sandboxd.agent.v1.FileStat.$Properties|null);

                /** FileCall list. */
                list?: (sandboxd.agent.v1.FileList.$Properties|null);

                /** FileCall makeDirectory. */
                makeDirectory?: (sandboxd.agent.v1.MakeDirectory.$Properties|null);

                /** FileCall move. */
                move?: (sandboxd.agent.v1.FileMove.$Properties|null);

                /** FileCall copy. */
                copy?: (sandboxd.agent.v1.FileMove.$Properties|null);

                /** FileCall remove. */
                remove?: (sandboxd.agent.v1.FileRemove.$Properties|null);

                /** FileCall change. */
                change?: (sandboxd.agent.v1.FileChange.$Properties|null);

                /** FileCall operation. */
                operation?: ("stat"|"list"|"makeDirectory"|"move"|"copy"|"remove"|"change");

                /**
                 * Creates a new FileCall instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FileCall instance
                 */
                static create(properties: sandboxd.agent.v1.FileCall.$Shape): sandboxd.agent.v1.FileCall & sandboxd.agent.v1.FileCall.$Shape;
                static create(properties?: sandboxd.agent.v1.FileCall.$Properties): sandboxd.agent.v1.FileCall;

                /**
                 * Encodes the specified FileCall message. Does not implicitly {@link sandboxd.agent.v1.FileCall.verify|verify} messages.
                 * @param message FileCall message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FileCall.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FileCall message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileCall & sandboxd.agent.v1.FileCall.$Shape} FileCall
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FileCall & sandboxd.agent.v1.FileCall.$Shape;
            }

            namespace FileCall {

                /** Properties of a FileCall. */
                interface $Properties {

                    /** FileCall place */
                    place?: (sandboxd.agent.v1.FilePlace.$Properties|null);

                    /** FileCall stat */
                    stat?: (sandboxd.agent.v1.FileStat.$Properties|null);

                    /** FileCall list */
                    list?: (sandboxd.agent.v1.FileList.$Properties|null);

                    /** FileCall makeDirectory */
                    makeDirectory?: (sandboxd.agent.v1.MakeDirectory.$Properties|null);

                    /** FileCall move */
                    move?: (sandboxd.agent.v1.FileMove.$Properties|null);

                    /** FileCall copy */
                    copy?: (sandboxd.agent.v1.FileMove.$Properties|null);

                    /** FileCall remove */
                    remove?: (sandboxd.agent.v1.FileRemove.$Properties|null);

                    /** FileCall change */
                    change?: (sandboxd.agent.v1.FileChange.$Properties|null);

                    /** FileCall operation */
                    operation?: ("stat"|"list"|"makeDirectory"|"move"|"copy"|"remove"|"change");

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Narrowed shape of a FileCall. */
                type $Shape = {
                  place?: sandboxd.agent.v1.FilePlace.$Shape|null;
                  stat?: sandboxd.agent.v1.FileStat.$Shape|null;
                  list?: sandboxd.agent.v1.FileList.$Shape|null;
                  makeDirectory?: sandboxd.agent.v1.MakeDirectory.$Shape|null;
                  move?: sandboxd.agent.v1.FileMove.$Shape|null;
                  copy?: sandboxd.agent.v1.FileMove.$Shape|null;
                  remove?: sandboxd.agent.v1.FileRemove.$Shape|null;
                  change?: sandboxd.agent.v1.FileChange.$Shape|null;
                  $unknowns?: Uint8Array[];
                } & (
                  ({ operation?: undefined; stat?: null; list?: null; makeDirectory?: null; move?: null; copy?: null; remove?: null; change?: null }|{ operation?: "stat"; stat: sandboxd.agent.v1.FileStat.$Shape; list?: null; makeDirectory?: null; move?: null; copy?: null; remove?: null; change?: null }|{ operation?: "list"; stat?: null; list: sandboxd.agent.v1.FileList.$Shape; makeDirectory?: null; move?: null; copy?: null; remove?: null; change?: null }|{ operation?: "makeDirectory"; stat?: null; list?: null; makeDirectory: sandboxd.agent.v1.MakeDirectory.$Shape; move?: null; copy?: null; remove?: null; change?: null }|{ operation?: "move"; stat?: null; list?: null; makeDirectory?: null; move: sandboxd.agent.v1.FileMove.$Shape; copy?: null; remove?: null; change?: null }|{ operation?: "copy"; stat?: null; list?: null; makeDirectory?: null; move?: null; copy: sandboxd.agent.v1.FileMove.$Shape; remove?: null; change?: null }|{ operation?: "remove"; stat?: null; list?: null; makeDirectory?: null; move?: null; copy?: null; remove: sandboxd.agent.v1.FileRemove.$Shape; change?: null }|{ operation?: "change"; stat?: null; list?: null; makeDirectory?: null; move?: null; copy?: null; remove?: null; change: sandboxd.agent.v1.FileChange.$Shape })
                );
            }

            /**
             * Properties of a FileCallResult.
             * @deprecated Use sandboxd.agent.v1.FileCallResult.$Properties instead.
             */
            interface IFileCallResult extends sandboxd.agent.v1.FileCallResult.$Properties {
            }

            /** Represents a FileCallResult. */
            class FileCallResult {

                /**
                 * Constructs a new FileCallResult.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FileCallResult.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FileCallResult entry. */
                entry?: (sandboxd.agent.v1.FileEntry.$Properties|null);

                /** FileCallResult entries. */
                entries: Uint8Array;

                /** FileCallResult hasMore. */
                hasMore: boolean;

                /** FileCallResult count. */
                count: number;

                /**
                 * Creates a new FileCallResult instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FileCallResult instance
                 */
                static create(properties: sandboxd.agent.v1.FileCallResult.$Shape): sandboxd.agent.v1.FileCallResult & sandboxd.agent.v1.FileCallResult.$Shape;
                static create(properties?: sandboxd.agent.v1.FileCallResult.$Properties): sandboxd.agent.v1.FileCallResult;

                /**
                 * Encodes the specified FileCallResult message. Does not implicitly {@link sandboxd.agent.v1.FileCallResult.verify|verify} messages.
                 * @param message FileCallResult message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FileCallResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FileCallResult message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileCallResult & sandboxd.agent.v1.FileCallResult.$Shape} FileCallResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FileCallResult & sandboxd.agent.v1.FileCallResult.$Shape;
            }

            namespace FileCallResult {

                /** Properties of a FileCallResult. */
                interface $Properties {

                    /** FileCallResult entry */
                    entry?: (sandboxd.agent.v1.FileEntry.$Properties|null);

                    /** FileCallResult entries */
                    entries?: (Uint8Array|null);

                    /** FileCallResult hasMore */
                    hasMore?: (boolean|null);

                    /** FileCallResult count */
                    count?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FileCallResult. */
                type $Shape = sandboxd.agent.v1.FileCallResult.$Properties;
            }

            /**
             * Properties of a FileStat.
             * @deprecated Use sandboxd.agent.v1.FileStat.$Properties instead.
             */
            interface IFileStat extends sandboxd.agent.v1.FileStat.$Properties {
            }

            /** Represents a FileStat. */
            class FileStat {

                /**
                 * Constructs a new FileStat.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FileStat.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FileStat isLink. */
                isLink: boolean;

                /** FileStat attributes. */
                attributes: boolean;

                /**
                 * Creates a new FileStat instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FileStat instance
                 */
                static create(properties: sandboxd.agent.v1.FileStat.$Shape): sandboxd.agent.v1.FileStat & sandboxd.agent.v1.FileStat.$Shape;
                static create(properties?: sandboxd.agent.v1.FileStat.$Properties): sandboxd.agent.v1.FileStat;

                /**
                 * Encodes the specified FileStat message. Does not implicitly {@link sandboxd.agent.v1.FileStat.verify|verify} messages.
                 * @param message FileStat message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FileStat.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FileStat message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileStat & sandboxd.agent.v1.FileStat.$Shape} FileStat
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FileStat & sandboxd.agent.v1.FileStat.$Shape;
            }

            namespace FileStat {

                /** Properties of a FileStat. */
                interface $Properties {

                    /** FileStat isLink */
                    isLink?: (boolean|null);

                    /** FileStat attributes */
                    attributes?: (boolean|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FileStat. */
                type $Shape = sandboxd.agent.v1.FileStat.$Properties;
            }

            /**
             * Properties of a FileList.
             * @deprecated Use sandboxd.agent.v1.FileList.$Properties instead.
             */
            interface IFileList extends sandboxd.agent.v1.FileList.$Properties {
            }

            /** Represents a FileList. */
            class FileList {

                /**
                 * Constructs a new FileList.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FileList.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FileList depth. */
                depth: number;

                /** FileList maxEntries. */
                maxEntries: number;

                /** FileList after. */
                after: Uint8Array;

                /** FileList attributes. */
                attributes: boolean;

                /**
                 * Creates a new FileList instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FileList instance
                 */
                static create(properties: sandboxd.agent.v1.FileList.$Shape): sandboxd.agent.v1.FileList & sandboxd.agent.v1.FileList.$Shape;
                static create(properties?: sandboxd.agent.v1.FileList.$Properties): sandboxd.agent.v1.FileList;

                /**
                 * Encodes the specified FileList message. Does not implicitly {@link sandboxd.agent.v1.FileList.verify|verify} messages.
                 * @param message FileList message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FileList.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FileList message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileList & sandboxd.agent.v1.FileList.$Shape} FileList
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FileList & sandboxd.agent.v1.FileList.$Shape;
            }

            namespace FileList {

                /** Properties of a FileList. */
                interface $Properties {

                    /** FileList depth */
                    depth?: (number|null);

                    /** FileList maxEntries */
                    maxEntries?: (number|null);

                    /** FileList after */
                    after?: (Uint8Array|null);

                    /** FileList attributes */
                    attributes?: (boolean|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FileList. */
                type $Shape = sandboxd.agent.v1.FileList.$Properties;
            }

            /**
             * Properties of a MakeDirectory.
             * @deprecated Use sandboxd.agent.v1.MakeDirectory.$Properties instead.
             */
            interface IMakeDirectory extends sandboxd.agent.v1.MakeDirectory.$Properties {
            }

            /** Represents a MakeDirectory. */
            class MakeDirectory {

                /**
                 * Constructs a new MakeDirectory.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.MakeDirectory.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** MakeDirectory mode. */
                mode?: (number|null);

                /** MakeDirectory parents. */
                parents: boolean;

                /** MakeDirectory mayExist. */
                mayExist: boolean;

                /**
                 * Creates a new MakeDirectory instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns MakeDirectory instance
                 */
                static create(properties: sandboxd.agent.v1.MakeDirectory.$Shape): sandboxd.agent.v1.MakeDirectory & sandboxd.agent.v1.MakeDirectory.$Shape;
                static create(properties?: sandboxd.agent.v1.MakeDirectory.$Properties): sandboxd.agent.v1.MakeDirectory;

                /**
                 * Encodes the specified MakeDirectory message. Does not implicitly {@link sandboxd.agent.v1.MakeDirectory.verify|verify} messages.
                 * @param message MakeDirectory message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.MakeDirectory.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a MakeDirectory message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.MakeDirectory & sandboxd.agent.v1.MakeDirectory.$Shape} MakeDirectory
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.MakeDirectory & sandboxd.agent.v1.MakeDirectory.$Shape;
            }

            namespace MakeDirectory {

                /** Properties of a MakeDirectory. */
                interface $Properties {

                    /** MakeDirectory mode */
                    mode?: (number|null);

                    /** MakeDirectory parents */
                    parents?: (boolean|null);

                    /** MakeDirectory mayExist */
                    mayExist?: (boolean|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a MakeDirectory. */
                type $Shape = sandboxd.agent.v1.MakeDirectory.$Properties;
            }

            /**
             * Properties of a FileMove.
             * @deprecated Use sandboxd.agent.v1.FileMove.$Properties instead.
             */
            interface IFileMove extends sandboxd.agent.v1.FileMove.$Properties {
            }

            /** Represents a FileMove. */
            class FileMove {

                /**
                 * Constructs a new FileMove.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FileMove.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FileMove to. */
                to: Uint8Array;

                /** FileMove replaces. */
                replaces: boolean;

                /** FileMove recursive. */
                recursive: boolean;

                /**
                 * Creates a new FileMove instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FileMove instance
                 */
                static create(properties: sandboxd.agent.v1.FileMove.$Shape): sandboxd.agent.v1.FileMove & sandboxd.agent.v1.FileMove.$Shape;
                static create(properties?: sandboxd.agent.v1.FileMove.$Properties): sandboxd.agent.v1.FileMove;

                /**
                 * Encodes the specified FileMove message. Does not implicitly {@link sandboxd.agent.v1.FileMove.verify|verify} messages.
                 * @param message FileMove message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FileMove.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FileMove message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileMove & sandboxd.agent.v1.FileMove.$Shape} FileMove
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FileMove & sandboxd.agent.v1.FileMove.$Shape;
            }

            namespace FileMove {

                /** Properties of a FileMove. */
                interface $Properties {

                    /** FileMove to */
                    to?: (Uint8Array|null);

                    /** FileMove replaces */
                    replaces?: (boolean|null);

                    /** FileMove recursive */
                    recursive?: (boolean|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FileMove. */
                type $Shape = sandboxd.agent.v1.FileMove.$Properties;
            }

            /**
             * Properties of a FileRemove.
             * @deprecated Use sandboxd.agent.v1.FileRemove.$Properties instead.
             */
            interface IFileRemove extends sandboxd.agent.v1.FileRemove.$Properties {
            }

            /** Represents a FileRemove. */
            class FileRemove {

                /**
                 * Constructs a new FileRemove.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FileRemove.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FileRemove recursive. */
                recursive: boolean;

                /**
                 * Creates a new FileRemove instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FileRemove instance
                 */
                static create(properties: sandboxd.agent.v1.FileRemove.$Shape): sandboxd.agent.v1.FileRemove & sandboxd.agent.v1.FileRemove.$Shape;
                static create(properties?: sandboxd.agent.v1.FileRemove.$Properties): sandboxd.agent.v1.FileRemove;

                /**
                 * Encodes the specified FileRemove message. Does not implicitly {@link sandboxd.agent.v1.FileRemove.verify|verify} messages.
                 * @param message FileRemove message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FileRemove.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FileRemove message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileRemove & sandboxd.agent.v1.FileRemove.$Shape} FileRemove
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FileRemove & sandboxd.agent.v1.FileRemove.$Shape;
            }

            namespace FileRemove {

                /** Properties of a FileRemove. */
                interface $Properties {

                    /** FileRemove recursive */
                    recursive?: (boolean|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FileRemove. */
                type $Shape = sandboxd.agent.v1.FileRemove.$Properties;
            }

            /**
             * Properties of a FileChange.
             * @deprecated Use sandboxd.agent.v1.FileChange.$Properties instead.
             */
            interface IFileChange extends sandboxd.agent.v1.FileChange.$Properties {
            }

            /** Represents a FileChange. */
            class FileChange {

                /**
                 * Constructs a new FileChange.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FileChange.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FileChange mode. */
                mode?: (number|null);

                /** FileChange owner. */
                owner: string;

                /** FileChange mtimeUs. */
                mtimeUs?: (number|null);

                /** FileChange attributes. */
                attributes: sandboxd.agent.v1.FileAttribute.$Properties[];

                /**
                 * Creates a new FileChange instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FileChange instance
                 */
                static create(properties: sandboxd.agent.v1.FileChange.$Shape): sandboxd.agent.v1.FileChange & sandboxd.agent.v1.FileChange.$Shape;
                static create(properties?: sandboxd.agent.v1.FileChange.$Properties): sandboxd.agent.v1.FileChange;

                /**
                 * Encodes the specified FileChange message. Does not implicitly {@link sandboxd.agent.v1.FileChange.verify|verify} messages.
                 * @param message FileChange message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FileChange.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FileChange message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileChange & sandboxd.agent.v1.FileChange.$Shape} FileChange
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FileChange & sandboxd.agent.v1.FileChange.$Shape;
            }

            namespace FileChange {

                /** Properties of a FileChange. */
                interface $Properties {

                    /** FileChange mode */
                    mode?: (number|null);

                    /** FileChange owner */
                    owner?: (string|null);

                    /** FileChange mtimeUs */
                    mtimeUs?: (number|null);

                    /** FileChange attributes */
                    attributes?: (sandboxd.agent.v1.FileAttribute.$Properties[]|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FileChange. */
                type $Shape = sandboxd.agent.v1.FileChange.$Properties;
            }

            /**
             * Properties of a FileRead.
             * @deprecated Use sandboxd.agent.v1.FileRead.$Properties instead.
             */
            interface IFileRead extends sandboxd.agent.v1.FileRead.$Properties {
            }

            /** Represents a FileRead. */
            class FileRead {

                /**
                 * Constructs a new FileRead.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FileRead.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FileRead place. */
                place?: (sandboxd.agent.v1.FilePlace.$Properties|null);

                /** FileRead first. */
                first?: (number|null);

                /** FileRead last. */
                last?: (number|null);

                /** FileRead lastBytes. */
                lastBytes?: (number|null);

                /**
                 * Creates a new FileRead instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FileRead instance
                 */
                static create(properties: sandboxd.agent.v1.FileRead.$Shape): sandboxd.agent.v1.FileRead & sandboxd.agent.v1.FileRead.$Shape;
                static create(properties?: sandboxd.agent.v1.FileRead.$Properties): sandboxd.agent.v1.FileRead;

                /**
                 * Encodes the specified FileRead message. Does not implicitly {@link sandboxd.agent.v1.FileRead.verify|verify} messages.
                 * @param message FileRead message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FileRead.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FileRead message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileRead & sandboxd.agent.v1.FileRead.$Shape} FileRead
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FileRead & sandboxd.agent.v1.FileRead.$Shape;
            }

            namespace FileRead {

                /** Properties of a FileRead. */
                interface $Properties {

                    /** FileRead place */
                    place?: (sandboxd.agent.v1.FilePlace.$Properties|null);

                    /** FileRead first */
                    first?: (number|null);

                    /** FileRead last */
                    last?: (number|null);

                    /** FileRead lastBytes */
                    lastBytes?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FileRead. */
                type $Shape = sandboxd.agent.v1.FileRead.$Properties;
            }

            /**
             * Properties of a FileWrite.
             * @deprecated Use sandboxd.agent.v1.FileWrite.$Properties instead.
             */
            interface IFileWrite extends sandboxd.agent.v1.FileWrite.$Properties {
            }

            /** Represents a FileWrite. */
            class FileWrite {

                /**
                 * Constructs a new FileWrite.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FileWrite.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FileWrite place. */
                place?: (sandboxd.agent.v1.FilePlace.$Properties|null);

                /** FileWrite mode. */
                mode?: (number|null);

                /** FileWrite parents. */
                parents: boolean;

                /** FileWrite ifMatch. */
                ifMatch: string[];

                /** FileWrite ifNoneMatch. */
                ifNoneMatch: string[];

                /** FileWrite attributes. */
                attributes: sandboxd.agent.v1.FileAttribute.$Properties[];

                /**
                 * Creates a new FileWrite instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FileWrite instance
                 */
                static create(properties: sandboxd.agent.v1.FileWrite.$Shape): sandboxd.agent.v1.FileWrite & sandboxd.agent.v1.FileWrite.$Shape;
                static create(properties?: sandboxd.agent.v1.FileWrite.$Properties): sandboxd.agent.v1.FileWrite;

                /**
                 * Encodes the specified FileWrite message. Does not implicitly {@link sandboxd.agent.v1.FileWrite.verify|verify} messages.
                 * @param message FileWrite message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FileWrite.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FileWrite message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileWrite & sandboxd.agent.v1.FileWrite.$Shape} FileWrite
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FileWrite & sandboxd.agent.v1.FileWrite.$Shape;
            }

            namespace FileWrite {

                /** Properties of a FileWrite. */
                interface $Properties {

                    /** FileWrite place */
                    place?: (sandboxd.agent.v1.FilePlace.$Properties|null);

                    /** FileWrite mode */
                    mode?: (number|null);

                    /** FileWrite parents */
                    parents?: (boolean|null);

                    /** FileWrite ifMatch */
                    ifMatch?: (string[]|null);

                    /** FileWrite ifNoneMatch */
                    ifNoneMatch?: (string[]|null);

                    /** FileWrite attributes */
                    attributes?: (sandboxd.agent.v1.FileAttribute.$Properties[]|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FileWrite. */
                type $Shape = sandboxd.agent.v1.FileWrite.$Properties;
            }

            /**
             * Properties of a FileWatch.
             * @deprecated Use sandboxd.agent.v1.FileWatch.$Properties instead.
             */
            interface IFileWatch extends sandboxd.agent.v1.FileWatch.$Properties {
            }

            /** Represents a FileWatch. */
            class FileWatch {

                /**
                 * Constructs a new FileWatch.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FileWatch.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FileWatch place. */
                place?: (sandboxd.agent.v1.FilePlace.$Properties|null);

                /** FileWatch recursive. */
                recursive: boolean;

                /**
                 * Creates a new FileWatch instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FileWatch instance
                 */
                static create(properties: sandboxd.agent.v1.FileWatch.$Shape): sandboxd.agent.v1.FileWatch & sandboxd.agent.v1.FileWatch.$Shape;
                static create(properties?: sandboxd.agent.v1.FileWatch.$Properties): sandboxd.agent.v1.FileWatch;

                /**
                 * Encodes the specified FileWatch message. Does not implicitly {@link sandboxd.agent.v1.FileWatch.verify|verify} messages.
                 * @param message FileWatch message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FileWatch.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FileWatch message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileWatch & sandboxd.agent.v1.FileWatch.$Shape} FileWatch
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FileWatch & sandboxd.agent.v1.FileWatch.$Shape;
            }

            namespace FileWatch {

                /** Properties of a FileWatch. */
                interface $Properties {

                    /** FileWatch place */
                    place?: (sandboxd.agent.v1.FilePlace.$Properties|null);

                    /** FileWatch recursive */
                    recursive?: (boolean|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FileWatch. */
                type $Shape = sandboxd.agent.v1.FileWatch.$Properties;
            }

            /**
             * Properties of a FileWatchResult.
             * @deprecated Use sandboxd.agent.v1.FileWatchResult.$Properties instead.
             */
            interface IFileWatchResult extends sandboxd.agent.v1.FileWatchResult.$Properties {
            }

            /** Represents a FileWatchResult. */
            class FileWatchResult {

                /**
                 * Constructs a new FileWatchResult.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.FileWatchResult.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** FileWatchResult reason. */
                reason: sandboxd.agent.v1.FileWatchResult.Reason;

                /**
                 * Creates a new FileWatchResult instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns FileWatchResult instance
                 */
                static create(properties: sandboxd.agent.v1.FileWatchResult.$Shape): sandboxd.agent.v1.FileWatchResult & sandboxd.agent.v1.FileWatchResult.$Shape;
                static create(properties?: sandboxd.agent.v1.FileWatchResult.$Properties): sandboxd.agent.v1.FileWatchResult;

                /**
                 * Encodes the specified FileWatchResult message. Does not implicitly {@link sandboxd.agent.v1.FileWatchResult.verify|verify} messages.
                 * @param message FileWatchResult message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.FileWatchResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a FileWatchResult message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileWatchResult & sandboxd.agent.v1.FileWatchResult.$Shape} FileWatchResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.FileWatchResult & sandboxd.agent.v1.FileWatchResult.$Shape;
            }

            namespace FileWatchResult {

                /** Properties of a FileWatchResult. */
                interface $Properties {

                    /** FileWatchResult reason */
                    reason?: (sandboxd.agent.v1.FileWatchResult.Reason|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a FileWatchResult. */
                type $Shape = sandboxd.agent.v1.FileWatchResult.$Properties;

                /** Reason enum. */
                enum Reason {

                    /** UNKNOWN value */
                    UNKNOWN = 0,

                    /** REMOVED value */
                    REMOVED = 1,

                    /** UNREADABLE value */
                    UNREADABLE = 2,

                    /** TOO_MANY value */
                    TOO_MANY = 3
                }
            }

            /**
             * Properties of a GrowDisk.
             * @deprecated Use sandboxd.agent.v1.GrowDisk.$Properties instead.
             */
            interface IGrowDisk extends sandboxd.agent.v1.GrowDisk.$Properties {
            }

            /** Represents a GrowDisk. */
            class GrowDisk {

                /**
                 * Constructs a new GrowDisk.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.GrowDisk.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /**
                 * Creates a new GrowDisk instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns GrowDisk instance
                 */
                static create(properties: sandboxd.agent.v1.GrowDisk.$Shape): sandboxd.agent.v1.GrowDisk & sandboxd.agent.v1.GrowDisk.$Shape;
                static create(properties?: sandboxd.agent.v1.GrowDisk.$Properties): sandboxd.agent.v1.GrowDisk;

                /**
                 * Encodes the specified GrowDisk message. Does not implicitly {@link sandboxd.agent.v1.GrowDisk.verify|verify} messages.
                 * @param message GrowDisk message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.GrowDisk.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a GrowDisk message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.GrowDisk & sandboxd.agent.v1.GrowDisk.$Shape} GrowDisk
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.GrowDisk & sandboxd.agent.v1.GrowDisk.$Shape;
            }

            namespace GrowDisk {

                /** Properties of a GrowDisk. */
                interface $Properties {

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a GrowDisk. */
                type $Shape = sandboxd.agent.v1.GrowDisk.$Properties;
            }

            /**
             * Properties of a GrowDiskResult.
             * @deprecated Use sandboxd.agent.v1.GrowDiskResult.$Properties instead.
             */
            interface IGrowDiskResult extends sandboxd.agent.v1.GrowDiskResult.$Properties {
            }

            /** Represents a GrowDiskResult. */
            class GrowDiskResult {

                /**
                 * Constructs a new GrowDiskResult.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.GrowDiskResult.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** GrowDiskResult sizeBytes. */
                sizeBytes: number;

                /**
                 * Creates a new GrowDiskResult instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns GrowDiskResult instance
                 */
                static create(properties: sandboxd.agent.v1.GrowDiskResult.$Shape): sandboxd.agent.v1.GrowDiskResult & sandboxd.agent.v1.GrowDiskResult.$Shape;
                static create(properties?: sandboxd.agent.v1.GrowDiskResult.$Properties): sandboxd.agent.v1.GrowDiskResult;

                /**
                 * Encodes the specified GrowDiskResult message. Does not implicitly {@link sandboxd.agent.v1.GrowDiskResult.verify|verify} messages.
                 * @param message GrowDiskResult message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.GrowDiskResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a GrowDiskResult message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.GrowDiskResult & sandboxd.agent.v1.GrowDiskResult.$Shape} GrowDiskResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.GrowDiskResult & sandboxd.agent.v1.GrowDiskResult.$Shape;
            }

            namespace GrowDiskResult {

                /** Properties of a GrowDiskResult. */
                interface $Properties {

                    /** GrowDiskResult sizeBytes */
                    sizeBytes?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a GrowDiskResult. */
                type $Shape = sandboxd.agent.v1.GrowDiskResult.$Properties;
            }

            /**
             * Properties of a PortConnect.
             * @deprecated Use sandboxd.agent.v1.PortConnect.$Properties instead.
             */
            interface IPortConnect extends sandboxd.agent.v1.PortConnect.$Properties {
            }

            /** Represents a PortConnect. */
            class PortConnect {

                /**
                 * Constructs a new PortConnect.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.PortConnect.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** PortConnect port. */
                port: number;

                /** PortConnect window. */
                window: number;

                /**
                 * Creates a new PortConnect instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns PortConnect instance
                 */
                static create(properties: sandboxd.agent.v1.PortConnect.$Shape): sandboxd.agent.v1.PortConnect & sandboxd.agent.v1.PortConnect.$Shape;
                static create(properties?: sandboxd.agent.v1.PortConnect.$Properties): sandboxd.agent.v1.PortConnect;

                /**
                 * Encodes the specified PortConnect message. Does not implicitly {@link sandboxd.agent.v1.PortConnect.verify|verify} messages.
                 * @param message PortConnect message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.PortConnect.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a PortConnect message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.PortConnect & sandboxd.agent.v1.PortConnect.$Shape} PortConnect
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.PortConnect & sandboxd.agent.v1.PortConnect.$Shape;
            }

            namespace PortConnect {

                /** Properties of a PortConnect. */
                interface $Properties {

                    /** PortConnect port */
                    port?: (number|null);

                    /** PortConnect window */
                    window?: (number|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a PortConnect. */
                type $Shape = sandboxd.agent.v1.PortConnect.$Properties;
            }

            /**
             * Properties of a PortConnectResult.
             * @deprecated Use sandboxd.agent.v1.PortConnectResult.$Properties instead.
             */
            interface IPortConnectResult extends sandboxd.agent.v1.PortConnectResult.$Properties {
            }

            /** Represents a PortConnectResult. */
            class PortConnectResult {

                /**
                 * Constructs a new PortConnectResult.
                 * @param [properties] Properties to set
                 */
                constructor(properties?: sandboxd.agent.v1.PortConnectResult.$Properties);

                /** Unknown fields preserved while decoding when enabled */
                $unknowns?: Uint8Array[];

                /** PortConnectResult isReset. */
                isReset: boolean;

                /**
                 * Creates a new PortConnectResult instance using the specified properties.
                 * @param [properties] Properties to set
                 * @returns PortConnectResult instance
                 */
                static create(properties: sandboxd.agent.v1.PortConnectResult.$Shape): sandboxd.agent.v1.PortConnectResult & sandboxd.agent.v1.PortConnectResult.$Shape;
                static create(properties?: sandboxd.agent.v1.PortConnectResult.$Properties): sandboxd.agent.v1.PortConnectResult;

                /**
                 * Encodes the specified PortConnectResult message. Does not implicitly {@link sandboxd.agent.v1.PortConnectResult.verify|verify} messages.
                 * @param message PortConnectResult message or plain object to encode
                 * @param [writer] Writer to encode to
                 * @returns Writer
                 */
                static encode(message: sandboxd.agent.v1.PortConnectResult.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

                /**
                 * Decodes a PortConnectResult message from the specified reader or buffer.
                 * @param reader Reader or buffer to decode from
                 * @param [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.PortConnectResult & sandboxd.agent.v1.PortConnectResult.$Shape} PortConnectResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): sandboxd.agent.v1.PortConnectResult & sandboxd.agent.v1.PortConnectResult.$Shape;
            }

            namespace PortConnectResult {

                /** Properties of a PortConnectResult. */
                interface $Properties {

                    /** PortConnectResult isReset */
                    isReset?: (boolean|null);

                    /** Unknown fields preserved while decoding when enabled */
                    $unknowns?: Uint8Array[];
                }

                /** Shape of a PortConnectResult. */
                type $Shape = sandboxd.agent.v1.PortConnectResult.$Properties;
            }
        }
    }
}
