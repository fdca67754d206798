/*eslint-disable block-scoped-var, id-length, no-control-regex, no-magic-numbers, no-mixed-operators, no-prototype-builtins, no-redeclare, no-shadow, no-var, sort-vars, default-case, jsdoc/require-param*/
import $protobuf from "protobufjs/minimal.js";

// Common aliases
const $Reader = $protobuf.Reader, $Writer = $protobuf.Writer, $util = $protobuf.util;
const $Object = $util.global.Object, $undefined = $util.global.undefined, $Error = $util.global.Error, $RangeError = $util.global.RangeError;

// Exported root namespace
const $root = $protobuf.roots["default"] || ($protobuf.roots["default"] = {});

export const sandboxd = $root.sandboxd = (() => {

    /**
     * Namespace sandboxd.
     * @exports sandboxd
     * @namespace
     */
    const sandboxd = {};

    sandboxd.agent = (function() {

        /**
         * Namespace agent.
         * @memberof sandboxd
         * @namespace
         */
        const agent = {};

        agent.v1 = (function() {

            /**
             * Namespace v1.
             * @memberof sandboxd.agent
             * @namespace
             */
            const v1 = {};

            v1.Frame = (function() {

                /**
                 * Properties of a Frame.
                 * @typedef {Object} sandboxd.agent.v1.Frame.$Properties
                 * @property {number|null} [stream] Frame stream
                 * @property {number|null} [flow] Frame flow
                 * @property {Uint8Array|null} [data] Frame data
                 * @property {sandboxd.agent.v1.End.$Properties|null} [end] Frame end
                 * @property {number|null} [credit] Frame credit
                 * @property {sandboxd.agent.v1.Hello.$Properties|null} [hello] Frame hello
                 * @property {sandboxd.agent.v1.Request.$Properties|null} [request] Frame request
                 * @property {sandboxd.agent.v1.Cancel.$Properties|null} [cancel] Frame cancel
                 * @property {sandboxd.agent.v1.Signal.$Properties|null} [signal] Frame signal
                 * @property {sandboxd.agent.v1.TtySize.$Properties|null} [resize] Frame resize
                 * @property {sandboxd.agent.v1.Ping.$Properties|null} [ping] Frame ping
                 * @property {sandboxd.agent.v1.HelloReply.$Properties|null} [helloReply] Frame helloReply
                 * @property {sandboxd.agent.v1.Started.$Properties|null} [started] Frame started
                 * @property {sandboxd.agent.v1.Result.$Properties|null} [result] Frame result
                 * @property {sandboxd.agent.v1.Pong.$Properties|null} [pong] Frame pong
                 * @property {sandboxd.agent.v1.Part.$Properties|null} [part] Frame part
                 * @property {boolean|null} [whole] Frame whole
                 * @property {"data"|"end"|"credit"|"hello"|"request"|"cancel"|"signal"|"resize"|"ping"|"helloReply"|"started"|"result"|"pong"|"part"} [body] Frame body
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a Frame.
                 * @memberof sandboxd.agent.v1
                 * @interface IFrame
                 * @augments sandboxd.agent.v1.Frame.$Properties
                 * @deprecated Use sandboxd.agent.v1.Frame.$Properties instead.
                 */

                /**
                 * Narrowed shape of a Frame.
                 * @typedef {{
                 *   stream?: number|null;
                 *   flow?: number|null;
                 *   data?: Uint8Array|null;
                 *   end?: sandboxd.agent.v1.End.$Shape|null;
                 *   credit?: number|null;
                 *   hello?: sandboxd.agent.v1.Hello.$Shape|null;
                 *   request?: sandboxd.agent.v1.Request.$Shape|null;
                 *   cancel?: sandboxd.agent.v1.Cancel.$Shape|null;
                 *   signal?: sandboxd.agent.v1.Signal.$Shape|null;
                 *   resize?: sandboxd.agent.v1.TtySize.$Shape|null;
                 *   ping?: sandboxd.agent.v1.Ping.$Shape|null;
                 *   helloReply?: sandboxd.agent.v1.HelloReply.$Shape|null;
                 *   started?: sandboxd.agent.v1.Started.$Shape|null;
                 *   result?: sandboxd.agent.v1.Result.$Shape|null;
                 *   pong?: sandboxd.agent.v1.Pong.$Shape|null;
                 *   part?: sandboxd.agent.v1.Part.$Shape|null;
                 *   whole?: boolean|null;
                 *   $unknowns?: Array.<Uint8Array>;
                 * } & (
                 *   ({ body?: undefined; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "data"; data: Uint8Array; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "end"; data?: null; end: sandboxd.agent.v1.End.$Shape; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "credit"; data?: null; end?: null; credit: number; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "hello"; data?: null; end?: null; credit?: null; hello: sandboxd.agent.v1.Hello.$Shape; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "request"; data?: null; end?: null; credit?: null; hello?: null; request: sandboxd.agent.v1.Request.$Shape; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "cancel"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel: sandboxd.agent.v1.Cancel.$Shape; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "signal"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal: sandboxd.agent.v1.Signal.$Shape; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "resize"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize: sandboxd.agent.v1.TtySize.$Shape; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "ping"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping: sandboxd.agent.v1.Ping.$Shape; helloReply?: null; started?: null; result?: null; pong?: null; part?: null }|{ body?: "helloReply"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply: sandboxd.agent.v1.HelloReply.$Shape; started?: null; result?: null; pong?: null; part?: null }|{ body?: "started"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started: sandboxd.agent.v1.Started.$Shape; result?: null; pong?: null; part?: null }|{ body?: "result"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result: sandboxd.agent.v1.Result.$Shape; pong?: null; part?: null }|{ body?: "pong"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong: sandboxd.agent.v1.Pong.$Shape; part?: null }|{ body?: "part"; data?: null; end?: null; credit?: null; hello?: null; request?: null; cancel?: null; signal?: null; resize?: null; ping?: null; helloReply?: null; started?: null; result?: null; pong?: null; part: sandboxd.agent.v1.Part.$Shape })
                 * )} sandboxd.agent.v1.Frame.$Shape
                 */

                /**
                 * Constructs a new Frame.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a Frame.
                 * @constructor
                 * @param {sandboxd.agent.v1.Frame.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Frame = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Frame stream.
                 * @member {number} stream
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                Frame.prototype.stream = 0;

                /**
                 * Frame flow.
                 * @member {number} flow
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                Frame.prototype.flow = 0;

                /**
                 * Frame data.
                 * @member {Uint8Array|null|undefined} data
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                Frame.prototype.data = null;

                /**
                 * Frame end.
                 * @member {sandboxd.agent.v1.End.$Properties|null|undefined} end
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                Frame.prototype.end = null;

                /**
                 * Frame credit.
                 * @member {number|null|undefined} credit
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                Frame.prototype.credit = null;

                /**
                 * Frame hello.
                 * @member {sandboxd.agent.v1.Hello.$Properties|null|undefined} hello
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                Frame.prototype.hello = null;

                /**
                 * Frame request.
                 * @member {sandboxd.agent.v1.Request.$Properties|null|undefined} request
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                Frame.prototype.request = null;

                /**
                 * Frame cancel.
                 * @member {sandboxd.agent.v1.Cancel.$Properties|null|undefined} cancel
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                Frame.prototype.cancel = null;

                /**
                 * Frame signal.
                 * @member {sandboxd.agent.v1.Signal.$Properties|null|undefined} signal
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                Frame.prototype.signal = null;

                /**
                 * Frame resize.
                 * @member {sandboxd.agent.v1.TtySize.$Properties|null|undefined} resize
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                Frame.prototype.resize = null;

                /**
                 * Frame ping.
                 * @member {sandboxd.agent.v1.Ping.$Properties|null|undefined} ping
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                Frame.prototype.ping = null;

                /**
                 * Frame helloReply.
                 * @member {sandboxd.agent.v1.HelloReply.$Properties|null|undefined} helloReply
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                Frame.prototype.helloReply = null;

                /**
                 * Frame started.
                 * @member {sandboxd.agent.v1.Started.$Properties|null|undefined} started
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                Frame.prototype.started = null;

                /**
                 * Frame result.
                 * @member {sandboxd.agent.v1.Result.$Properties|null|undefined} result
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                Frame.prototype.result = null;

                /**
                 * Frame pong.
                 * @member {sandboxd.agent.v1.Pong.$Properties|null|undefined} pong
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                Frame.prototype.pong = null;

                /**
                 * Frame part.
                 * @member {sandboxd.agent.v1.Part.$Properties|null|undefined} part
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                Frame.prototype.part = null;

                /**
                 * Frame whole.
                 * @member {boolean} whole
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                Frame.prototype.whole = false;

                // OneOf field names bound to virtual getters and setters
                let $oneOfFields;

                /**
                 * Frame body.
                 * @member {"data"|"end"|"credit"|"hello"|"request"|"cancel"|"signal"|"resize"|"ping"|"helloReply"|"started"|"result"|"pong"|"part"|undefined} body
                 * @memberof sandboxd.agent.v1.Frame
                 * @instance
                 */
                $Object.defineProperty(Frame.prototype, "body", {
                    get: $util.oneOfGetter($oneOfFields = ["data", "end", "credit", "hello", "request", "cancel", "signal", "resize", "ping", "helloReply", "started", "result", "pong", "part"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                /**
                 * Creates a new Frame instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Frame
                 * @static
                 * @param {sandboxd.agent.v1.Frame.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Frame} Frame instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Frame.$Shape): sandboxd.agent.v1.Frame & sandboxd.agent.v1.Frame.$Shape;
                 *   (properties?: sandboxd.agent.v1.Frame.$Properties): sandboxd.agent.v1.Frame;
                 * }}
                 */
                Frame.create = function(properties) {
                    return new Frame(properties);
                };

                /**
                 * Encodes the specified Frame message. Does not implicitly {@link sandboxd.agent.v1.Frame.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Frame
                 * @static
                 * @param {sandboxd.agent.v1.Frame.$Properties} message Frame message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Frame.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.stream != null && $Object.hasOwnProperty.call(message, "stream") && message.stream !== 0)
                        writer.uint32(/* id 1, wireType 0 =*/8).uint32(message.stream);
                    if (message.flow != null && $Object.hasOwnProperty.call(message, "flow") && message.flow !== 0)
                        writer.uint32(/* id 2, wireType 0 =*/16).uint32(message.flow);
                    if (message.data != null && $Object.hasOwnProperty.call(message, "data"))
                        writer.uint32(/* id 3, wireType 2 =*/26).bytes(message.data);
                    if (message.end != null && $Object.hasOwnProperty.call(message, "end"))
                        $root.sandboxd.agent.v1.End.encode(message.end, writer.uint32(/* id 4, wireType 2 =*/34).fork(), _depth + 1).ldelim();
                    if (message.credit != null && $Object.hasOwnProperty.call(message, "credit"))
                        writer.uint32(/* id 5, wireType 0 =*/40).uint32(message.credit);
                    if (message.hello != null && $Object.hasOwnProperty.call(message, "hello"))
                        $root.sandboxd.agent.v1.Hello.encode(message.hello, writer.uint32(/* id 6, wireType 2 =*/50).fork(), _depth + 1).ldelim();
                    if (message.request != null && $Object.hasOwnProperty.call(message, "request"))
                        $root.sandboxd.agent.v1.Request.encode(message.request, writer.uint32(/* id 7, wireType 2 =*/58).fork(), _depth + 1).ldelim();
                    if (message.cancel != null && $Object.hasOwnProperty.call(message, "cancel"))
                        $root.sandboxd.agent.v1.Cancel.encode(message.cancel, writer.uint32(/* id 8, wireType 2 =*/66).fork(), _depth + 1).ldelim();
                    if (message.signal != null && $Object.hasOwnProperty.call(message, "signal"))
                        $root.sandboxd.agent.v1.Signal.encode(message.signal, writer.uint32(/* id 9, wireType 2 =*/74).fork(), _depth + 1).ldelim();
                    if (message.resize != null && $Object.hasOwnProperty.call(message, "resize"))
                        $root.sandboxd.agent.v1.TtySize.encode(message.resize, writer.uint32(/* id 10, wireType 2 =*/82).fork(), _depth + 1).ldelim();
                    if (message.ping != null && $Object.hasOwnProperty.call(message, "ping"))
                        $root.sandboxd.agent.v1.Ping.encode(message.ping, writer.uint32(/* id 11, wireType 2 =*/90).fork(), _depth + 1).ldelim();
                    if (message.helloReply != null && $Object.hasOwnProperty.call(message, "helloReply"))
                        $root.sandboxd.agent.v1.HelloReply.encode(message.helloReply, writer.uint32(/* id 12, wireType 2 =*/98).fork(), _depth + 1).ldelim();
                    if (message.started != null && $Object.hasOwnProperty.call(message, "started"))
                        $root.sandboxd.agent.v1.Started.encode(message.started, writer.uint32(/* id 13, wireType 2 =*/106).fork(), _depth + 1).ldelim();
                    if (message.result != null && $Object.hasOwnProperty.call(message, "result"))
                        $root.sandboxd.agent.v1.Result.encode(message.result, writer.uint32(/* id 14, wireType 2 =*/114).fork(), _depth + 1).ldelim();
                    if (message.pong != null && $Object.hasOwnProperty.call(message, "pong"))
                        $root.sandboxd.agent.v1.Pong.encode(message.pong, writer.uint32(/* id 15, wireType 2 =*/122).fork(), _depth + 1).ldelim();
                    if (message.part != null && $Object.hasOwnProperty.call(message, "part"))
                        $root.sandboxd.agent.v1.Part.encode(message.part, writer.uint32(/* id 16, wireType 2 =*/130).fork(), _depth + 1).ldelim();
                    if (message.whole != null && $Object.hasOwnProperty.call(message, "whole") && message.whole !== false)
                        writer.uint32(/* id 17, wireType 0 =*/136).bool(message.whole);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a Frame message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Frame
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Frame & sandboxd.agent.v1.Frame.$Shape} Frame
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Frame.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Frame();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.stream = value;
                                else
                                    delete message.stream;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.flow = value;
                                else
                                    delete message.flow;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                message.data = reader.bytes();
                                message.body = "data";
                                continue;
                            }
                        case 4: {
                                if (wireType !== 2)
                                    break;
                                message.end = $root.sandboxd.agent.v1.End.decode(reader, reader.size(), $undefined, _depth + 1, message.end);
                                message.body = "end";
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                message.credit = reader.uint32();
                                message.body = "credit";
                                continue;
                            }
                        case 6: {
                                if (wireType !== 2)
                                    break;
                                message.hello = $root.sandboxd.agent.v1.Hello.decode(reader, reader.size(), $undefined, _depth + 1, message.hello);
                                message.body = "hello";
                                continue;
                            }
                        case 7: {
                                if (wireType !== 2)
                                    break;
                                message.request = $root.sandboxd.agent.v1.Request.decode(reader, reader.size(), $undefined, _depth + 1, message.request);
                                message.body = "request";
                                continue;
                            }
                        case 8: {
                                if (wireType !== 2)
                                    break;
                                message.cancel = $root.sandboxd.agent.v1.Cancel.decode(reader, reader.size(), $undefined, _depth + 1, message.cancel);
                                message.body = "cancel";
                                continue;
                            }
                        case 9: {
                                if (wireType !== 2)
                                    break;
                                message.signal = $root.sandboxd.agent.v1.Signal.decode(reader, reader.size(), $undefined, _depth + 1, message.signal);
                                message.body = "signal";
                                continue;
                            }
                        case 10: {
                                if (wireType !== 2)
                                    break;
                                message.resize = $root.sandboxd.agent.v1.TtySize.decode(reader, reader.size(), $undefined, _depth + 1, message.resize);
                                message.body = "resize";
                                continue;
                            }
                        case 11: {
                                if (wireType !== 2)
                                    break;
                                message.ping = $root.sandboxd.agent.v1.Ping.decode(reader, reader.size(), $undefined, _depth + 1, message.ping);
                                message.body = "ping";
                                continue;
                            }
                        case 12: {
                                if (wireType !== 2)
                                    break;
                                message.helloReply = $root.sandboxd.agent.v1.HelloReply.decode(reader, reader.size(), $undefined, _depth + 1, message.helloReply);
                                message.body = "helloReply";
                                continue;
                            }
                        case 13: {
                                if (wireType !== 2)
                                    break;
                                message.started = $root.sandboxd.agent.v1.Started.decode(reader, reader.size(), $undefined, _depth + 1, message.started);
                                message.body = "started";
                                continue;
                            }
                        case 14: {
                                if (wireType !== 2)
                                    break;
                                message.result = $root.sandboxd.agent.v1.Result.decode(reader, reader.size(), $undefined, _depth + 1, message.result);
                                message.body = "result";
                                continue;
                            }
                        case 15: {
                                if (wireType !== 2)
                                    break;
                                message.pong = $root.sandboxd.agent.v1.Pong.decode(reader, reader.size(), $undefined, _depth + 1, message.pong);
                                message.body = "pong";
                                continue;
                            }
                        case 16: {
                                if (wireType !== 2)
                                    break;
                                message.part = $root.sandboxd.agent.v1.Part.decode(reader, reader.size(), $undefined, _depth + 1, message.part);
                                message.body = "part";
                                continue;
                            }
                        case 17: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.whole = value;
                                else
                                    delete message.whole;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Frame;
            })();

            /**
             * Flow enum.
             * @name sandboxd.agent.v1.Flow
             * @enum {number}
             * @property {number} FLOW_IN=0 FLOW_IN value
             * @property {number} FLOW_OUT=1 FLOW_OUT value
             * @property {number} FLOW_ERR=2 FLOW_ERR value
             */
            v1.Flow = (function() {
                const valuesById = $Object.create(null), values = $Object.create(valuesById);
                values[valuesById[0] = "FLOW_IN"] = 0;
                values[valuesById[1] = "FLOW_OUT"] = 1;
                values[valuesById[2] = "FLOW_ERR"] = 2;
                return values;
            })();

            v1.End = (function() {

                /**
                 * Properties of an End.
                 * @typedef {Object} sandboxd.agent.v1.End.$Properties
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of an End.
                 * @memberof sandboxd.agent.v1
                 * @interface IEnd
                 * @augments sandboxd.agent.v1.End.$Properties
                 * @deprecated Use sandboxd.agent.v1.End.$Properties instead.
                 */

                /**
                 * Shape of an End.
                 * @typedef {sandboxd.agent.v1.End.$Properties} sandboxd.agent.v1.End.$Shape
                 */

                /**
                 * Constructs a new End.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents an End.
                 * @constructor
                 * @param {sandboxd.agent.v1.End.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const End = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Creates a new End instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.End
                 * @static
                 * @param {sandboxd.agent.v1.End.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.End} End instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.End.$Shape): sandboxd.agent.v1.End & sandboxd.agent.v1.End.$Shape;
                 *   (properties?: sandboxd.agent.v1.End.$Properties): sandboxd.agent.v1.End;
                 * }}
                 */
                End.create = function(properties) {
                    return new End(properties);
                };

                /**
                 * Encodes the specified End message. Does not implicitly {@link sandboxd.agent.v1.End.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.End
                 * @static
                 * @param {sandboxd.agent.v1.End.$Properties} message End message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                End.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes an End message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.End
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.End & sandboxd.agent.v1.End.$Shape} End
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                End.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.End();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        reader.skipType(tag & 7, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return End;
            })();

            v1.Part = (function() {

                /**
                 * Properties of a Part.
                 * @typedef {Object} sandboxd.agent.v1.Part.$Properties
                 * @property {Uint8Array|null} [bytes] Part bytes
                 * @property {boolean|null} [last] Part last
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a Part.
                 * @memberof sandboxd.agent.v1
                 * @interface IPart
                 * @augments sandboxd.agent.v1.Part.$Properties
                 * @deprecated Use sandboxd.agent.v1.Part.$Properties instead.
                 */

                /**
                 * Shape of a Part.
                 * @typedef {sandboxd.agent.v1.Part.$Properties} sandboxd.agent.v1.Part.$Shape
                 */

                /**
                 * Constructs a new Part.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a Part.
                 * @constructor
                 * @param {sandboxd.agent.v1.Part.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Part = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Part bytes.
                 * @member {Uint8Array} bytes
                 * @memberof sandboxd.agent.v1.Part
                 * @instance
                 */
                Part.prototype.bytes = $util.newBuffer([]);

                /**
                 * Part last.
                 * @member {boolean} last
                 * @memberof sandboxd.agent.v1.Part
                 * @instance
                 */
                Part.prototype.last = false;

                /**
                 * Creates a new Part instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Part
                 * @static
                 * @param {sandboxd.agent.v1.Part.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Part} Part instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Part.$Shape): sandboxd.agent.v1.Part & sandboxd.agent.v1.Part.$Shape;
                 *   (properties?: sandboxd.agent.v1.Part.$Properties): sandboxd.agent.v1.Part;
                 * }}
                 */
                Part.create = function(properties) {
                    return new Part(properties);
                };

                /**
                 * Encodes the specified Part message. Does not implicitly {@link sandboxd.agent.v1.Part.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Part
                 * @static
                 * @param {sandboxd.agent.v1.Part.$Properties} message Part message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Part.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.bytes != null && $Object.hasOwnProperty.call(message, "bytes") && message.bytes.length)
                        writer.uint32(/* id 1, wireType 2 =*/10).bytes(message.bytes);
                    if (message.last != null && $Object.hasOwnProperty.call(message, "last") && message.last !== false)
                        writer.uint32(/* id 2, wireType 0 =*/16).bool(message.last);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a Part message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Part
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Part & sandboxd.agent.v1.Part.$Shape} Part
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Part.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Part();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.bytes = value;
                                else
                                    delete message.bytes;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.last = value;
                                else
                                    delete message.last;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Part;
            })();

            v1.Hello = (function() {

                /**
                 * Properties of a Hello.
                 * @typedef {Object} sandboxd.agent.v1.Hello.$Properties
                 * @property {number|null} [version] Hello version
                 * @property {Uint8Array|null} [nonce] Hello nonce
                 * @property {string|null} [incarnation] Hello incarnation
                 * @property {number|null} [window] Hello window
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a Hello.
                 * @memberof sandboxd.agent.v1
                 * @interface IHello
                 * @augments sandboxd.agent.v1.Hello.$Properties
                 * @deprecated Use sandboxd.agent.v1.Hello.$Properties instead.
                 */

                /**
                 * Shape of a Hello.
                 * @typedef {sandboxd.agent.v1.Hello.$Properties} sandboxd.agent.v1.Hello.$Shape
                 */

                /**
                 * Constructs a new Hello.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a Hello.
                 * @constructor
                 * @param {sandboxd.agent.v1.Hello.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Hello = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Hello version.
                 * @member {number} version
                 * @memberof sandboxd.agent.v1.Hello
                 * @instance
                 */
                Hello.prototype.version = 0;

                /**
                 * Hello nonce.
                 * @member {Uint8Array} nonce
                 * @memberof sandboxd.agent.v1.Hello
                 * @instance
                 */
                Hello.prototype.nonce = $util.newBuffer([]);

                /**
                 * Hello incarnation.
                 * @member {string} incarnation
                 * @memberof sandboxd.agent.v1.Hello
                 * @instance
                 */
                Hello.prototype.incarnation = "";

                /**
                 * Hello window.
                 * @member {number} window
                 * @memberof sandboxd.agent.v1.Hello
                 * @instance
                 */
                Hello.prototype.window = 0;

                /**
                 * Creates a new Hello instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Hello
                 * @static
                 * @param {sandboxd.agent.v1.Hello.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Hello} Hello instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Hello.$Shape): sandboxd.agent.v1.Hello & sandboxd.agent.v1.Hello.$Shape;
                 *   (properties?: sandboxd.agent.v1.Hello.$Properties): sandboxd.agent.v1.Hello;
                 * }}
                 */
                Hello.create = function(properties) {
                    return new Hello(properties);
                };

                /**
                 * Encodes the specified Hello message. Does not implicitly {@link sandboxd.agent.v1.Hello.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Hello
                 * @static
                 * @param {sandboxd.agent.v1.Hello.$Properties} message Hello message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Hello.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.version != null && $Object.hasOwnProperty.call(message, "version") && message.version !== 0)
                        writer.uint32(/* id 1, wireType 0 =*/8).uint32(message.version);
                    if (message.nonce != null && $Object.hasOwnProperty.call(message, "nonce") && message.nonce.length)
                        writer.uint32(/* id 2, wireType 2 =*/18).bytes(message.nonce);
                    if (message.incarnation != null && $Object.hasOwnProperty.call(message, "incarnation") && message.incarnation !== "")
                        writer.uint32(/* id 3, wireType 2 =*/26).string(message.incarnation);
                    if (message.window != null && $Object.hasOwnProperty.call(message, "window") && message.window !== 0)
                        writer.uint32(/* id 4, wireType 0 =*/32).uint32(message.window);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a Hello message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Hello
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Hello & sandboxd.agent.v1.Hello.$Shape} Hello
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Hello.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Hello();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.version = value;
                                else
                                    delete message.version;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.nonce = value;
                                else
                                    delete message.nonce;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.incarnation = value;
                                else
                                    delete message.incarnation;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.window = value;
                                else
                                    delete message.window;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Hello;
            })();

            v1.HelloReply = (function() {

                /**
                 * Properties of a HelloReply.
                 * @typedef {Object} sandboxd.agent.v1.HelloReply.$Properties
                 * @property {number|null} [version] HelloReply version
                 * @property {Uint8Array|null} [nonce] HelloReply nonce
                 * @property {Array.<string>|null} [capabilities] HelloReply capabilities
                 * @property {number|null} [window] HelloReply window
                 * @property {string|null} [agentVersion] HelloReply agentVersion
                 * @property {string|null} [bootId] HelloReply bootId
                 * @property {number|null} [agentStartUs] HelloReply agentStartUs
                 * @property {number|null} [agentReadyUs] HelloReply agentReadyUs
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a HelloReply.
                 * @memberof sandboxd.agent.v1
                 * @interface IHelloReply
                 * @augments sandboxd.agent.v1.HelloReply.$Properties
                 * @deprecated Use sandboxd.agent.v1.HelloReply.$Properties instead.
                 */

                /**
                 * Shape of a HelloReply.
                 * @typedef {sandboxd.agent.v1.HelloReply.$Properties} sandboxd.agent.v1.HelloReply.$Shape
                 */

                /**
                 * Constructs a new HelloReply.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a HelloReply.
                 * @constructor
                 * @param {sandboxd.agent.v1.HelloReply.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const HelloReply = function (properties) {
                    this.capabilities = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * HelloReply version.
                 * @member {number} version
                 * @memberof sandboxd.agent.v1.HelloReply
                 * @instance
                 */
                HelloReply.prototype.version = 0;

                /**
                 * HelloReply nonce.
                 * @member {Uint8Array} nonce
                 * @memberof sandboxd.agent.v1.HelloReply
                 * @instance
                 */
                HelloReply.prototype.nonce = $util.newBuffer([]);

                /**
                 * HelloReply capabilities.
                 * @member {Array.<string>} capabilities
                 * @memberof sandboxd.agent.v1.HelloReply
                 * @instance
                 */
                HelloReply.prototype.capabilities = $util.emptyArray;

                /**
                 * HelloReply window.
                 * @member {number} window
                 * @memberof sandboxd.agent.v1.HelloReply
                 * @instance
                 */
                HelloReply.prototype.window = 0;

                /**
                 * HelloReply agentVersion.
                 * @member {string} agentVersion
                 * @memberof sandboxd.agent.v1.HelloReply
                 * @instance
                 */
                HelloReply.prototype.agentVersion = "";

                /**
                 * HelloReply bootId.
                 * @member {string} bootId
                 * @memberof sandboxd.agent.v1.HelloReply
                 * @instance
                 */
                HelloReply.prototype.bootId = "";

                /**
                 * HelloReply agentStartUs.
                 * @member {number} agentStartUs
                 * @memberof sandboxd.agent.v1.HelloReply
                 * @instance
                 */
                HelloReply.prototype.agentStartUs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * HelloReply agentReadyUs.
                 * @member {number} agentReadyUs
                 * @memberof sandboxd.agent.v1.HelloReply
                 * @instance
                 */
                HelloReply.prototype.agentReadyUs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * Creates a new HelloReply instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.HelloReply
                 * @static
                 * @param {sandboxd.agent.v1.HelloReply.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.HelloReply} HelloReply instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.HelloReply.$Shape): sandboxd.agent.v1.HelloReply & sandboxd.agent.v1.HelloReply.$Shape;
                 *   (properties?: sandboxd.agent.v1.HelloReply.$Properties): sandboxd.agent.v1.HelloReply;
                 * }}
                 */
                HelloReply.create = function(properties) {
                    return new HelloReply(properties);
                };

                /**
                 * Encodes the specified HelloReply message. Does not implicitly {@link sandboxd.agent.v1.HelloReply.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.HelloReply
                 * @static
                 * @param {sandboxd.agent.v1.HelloReply.$Properties} message HelloReply message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                HelloReply.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.version != null && $Object.hasOwnProperty.call(message, "version") && message.version !== 0)
                        writer.uint32(/* id 1, wireType 0 =*/8).uint32(message.version);
                    if (message.nonce != null && $Object.hasOwnProperty.call(message, "nonce") && message.nonce.length)
                        writer.uint32(/* id 2, wireType 2 =*/18).bytes(message.nonce);
                    if (message.capabilities != null && message.capabilities.length)
                        for (let i = 0; i < message.capabilities.length; ++i)
                            writer.uint32(/* id 3, wireType 2 =*/26).string(message.capabilities[i]);
                    if (message.window != null && $Object.hasOwnProperty.call(message, "window") && message.window !== 0)
                        writer.uint32(/* id 4, wireType 0 =*/32).uint32(message.window);
                    if (message.agentVersion != null && $Object.hasOwnProperty.call(message, "agentVersion") && message.agentVersion !== "")
                        writer.uint32(/* id 5, wireType 2 =*/42).string(message.agentVersion);
                    if (message.bootId != null && $Object.hasOwnProperty.call(message, "bootId") && message.bootId !== "")
                        writer.uint32(/* id 6, wireType 2 =*/50).string(message.bootId);
                    if (message.agentStartUs != null && $Object.hasOwnProperty.call(message, "agentStartUs") && (typeof message.agentStartUs === "object" ? message.agentStartUs.low || message.agentStartUs.high : message.agentStartUs !== 0))
                        writer.uint32(/* id 7, wireType 0 =*/56).uint64(message.agentStartUs);
                    if (message.agentReadyUs != null && $Object.hasOwnProperty.call(message, "agentReadyUs") && (typeof message.agentReadyUs === "object" ? message.agentReadyUs.low || message.agentReadyUs.high : message.agentReadyUs !== 0))
                        writer.uint32(/* id 8, wireType 0 =*/64).uint64(message.agentReadyUs);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a HelloReply message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.HelloReply
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.HelloReply & sandboxd.agent.v1.HelloReply.$Shape} HelloReply
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                HelloReply.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.HelloReply();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.version = value;
                                else
                                    delete message.version;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.nonce = value;
                                else
                                    delete message.nonce;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.capabilities && message.capabilities.length))
                                    message.capabilities = [];
                                message.capabilities.push(reader.stringVerify());
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.window = value;
                                else
                                    delete message.window;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.agentVersion = value;
                                else
                                    delete message.agentVersion;
                                continue;
                            }
                        case 6: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.bootId = value;
                                else
                                    delete message.bootId;
                                continue;
                            }
                        case 7: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.agentStartUs = value;
                                else
                                    delete message.agentStartUs;
                                continue;
                            }
                        case 8: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.agentReadyUs = value;
                                else
                                    delete message.agentReadyUs;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return HelloReply;
            })();

            v1.Ping = (function() {

                /**
                 * Properties of a Ping.
                 * @typedef {Object} sandboxd.agent.v1.Ping.$Properties
                 * @property {Uint8Array|null} [payload] Ping payload
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a Ping.
                 * @memberof sandboxd.agent.v1
                 * @interface IPing
                 * @augments sandboxd.agent.v1.Ping.$Properties
                 * @deprecated Use sandboxd.agent.v1.Ping.$Properties instead.
                 */

                /**
                 * Shape of a Ping.
                 * @typedef {sandboxd.agent.v1.Ping.$Properties} sandboxd.agent.v1.Ping.$Shape
                 */

                /**
                 * Constructs a new Ping.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a Ping.
                 * @constructor
                 * @param {sandboxd.agent.v1.Ping.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Ping = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Ping payload.
                 * @member {Uint8Array} payload
                 * @memberof sandboxd.agent.v1.Ping
                 * @instance
                 */
                Ping.prototype.payload = $util.newBuffer([]);

                /**
                 * Creates a new Ping instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Ping
                 * @static
                 * @param {sandboxd.agent.v1.Ping.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Ping} Ping instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Ping.$Shape): sandboxd.agent.v1.Ping & sandboxd.agent.v1.Ping.$Shape;
                 *   (properties?: sandboxd.agent.v1.Ping.$Properties): sandboxd.agent.v1.Ping;
                 * }}
                 */
                Ping.create = function(properties) {
                    return new Ping(properties);
                };

                /**
                 * Encodes the specified Ping message. Does not implicitly {@link sandboxd.agent.v1.Ping.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Ping
                 * @static
                 * @param {sandboxd.agent.v1.Ping.$Properties} message Ping message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Ping.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.payload != null && $Object.hasOwnProperty.call(message, "payload") && message.payload.length)
                        writer.uint32(/* id 1, wireType 2 =*/10).bytes(message.payload);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a Ping message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Ping
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Ping & sandboxd.agent.v1.Ping.$Shape} Ping
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Ping.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Ping();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.payload = value;
                                else
                                    delete message.payload;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Ping;
            })();

            v1.Pong = (function() {

                /**
                 * Properties of a Pong.
                 * @typedef {Object} sandboxd.agent.v1.Pong.$Properties
                 * @property {Uint8Array|null} [payload] Pong payload
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a Pong.
                 * @memberof sandboxd.agent.v1
                 * @interface IPong
                 * @augments sandboxd.agent.v1.Pong.$Properties
                 * @deprecated Use sandboxd.agent.v1.Pong.$Properties instead.
                 */

                /**
                 * Shape of a Pong.
                 * @typedef {sandboxd.agent.v1.Pong.$Properties} sandboxd.agent.v1.Pong.$Shape
                 */

                /**
                 * Constructs a new Pong.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a Pong.
                 * @constructor
                 * @param {sandboxd.agent.v1.Pong.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Pong = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Pong payload.
                 * @member {Uint8Array} payload
                 * @memberof sandboxd.agent.v1.Pong
                 * @instance
                 */
                Pong.prototype.payload = $util.newBuffer([]);

                /**
                 * Creates a new Pong instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Pong
                 * @static
                 * @param {sandboxd.agent.v1.Pong.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Pong} Pong instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Pong.$Shape): sandboxd.agent.v1.Pong & sandboxd.agent.v1.Pong.$Shape;
                 *   (properties?: sandboxd.agent.v1.Pong.$Properties): sandboxd.agent.v1.Pong;
                 * }}
                 */
                Pong.create = function(properties) {
                    return new Pong(properties);
                };

                /**
                 * Encodes the specified Pong message. Does not implicitly {@link sandboxd.agent.v1.Pong.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Pong
                 * @static
                 * @param {sandboxd.agent.v1.Pong.$Properties} message Pong message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Pong.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.payload != null && $Object.hasOwnProperty.call(message, "payload") && message.payload.length)
                        writer.uint32(/* id 1, wireType 2 =*/10).bytes(message.payload);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a Pong message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Pong
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Pong & sandboxd.agent.v1.Pong.$Shape} Pong
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Pong.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Pong();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.payload = value;
                                else
                                    delete message.payload;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Pong;
            })();

            v1.Cancel = (function() {

                /**
                 * Properties of a Cancel.
                 * @typedef {Object} sandboxd.agent.v1.Cancel.$Properties
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a Cancel.
                 * @memberof sandboxd.agent.v1
                 * @interface ICancel
                 * @augments sandboxd.agent.v1.Cancel.$Properties
                 * @deprecated Use sandboxd.agent.v1.Cancel.$Properties instead.
                 */

                /**
                 * Shape of a Cancel.
                 * @typedef {sandboxd.agent.v1.Cancel.$Properties} sandboxd.agent.v1.Cancel.$Shape
                 */

                /**
                 * Constructs a new Cancel.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a Cancel.
                 * @constructor
                 * @param {sandboxd.agent.v1.Cancel.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Cancel = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Creates a new Cancel instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Cancel
                 * @static
                 * @param {sandboxd.agent.v1.Cancel.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Cancel} Cancel instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Cancel.$Shape): sandboxd.agent.v1.Cancel & sandboxd.agent.v1.Cancel.$Shape;
                 *   (properties?: sandboxd.agent.v1.Cancel.$Properties): sandboxd.agent.v1.Cancel;
                 * }}
                 */
                Cancel.create = function(properties) {
                    return new Cancel(properties);
                };

                /**
                 * Encodes the specified Cancel message. Does not implicitly {@link sandboxd.agent.v1.Cancel.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Cancel
                 * @static
                 * @param {sandboxd.agent.v1.Cancel.$Properties} message Cancel message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Cancel.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a Cancel message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Cancel
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Cancel & sandboxd.agent.v1.Cancel.$Shape} Cancel
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Cancel.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Cancel();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        reader.skipType(tag & 7, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Cancel;
            })();

            v1.Signal = (function() {

                /**
                 * Properties of a Signal.
                 * @typedef {Object} sandboxd.agent.v1.Signal.$Properties
                 * @property {string|null} [name] Signal name
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a Signal.
                 * @memberof sandboxd.agent.v1
                 * @interface ISignal
                 * @augments sandboxd.agent.v1.Signal.$Properties
                 * @deprecated Use sandboxd.agent.v1.Signal.$Properties instead.
                 */

                /**
                 * Shape of a Signal.
                 * @typedef {sandboxd.agent.v1.Signal.$Properties} sandboxd.agent.v1.Signal.$Shape
                 */

                /**
                 * Constructs a new Signal.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a Signal.
                 * @constructor
                 * @param {sandboxd.agent.v1.Signal.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Signal = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Signal name.
                 * @member {string} name
                 * @memberof sandboxd.agent.v1.Signal
                 * @instance
                 */
                Signal.prototype.name = "";

                /**
                 * Creates a new Signal instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Signal
                 * @static
                 * @param {sandboxd.agent.v1.Signal.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Signal} Signal instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Signal.$Shape): sandboxd.agent.v1.Signal & sandboxd.agent.v1.Signal.$Shape;
                 *   (properties?: sandboxd.agent.v1.Signal.$Properties): sandboxd.agent.v1.Signal;
                 * }}
                 */
                Signal.create = function(properties) {
                    return new Signal(properties);
                };

                /**
                 * Encodes the specified Signal message. Does not implicitly {@link sandboxd.agent.v1.Signal.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Signal
                 * @static
                 * @param {sandboxd.agent.v1.Signal.$Properties} message Signal message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Signal.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.name != null && $Object.hasOwnProperty.call(message, "name") && message.name !== "")
                        writer.uint32(/* id 1, wireType 2 =*/10).string(message.name);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a Signal message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Signal
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Signal & sandboxd.agent.v1.Signal.$Shape} Signal
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Signal.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Signal();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.name = value;
                                else
                                    delete message.name;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Signal;
            })();

            v1.TtySize = (function() {

                /**
                 * Properties of a TtySize.
                 * @typedef {Object} sandboxd.agent.v1.TtySize.$Properties
                 * @property {number|null} [cols] TtySize cols
                 * @property {number|null} [rows] TtySize rows
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a TtySize.
                 * @memberof sandboxd.agent.v1
                 * @interface ITtySize
                 * @augments sandboxd.agent.v1.TtySize.$Properties
                 * @deprecated Use sandboxd.agent.v1.TtySize.$Properties instead.
                 */

                /**
                 * Shape of a TtySize.
                 * @typedef {sandboxd.agent.v1.TtySize.$Properties} sandboxd.agent.v1.TtySize.$Shape
                 */

                /**
                 * Constructs a new TtySize.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a TtySize.
                 * @constructor
                 * @param {sandboxd.agent.v1.TtySize.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const TtySize = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * TtySize cols.
                 * @member {number} cols
                 * @memberof sandboxd.agent.v1.TtySize
                 * @instance
                 */
                TtySize.prototype.cols = 0;

                /**
                 * TtySize rows.
                 * @member {number} rows
                 * @memberof sandboxd.agent.v1.TtySize
                 * @instance
                 */
                TtySize.prototype.rows = 0;

                /**
                 * Creates a new TtySize instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.TtySize
                 * @static
                 * @param {sandboxd.agent.v1.TtySize.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.TtySize} TtySize instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.TtySize.$Shape): sandboxd.agent.v1.TtySize & sandboxd.agent.v1.TtySize.$Shape;
                 *   (properties?: sandboxd.agent.v1.TtySize.$Properties): sandboxd.agent.v1.TtySize;
                 * }}
                 */
                TtySize.create = function(properties) {
                    return new TtySize(properties);
                };

                /**
                 * Encodes the specified TtySize message. Does not implicitly {@link sandboxd.agent.v1.TtySize.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.TtySize
                 * @static
                 * @param {sandboxd.agent.v1.TtySize.$Properties} message TtySize message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                TtySize.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.cols != null && $Object.hasOwnProperty.call(message, "cols") && message.cols !== 0)
                        writer.uint32(/* id 1, wireType 0 =*/8).uint32(message.cols);
                    if (message.rows != null && $Object.hasOwnProperty.call(message, "rows") && message.rows !== 0)
                        writer.uint32(/* id 2, wireType 0 =*/16).uint32(message.rows);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a TtySize message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.TtySize
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.TtySize & sandboxd.agent.v1.TtySize.$Shape} TtySize
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                TtySize.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.TtySize();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.cols = value;
                                else
                                    delete message.cols;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.rows = value;
                                else
                                    delete message.rows;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return TtySize;
            })();

            v1.Request = (function() {

                /**
                 * Properties of a Request.
                 * @typedef {Object} sandboxd.agent.v1.Request.$Properties
                 * @property {sandboxd.agent.v1.Exec.$Properties|null} [exec] Request exec
                 * @property {sandboxd.agent.v1.Identity.$Properties|null} [identity] Request identity
                 * @property {sandboxd.agent.v1.Stats.$Properties|null} [stats] Request stats
                 * @property {sandboxd.agent.v1.ServiceConfigure.$Properties|null} [serviceConfigure] Request serviceConfigure
                 * @property {sandboxd.agent.v1.ServiceControl.$Properties|null} [serviceControl] Request serviceControl
                 * @property {sandboxd.agent.v1.ServiceOutput.$Properties|null} [serviceOutput] Request serviceOutput
                 * @property {sandboxd.agent.v1.FilePush.$Properties|null} [filePush] Request filePush
                 * @property {sandboxd.agent.v1.FilePull.$Properties|null} [filePull] Request filePull
                 * @property {sandboxd.agent.v1.DirPull.$Properties|null} [dirPull] Request dirPull
                 * @property {sandboxd.agent.v1.FileCall.$Properties|null} [fileCall] Request fileCall
                 * @property {sandboxd.agent.v1.FileRead.$Properties|null} [fileRead] Request fileRead
                 * @property {sandboxd.agent.v1.FileWrite.$Properties|null} [fileWrite] Request fileWrite
                 * @property {sandboxd.agent.v1.FileWatch.$Properties|null} [fileWatch] Request fileWatch
                 * @property {sandboxd.agent.v1.GrowDisk.$Properties|null} [growDisk] Request growDisk
                 * @property {sandboxd.agent.v1.SetClock.$Properties|null} [setClock] Request setClock
                 * @property {sandboxd.agent.v1.Freeze.$Properties|null} [freeze] Request freeze
                 * @property {sandboxd.agent.v1.CommandList.$Properties|null} [commandList] Request commandList
                 * @property {sandboxd.agent.v1.CommandCall.$Properties|null} [commandCall] Request commandCall
                 * @property {sandboxd.agent.v1.CommandAttach.$Properties|null} [commandAttach] Request commandAttach
                 * @property {sandboxd.agent.v1.Wake.$Properties|null} [wake] Request wake
                 * @property {sandboxd.agent.v1.PortConnect.$Properties|null} [portConnect] Request portConnect
                 * @property {sandboxd.agent.v1.Trust.$Properties|null} [trust] Request trust
                 * @property {"exec"|"identity"|"stats"|"serviceConfigure"|"serviceControl"|"serviceOutput"|"filePush"|"filePull"|"dirPull"|"fileCall"|"fileRead"|"fileWrite"|"fileWatch"|"growDisk"|"setClock"|"freeze"|"commandList"|"commandCall"|"commandAttach"|"wake"|"portConnect"|"trust"} [call] Request call
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a Request.
                 * @memberof sandboxd.agent.v1
                 * @interface IRequest
                 * @augments sandboxd.agent.v1.Request.$Properties
                 * @deprecated Use sandboxd.agent.v1.Request.$Properties instead.
                 */

                /**
                 * Narrowed shape of a Request.
                 * @typedef {{
                 *   exec?: sandboxd.agent.v1.Exec.$Shape|null;
                 *   identity?: sandboxd.agent.v1.Identity.$Shape|null;
                 *   stats?: sandboxd.agent.v1.Stats.$Shape|null;
                 *   serviceConfigure?: sandboxd.agent.v1.ServiceConfigure.$Shape|null;
                 *   serviceControl?: sandboxd.agent.v1.ServiceControl.$Shape|null;
                 *   serviceOutput?: sandboxd.agent.v1.ServiceOutput.$Shape|null;
                 *   filePush?: sandboxd.agent.v1.FilePush.$Shape|null;
                 *   filePull?: sandboxd.agent.v1.FilePull.$Shape|null;
                 *   dirPull?: sandboxd.agent.v1.DirPull.$Shape|null;
                 *   fileCall?: sandboxd.agent.v1.FileCall.$Shape|null;
                 *   fileRead?: sandboxd.agent.v1.FileRead.$Shape|null;
                 *   fileWrite?: sandboxd.agent.v1.FileWrite.$Shape|null;
                 *   fileWatch?: sandboxd.agent.v1.FileWatch.$Shape|null;
                 *   growDisk?: sandboxd.agent.v1.GrowDisk.$Shape|null;
                 *   setClock?: sandboxd.agent.v1.SetClock.$Shape|null;
                 *   freeze?: sandboxd.agent.v1.Freeze.$Shape|null;
                 *   commandList?: sandboxd.agent.v1.CommandList.$Shape|null;
                 *   commandCall?: sandboxd.agent.v1.CommandCall.$Shape|null;
                 *   commandAttach?: sandboxd.agent.v1.CommandAttach.$Shape|null;
                 *   wake?: sandboxd.agent.v1.Wake.$Shape|null;
                 *   portConnect?: sandboxd.agent.v1.PortConnect.$Shape|null;
                 *   trust?: sandboxd.agent.v1.Trust.$Shape|null;
                 *   $unknowns?: Array.<Uint8Array>;
                 * } & (
                 *   ({ call?: undefined; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "exec"; exec: sandboxd.agent.v1.Exec.$Shape; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "identity"; exec?: null; identity: sandboxd.agent.v1.Identity.$Shape; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "stats"; exec?: null; identity?: null; stats: sandboxd.agent.v1.Stats.$Shape; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "serviceConfigure"; exec?: null; identity?: null; stats?: null; serviceConfigure: sandboxd.agent.v1.ServiceConfigure.$Shape; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "serviceControl"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl: sandboxd.agent.v1.ServiceControl.$Shape; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "serviceOutput"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput: sandboxd.agent.v1.ServiceOutput.$Shape; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "filePush"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush: sandboxd.agent.v1.FilePush.$Shape; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "filePull"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull: sandboxd.agent.v1.FilePull.$Shape; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "dirPull"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull: sandboxd.agent.v1.DirPull.$Shape; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "fileCall"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall: sandboxd.agent.v1.FileCall.$Shape; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "fileRead"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead: sandboxd.agent.v1.FileRead.$Shape; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "fileWrite"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite: sandboxd.agent.v1.FileWrite.$Shape; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "fileWatch"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch: sandboxd.agent.v1.FileWatch.$Shape; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "growDisk"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk: sandboxd.agent.v1.GrowDisk.$Shape; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "setClock"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock: sandboxd.agent.v1.SetClock.$Shape; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "freeze"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze: sandboxd.agent.v1.Freeze.$Shape; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "commandList"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList: sandboxd.agent.v1.CommandList.$Shape; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "commandCall"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall: sandboxd.agent.v1.CommandCall.$Shape; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ call?: "commandAttach"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach: sandboxd.agent.v1.CommandAttach.$Shape; wake?: null; portConnect?: null; trust?: null }|{ call?: "wake"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake: sandboxd.agent.v1.Wake.$Shape; portConnect?: null; trust?: null }|{ call?: "portConnect"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect: sandboxd.agent.v1.PortConnect.$Shape; trust?: null }|{ call?: "trust"; exec?: null; identity?: null; stats?: null; serviceConfigure?: null; serviceControl?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileRead?: null; fileWrite?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; commandCall?: null; commandAttach?: null; wake?: null; portConnect?: null; trust: sandboxd.agent.v1.Trust.$Shape })
                 * )} sandboxd.agent.v1.Request.$Shape
                 */

                /**
                 * Constructs a new Request.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a Request.
                 * @constructor
                 * @param {sandboxd.agent.v1.Request.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Request = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Request exec.
                 * @member {sandboxd.agent.v1.Exec.$Properties|null|undefined} exec
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.exec = null;

                /**
                 * Request identity.
                 * @member {sandboxd.agent.v1.Identity.$Properties|null|undefined} identity
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.identity = null;

                /**
                 * Request stats.
                 * @member {sandboxd.agent.v1.Stats.$Properties|null|undefined} stats
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.stats = null;

                /**
                 * Request serviceConfigure.
                 * @member {sandboxd.agent.v1.ServiceConfigure.$Properties|null|undefined} serviceConfigure
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.serviceConfigure = null;

                /**
                 * Request serviceControl.
                 * @member {sandboxd.agent.v1.ServiceControl.$Properties|null|undefined} serviceControl
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.serviceControl = null;

                /**
                 * Request serviceOutput.
                 * @member {sandboxd.agent.v1.ServiceOutput.$Properties|null|undefined} serviceOutput
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.serviceOutput = null;

                /**
                 * Request filePush.
                 * @member {sandboxd.agent.v1.FilePush.$Properties|null|undefined} filePush
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.filePush = null;

                /**
                 * Request filePull.
                 * @member {sandboxd.agent.v1.FilePull.$Properties|null|undefined} filePull
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.filePull = null;

                /**
                 * Request dirPull.
                 * @member {sandboxd.agent.v1.DirPull.$Properties|null|undefined} dirPull
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.dirPull = null;

                /**
                 * Request fileCall.
                 * @member {sandboxd.agent.v1.FileCall.$Properties|null|undefined} fileCall
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.fileCall = null;

                /**
                 * Request fileRead.
                 * @member {sandboxd.agent.v1.FileRead.$Properties|null|undefined} fileRead
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.fileRead = null;

                /**
                 * Request fileWrite.
                 * @member {sandboxd.agent.v1.FileWrite.$Properties|null|undefined} fileWrite
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.fileWrite = null;

                /**
                 * Request fileWatch.
                 * @member {sandboxd.agent.v1.FileWatch.$Properties|null|undefined} fileWatch
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.fileWatch = null;

                /**
                 * Request growDisk.
                 * @member {sandboxd.agent.v1.GrowDisk.$Properties|null|undefined} growDisk
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.growDisk = null;

                /**
                 * Request setClock.
                 * @member {sandboxd.agent.v1.SetClock.$Properties|null|undefined} setClock
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.setClock = null;

                /**
                 * Request freeze.
                 * @member {sandboxd.agent.v1.Freeze.$Properties|null|undefined} freeze
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.freeze = null;

                /**
                 * Request commandList.
                 * @member {sandboxd.agent.v1.CommandList.$Properties|null|undefined} commandList
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.commandList = null;

                /**
                 * Request commandCall.
                 * @member {sandboxd.agent.v1.CommandCall.$Properties|null|undefined} commandCall
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.commandCall = null;

                /**
                 * Request commandAttach.
                 * @member {sandboxd.agent.v1.CommandAttach.$Properties|null|undefined} commandAttach
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.commandAttach = null;

                /**
                 * Request wake.
                 * @member {sandboxd.agent.v1.Wake.$Properties|null|undefined} wake
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.wake = null;

                /**
                 * Request portConnect.
                 * @member {sandboxd.agent.v1.PortConnect.$Properties|null|undefined} portConnect
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.portConnect = null;

                /**
                 * Request trust.
                 * @member {sandboxd.agent.v1.Trust.$Properties|null|undefined} trust
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                Request.prototype.trust = null;

                // OneOf field names bound to virtual getters and setters
                let $oneOfFields;

                /**
                 * Request call.
                 * @member {"exec"|"identity"|"stats"|"serviceConfigure"|"serviceControl"|"serviceOutput"|"filePush"|"filePull"|"dirPull"|"fileCall"|"fileRead"|"fileWrite"|"fileWatch"|"growDisk"|"setClock"|"freeze"|"commandList"|"commandCall"|"commandAttach"|"wake"|"portConnect"|"trust"|undefined} call
                 * @memberof sandboxd.agent.v1.Request
                 * @instance
                 */
                $Object.defineProperty(Request.prototype, "call", {
                    get: $util.oneOfGetter($oneOfFields = ["exec", "identity", "stats", "serviceConfigure", "serviceControl", "serviceOutput", "filePush", "filePull", "dirPull", "fileCall", "fileRead", "fileWrite", "fileWatch", "growDisk", "setClock", "freeze", "commandList", "commandCall", "commandAttach", "wake", "portConnect", "trust"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                /**
                 * Creates a new Request instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Request
                 * @static
                 * @param {sandboxd.agent.v1.Request.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Request} Request instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Request.$Shape): sandboxd.agent.v1.Request & sandboxd.agent.v1.Request.$Shape;
                 *   (properties?: sandboxd.agent.v1.Request.$Properties): sandboxd.agent.v1.Request;
                 * }}
                 */
                Request.create = function(properties) {
                    return new Request(properties);
                };

                /**
                 * Encodes the specified Request message. Does not implicitly {@link sandboxd.agent.v1.Request.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Request
                 * @static
                 * @param {sandboxd.agent.v1.Request.$Properties} message Request message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Request.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.exec != null && $Object.hasOwnProperty.call(message, "exec"))
                        $root.sandboxd.agent.v1.Exec.encode(message.exec, writer.uint32(/* id 1, wireType 2 =*/10).fork(), _depth + 1).ldelim();
                    if (message.identity != null && $Object.hasOwnProperty.call(message, "identity"))
                        $root.sandboxd.agent.v1.Identity.encode(message.identity, writer.uint32(/* id 2, wireType 2 =*/18).fork(), _depth + 1).ldelim();
                    if (message.stats != null && $Object.hasOwnProperty.call(message, "stats"))
                        $root.sandboxd.agent.v1.Stats.encode(message.stats, writer.uint32(/* id 3, wireType 2 =*/26).fork(), _depth + 1).ldelim();
                    if (message.filePush != null && $Object.hasOwnProperty.call(message, "filePush"))
                        $root.sandboxd.agent.v1.FilePush.encode(message.filePush, writer.uint32(/* id 10, wireType 2 =*/82).fork(), _depth + 1).ldelim();
                    if (message.filePull != null && $Object.hasOwnProperty.call(message, "filePull"))
                        $root.sandboxd.agent.v1.FilePull.encode(message.filePull, writer.uint32(/* id 11, wireType 2 =*/90).fork(), _depth + 1).ldelim();
                    if (message.dirPull != null && $Object.hasOwnProperty.call(message, "dirPull"))
                        $root.sandboxd.agent.v1.DirPull.encode(message.dirPull, writer.uint32(/* id 12, wireType 2 =*/98).fork(), _depth + 1).ldelim();
                    if (message.fileCall != null && $Object.hasOwnProperty.call(message, "fileCall"))
                        $root.sandboxd.agent.v1.FileCall.encode(message.fileCall, writer.uint32(/* id 13, wireType 2 =*/106).fork(), _depth + 1).ldelim();
                    if (message.fileRead != null && $Object.hasOwnProperty.call(message, "fileRead"))
                        $root.sandboxd.agent.v1.FileRead.encode(message.fileRead, writer.uint32(/* id 14, wireType 2 =*/114).fork(), _depth + 1).ldelim();
                    if (message.fileWrite != null && $Object.hasOwnProperty.call(message, "fileWrite"))
                        $root.sandboxd.agent.v1.FileWrite.encode(message.fileWrite, writer.uint32(/* id 17, wireType 2 =*/138).fork(), _depth + 1).ldelim();
                    if (message.fileWatch != null && $Object.hasOwnProperty.call(message, "fileWatch"))
                        $root.sandboxd.agent.v1.FileWatch.encode(message.fileWatch, writer.uint32(/* id 18, wireType 2 =*/146).fork(), _depth + 1).ldelim();
                    if (message.serviceConfigure != null && $Object.hasOwnProperty.call(message, "serviceConfigure"))
                        $root.sandboxd.agent.v1.ServiceConfigure.encode(message.serviceConfigure, writer.uint32(/* id 20, wireType 2 =*/162).fork(), _depth + 1).ldelim();
                    if (message.serviceControl != null && $Object.hasOwnProperty.call(message, "serviceControl"))
                        $root.sandboxd.agent.v1.ServiceControl.encode(message.serviceControl, writer.uint32(/* id 21, wireType 2 =*/170).fork(), _depth + 1).ldelim();
                    if (message.serviceOutput != null && $Object.hasOwnProperty.call(message, "serviceOutput"))
                        $root.sandboxd.agent.v1.ServiceOutput.encode(message.serviceOutput, writer.uint32(/* id 22, wireType 2 =*/178).fork(), _depth + 1).ldelim();
                    if (message.growDisk != null && $Object.hasOwnProperty.call(message, "growDisk"))
                        $root.sandboxd.agent.v1.GrowDisk.encode(message.growDisk, writer.uint32(/* id 30, wireType 2 =*/242).fork(), _depth + 1).ldelim();
                    if (message.setClock != null && $Object.hasOwnProperty.call(message, "setClock"))
                        $root.sandboxd.agent.v1.SetClock.encode(message.setClock, writer.uint32(/* id 31, wireType 2 =*/250).fork(), _depth + 1).ldelim();
                    if (message.freeze != null && $Object.hasOwnProperty.call(message, "freeze"))
                        $root.sandboxd.agent.v1.Freeze.encode(message.freeze, writer.uint32(/* id 32, wireType 2 =*/258).fork(), _depth + 1).ldelim();
                    if (message.commandList != null && $Object.hasOwnProperty.call(message, "commandList"))
                        $root.sandboxd.agent.v1.CommandList.encode(message.commandList, writer.uint32(/* id 40, wireType 2 =*/322).fork(), _depth + 1).ldelim();
                    if (message.commandCall != null && $Object.hasOwnProperty.call(message, "commandCall"))
                        $root.sandboxd.agent.v1.CommandCall.encode(message.commandCall, writer.uint32(/* id 41, wireType 2 =*/330).fork(), _depth + 1).ldelim();
                    if (message.commandAttach != null && $Object.hasOwnProperty.call(message, "commandAttach"))
                        $root.sandboxd.agent.v1.CommandAttach.encode(message.commandAttach, writer.uint32(/* id 42, wireType 2 =*/338).fork(), _depth + 1).ldelim();
                    if (message.wake != null && $Object.hasOwnProperty.call(message, "wake"))
                        $root.sandboxd.agent.v1.Wake.encode(message.wake, writer.uint32(/* id 45, wireType 2 =*/362).fork(), _depth + 1).ldelim();
                    if (message.portConnect != null && $Object.hasOwnProperty.call(message, "portConnect"))
                        $root.sandboxd.agent.v1.PortConnect.encode(message.portConnect, writer.uint32(/* id 50, wireType 2 =*/402).fork(), _depth + 1).ldelim();
                    if (message.trust != null && $Object.hasOwnProperty.call(message, "trust"))
                        $root.sandboxd.agent.v1.Trust.encode(message.trust, writer.uint32(/* id 51, wireType 2 =*/410).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a Request message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Request
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Request & sandboxd.agent.v1.Request.$Shape} Request
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Request.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Request();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                message.exec = $root.sandboxd.agent.v1.Exec.decode(reader, reader.size(), $undefined, _depth + 1, message.exec);
                                message.call = "exec";
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                message.identity = $root.sandboxd.agent.v1.Identity.decode(reader, reader.size(), $undefined, _depth + 1, message.identity);
                                message.call = "identity";
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                message.stats = $root.sandboxd.agent.v1.Stats.decode(reader, reader.size(), $undefined, _depth + 1, message.stats);
                                message.call = "stats";
                                continue;
                            }
                        case 20: {
                                if (wireType !== 2)
                                    break;
                                message.serviceConfigure = $root.sandboxd.agent.v1.ServiceConfigure.decode(reader, reader.size(), $undefined, _depth + 1, message.serviceConfigure);
                                message.call = "serviceConfigure";
                                continue;
                            }
                        case 21: {
                                if (wireType !== 2)
                                    break;
                                message.serviceControl = $root.sandboxd.agent.v1.ServiceControl.decode(reader, reader.size(), $undefined, _depth + 1, message.serviceControl);
                                message.call = "serviceControl";
                                continue;
                            }
                        case 22: {
                                if (wireType !== 2)
                                    break;
                                message.serviceOutput = $root.sandboxd.agent.v1.ServiceOutput.decode(reader, reader.size(), $undefined, _depth + 1, message.serviceOutput);
                                message.call = "serviceOutput";
                                continue;
                            }
                        case 10: {
                                if (wireType !== 2)
                                    break;
                                message.filePush = $root.sandboxd.agent.v1.FilePush.decode(reader, reader.size(), $undefined, _depth + 1, message.filePush);
                                message.call = "filePush";
                                continue;
                            }
                        case 11: {
                                if (wireType !== 2)
                                    break;
                                message.filePull = $root.sandboxd.agent.v1.FilePull.decode(reader, reader.size(), $undefined, _depth + 1, message.filePull);
                                message.call = "filePull";
                                continue;
                            }
                        case 12: {
                                if (wireType !== 2)
                                    break;
                                message.dirPull = $root.sandboxd.agent.v1.DirPull.decode(reader, reader.size(), $undefined, _depth + 1, message.dirPull);
                                message.call = "dirPull";
                                continue;
                            }
                        case 13: {
                                if (wireType !== 2)
                                    break;
                                message.fileCall = $root.sandboxd.agent.v1.FileCall.decode(reader, reader.size(), $undefined, _depth + 1, message.fileCall);
                                message.call = "fileCall";
                                continue;
                            }
                        case 14: {
                                if (wireType !== 2)
                                    break;
                                message.fileRead = $root.sandboxd.agent.v1.FileRead.decode(reader, reader.size(), $undefined, _depth + 1, message.fileRead);
                                message.call = "fileRead";
                                continue;
                            }
                        case 17: {
                                if (wireType !== 2)
                                    break;
                                message.fileWrite = $root.sandboxd.agent.v1.FileWrite.decode(reader, reader.size(), $undefined, _depth + 1, message.fileWrite);
                                message.call = "fileWrite";
                                continue;
                            }
                        case 18: {
                                if (wireType !== 2)
                                    break;
                                message.fileWatch = $root.sandboxd.agent.v1.FileWatch.decode(reader, reader.size(), $undefined, _depth + 1, message.fileWatch);
                                message.call = "fileWatch";
                                continue;
                            }
                        case 30: {
                                if (wireType !== 2)
                                    break;
                                message.growDisk = $root.sandboxd.agent.v1.GrowDisk.decode(reader, reader.size(), $undefined, _depth + 1, message.growDisk);
                                message.call = "growDisk";
                                continue;
                            }
                        case 31: {
                                if (wireType !== 2)
                                    break;
                                message.setClock = $root.sandboxd.agent.v1.SetClock.decode(reader, reader.size(), $undefined, _depth + 1, message.setClock);
                                message.call = "setClock";
                                continue;
                            }
                        case 32: {
                                if (wireType !== 2)
                                    break;
                                message.freeze = $root.sandboxd.agent.v1.Freeze.decode(reader, reader.size(), $undefined, _depth + 1, message.freeze);
                                message.call = "freeze";
                                continue;
                            }
                        case 40: {
                                if (wireType !== 2)
                                    break;
                                message.commandList = $root.sandboxd.agent.v1.CommandList.decode(reader, reader.size(), $undefined, _depth + 1, message.commandList);
                                message.call = "commandList";
                                continue;
                            }
                        case 41: {
                                if (wireType !== 2)
                                    break;
                                message.commandCall = $root.sandboxd.agent.v1.CommandCall.decode(reader, reader.size(), $undefined, _depth + 1, message.commandCall);
                                message.call = "commandCall";
                                continue;
                            }
                        case 42: {
                                if (wireType !== 2)
                                    break;
                                message.commandAttach = $root.sandboxd.agent.v1.CommandAttach.decode(reader, reader.size(), $undefined, _depth + 1, message.commandAttach);
                                message.call = "commandAttach";
                                continue;
                            }
                        case 45: {
                                if (wireType !== 2)
                                    break;
                                message.wake = $root.sandboxd.agent.v1.Wake.decode(reader, reader.size(), $undefined, _depth + 1, message.wake);
                                message.call = "wake";
                                continue;
                            }
                        case 50: {
                                if (wireType !== 2)
                                    break;
                                message.portConnect = $root.sandboxd.agent.v1.PortConnect.decode(reader, reader.size(), $undefined, _depth + 1, message.portConnect);
                                message.call = "portConnect";
                                continue;
                            }
                        case 51: {
                                if (wireType !== 2)
                                    break;
                                message.trust = $root.sandboxd.agent.v1.Trust.decode(reader, reader.size(), $undefined, _depth + 1, message.trust);
                                message.call = "trust";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Request;
            })();

            v1.Result = (function() {

                /**
                 * Properties of a Result.
                 * @typedef {Object} sandboxd.agent.v1.Result.$Properties
                 * @property {sandboxd.agent.v1.Error.$Properties|null} [error] Result error
                 * @property {sandboxd.agent.v1.ExecResult.$Properties|null} [exec] Result exec
                 * @property {sandboxd.agent.v1.IdentityResult.$Properties|null} [identity] Result identity
                 * @property {sandboxd.agent.v1.StatsResult.$Properties|null} [stats] Result stats
                 * @property {sandboxd.agent.v1.ServiceStatus.$Properties|null} [serviceStatus] Result serviceStatus
                 * @property {sandboxd.agent.v1.ServiceOutputResult.$Properties|null} [serviceOutput] Result serviceOutput
                 * @property {sandboxd.agent.v1.FilePushResult.$Properties|null} [filePush] Result filePush
                 * @property {sandboxd.agent.v1.FilePullResult.$Properties|null} [filePull] Result filePull
                 * @property {sandboxd.agent.v1.DirPullResult.$Properties|null} [dirPull] Result dirPull
                 * @property {sandboxd.agent.v1.FileCallResult.$Properties|null} [fileCall] Result fileCall
                 * @property {sandboxd.agent.v1.FileWatchResult.$Properties|null} [fileWatch] Result fileWatch
                 * @property {sandboxd.agent.v1.GrowDiskResult.$Properties|null} [growDisk] Result growDisk
                 * @property {sandboxd.agent.v1.SetClockResult.$Properties|null} [setClock] Result setClock
                 * @property {sandboxd.agent.v1.FreezeResult.$Properties|null} [freeze] Result freeze
                 * @property {sandboxd.agent.v1.CommandListResult.$Properties|null} [commandList] Result commandList
                 * @property {sandboxd.agent.v1.CommandStatus.$Properties|null} [command] Result command
                 * @property {sandboxd.agent.v1.CommandAttachResult.$Properties|null} [commandAttach] Result commandAttach
                 * @property {sandboxd.agent.v1.WakeResult.$Properties|null} [wake] Result wake
                 * @property {sandboxd.agent.v1.PortConnectResult.$Properties|null} [portConnect] Result portConnect
                 * @property {sandboxd.agent.v1.TrustResult.$Properties|null} [trust] Result trust
                 * @property {"exec"|"identity"|"stats"|"serviceStatus"|"serviceOutput"|"filePush"|"filePull"|"dirPull"|"fileCall"|"fileWatch"|"growDisk"|"setClock"|"freeze"|"commandList"|"command"|"commandAttach"|"wake"|"portConnect"|"trust"} [value] Result value
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a Result.
                 * @memberof sandboxd.agent.v1
                 * @interface IResult
                 * @augments sandboxd.agent.v1.Result.$Properties
                 * @deprecated Use sandboxd.agent.v1.Result.$Properties instead.
                 */

                /**
                 * Narrowed shape of a Result.
                 * @typedef {{
                 *   error?: sandboxd.agent.v1.Error.$Shape|null;
                 *   exec?: sandboxd.agent.v1.ExecResult.$Shape|null;
                 *   identity?: sandboxd.agent.v1.IdentityResult.$Shape|null;
                 *   stats?: sandboxd.agent.v1.StatsResult.$Shape|null;
                 *   serviceStatus?: sandboxd.agent.v1.ServiceStatus.$Shape|null;
                 *   serviceOutput?: sandboxd.agent.v1.ServiceOutputResult.$Shape|null;
                 *   filePush?: sandboxd.agent.v1.FilePushResult.$Shape|null;
                 *   filePull?: sandboxd.agent.v1.FilePullResult.$Shape|null;
                 *   dirPull?: sandboxd.agent.v1.DirPullResult.$Shape|null;
                 *   fileCall?: sandboxd.agent.v1.FileCallResult.$Shape|null;
                 *   fileWatch?: sandboxd.agent.v1.FileWatchResult.$Shape|null;
                 *   growDisk?: sandboxd.agent.v1.GrowDiskResult.$Shape|null;
                 *   setClock?: sandboxd.agent.v1.SetClockResult.$Shape|null;
                 *   freeze?: sandboxd.agent.v1.FreezeResult.$Shape|null;
                 *   commandList?: sandboxd.agent.v1.CommandListResult.$Shape|null;
                 *   command?: sandboxd.agent.v1.CommandStatus.$Shape|null;
                 *   commandAttach?: sandboxd.agent.v1.CommandAttachResult.$Shape|null;
                 *   wake?: sandboxd.agent.v1.WakeResult.$Shape|null;
                 *   portConnect?: sandboxd.agent.v1.PortConnectResult.$Shape|null;
                 *   trust?: sandboxd.agent.v1.TrustResult.$Shape|null;
                 *   $unknowns?: Array.<Uint8Array>;
                 * } & (
                 *   ({ value?: undefined; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "exec"; exec: sandboxd.agent.v1.ExecResult.$Shape; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "identity"; exec?: null; identity: sandboxd.agent.v1.IdentityResult.$Shape; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "stats"; exec?: null; identity?: null; stats: sandboxd.agent.v1.StatsResult.$Shape; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "serviceStatus"; exec?: null; identity?: null; stats?: null; serviceStatus: sandboxd.agent.v1.ServiceStatus.$Shape; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "serviceOutput"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput: sandboxd.agent.v1.ServiceOutputResult.$Shape; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "filePush"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush: sandboxd.agent.v1.FilePushResult.$Shape; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "filePull"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull: sandboxd.agent.v1.FilePullResult.$Shape; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "dirPull"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull: sandboxd.agent.v1.DirPullResult.$Shape; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "fileCall"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall: sandboxd.agent.v1.FileCallResult.$Shape; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "fileWatch"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch: sandboxd.agent.v1.FileWatchResult.$Shape; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "growDisk"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk: sandboxd.agent.v1.GrowDiskResult.$Shape; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "setClock"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock: sandboxd.agent.v1.SetClockResult.$Shape; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "freeze"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze: sandboxd.agent.v1.FreezeResult.$Shape; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "commandList"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList: sandboxd.agent.v1.CommandListResult.$Shape; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "command"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command: sandboxd.agent.v1.CommandStatus.$Shape; commandAttach?: null; wake?: null; portConnect?: null; trust?: null }|{ value?: "commandAttach"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach: sandboxd.agent.v1.CommandAttachResult.$Shape; wake?: null; portConnect?: null; trust?: null }|{ value?: "wake"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake: sandboxd.agent.v1.WakeResult.$Shape; portConnect?: null; trust?: null }|{ value?: "portConnect"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect: sandboxd.agent.v1.PortConnectResult.$Shape; trust?: null }|{ value?: "trust"; exec?: null; identity?: null; stats?: null; serviceStatus?: null; serviceOutput?: null; filePush?: null; filePull?: null; dirPull?: null; fileCall?: null; fileWatch?: null; growDisk?: null; setClock?: null; freeze?: null; commandList?: null; command?: null; commandAttach?: null; wake?: null; portConnect?: null; trust: sandboxd.agent.v1.TrustResult.$Shape })
                 * )} sandboxd.agent.v1.Result.$Shape
                 */

                /**
                 * Constructs a new Result.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a Result.
                 * @constructor
                 * @param {sandboxd.agent.v1.Result.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Result = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Result error.
                 * @member {sandboxd.agent.v1.Error.$Properties|null|undefined} error
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.error = null;

                /**
                 * Result exec.
                 * @member {sandboxd.agent.v1.ExecResult.$Properties|null|undefined} exec
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.exec = null;

                /**
                 * Result identity.
                 * @member {sandboxd.agent.v1.IdentityResult.$Properties|null|undefined} identity
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.identity = null;

                /**
                 * Result stats.
                 * @member {sandboxd.agent.v1.StatsResult.$Properties|null|undefined} stats
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.stats = null;

                /**
                 * Result serviceStatus.
                 * @member {sandboxd.agent.v1.ServiceStatus.$Properties|null|undefined} serviceStatus
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.serviceStatus = null;

                /**
                 * Result serviceOutput.
                 * @member {sandboxd.agent.v1.ServiceOutputResult.$Properties|null|undefined} serviceOutput
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.serviceOutput = null;

                /**
                 * Result filePush.
                 * @member {sandboxd.agent.v1.FilePushResult.$Properties|null|undefined} filePush
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.filePush = null;

                /**
                 * Result filePull.
                 * @member {sandboxd.agent.v1.FilePullResult.$Properties|null|undefined} filePull
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.filePull = null;

                /**
                 * Result dirPull.
                 * @member {sandboxd.agent.v1.DirPullResult.$Properties|null|undefined} dirPull
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.dirPull = null;

                /**
                 * Result fileCall.
                 * @member {sandboxd.agent.v1.FileCallResult.$Properties|null|undefined} fileCall
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.fileCall = null;

                /**
                 * Result fileWatch.
                 * @member {sandboxd.agent.v1.FileWatchResult.$Properties|null|undefined} fileWatch
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.fileWatch = null;

                /**
                 * Result growDisk.
                 * @member {sandboxd.agent.v1.GrowDiskResult.$Properties|null|undefined} growDisk
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.growDisk = null;

                /**
                 * Result setClock.
                 * @member {sandboxd.agent.v1.SetClockResult.$Properties|null|undefined} setClock
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.setClock = null;

                /**
                 * Result freeze.
                 * @member {sandboxd.agent.v1.FreezeResult.$Properties|null|undefined} freeze
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.freeze = null;

                /**
                 * Result commandList.
                 * @member {sandboxd.agent.v1.CommandListResult.$Properties|null|undefined} commandList
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.commandList = null;

                /**
                 * Result command.
                 * @member {sandboxd.agent.v1.CommandStatus.$Properties|null|undefined} command
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.command = null;

                /**
                 * Result commandAttach.
                 * @member {sandboxd.agent.v1.CommandAttachResult.$Properties|null|undefined} commandAttach
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.commandAttach = null;

                /**
                 * Result wake.
                 * @member {sandboxd.agent.v1.WakeResult.$Properties|null|undefined} wake
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.wake = null;

                /**
                 * Result portConnect.
                 * @member {sandboxd.agent.v1.PortConnectResult.$Properties|null|undefined} portConnect
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.portConnect = null;

                /**
                 * Result trust.
                 * @member {sandboxd.agent.v1.TrustResult.$Properties|null|undefined} trust
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                Result.prototype.trust = null;

                // OneOf field names bound to virtual getters and setters
                let $oneOfFields;

                /**
                 * Result value.
                 * @member {"exec"|"identity"|"stats"|"serviceStatus"|"serviceOutput"|"filePush"|"filePull"|"dirPull"|"fileCall"|"fileWatch"|"growDisk"|"setClock"|"freeze"|"commandList"|"command"|"commandAttach"|"wake"|"portConnect"|"trust"|undefined} value
                 * @memberof sandboxd.agent.v1.Result
                 * @instance
                 */
                $Object.defineProperty(Result.prototype, "value", {
                    get: $util.oneOfGetter($oneOfFields = ["exec", "identity", "stats", "serviceStatus", "serviceOutput", "filePush", "filePull", "dirPull", "fileCall", "fileWatch", "growDisk", "setClock", "freeze", "commandList", "command", "commandAttach", "wake", "portConnect", "trust"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                /**
                 * Creates a new Result instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Result
                 * @static
                 * @param {sandboxd.agent.v1.Result.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Result} Result instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Result.$Shape): sandboxd.agent.v1.Result & sandboxd.agent.v1.Result.$Shape;
                 *   (properties?: sandboxd.agent.v1.Result.$Properties): sandboxd.agent.v1.Result;
                 * }}
                 */
                Result.create = function(properties) {
                    return new Result(properties);
                };

                /**
                 * Encodes the specified Result message. Does not implicitly {@link sandboxd.agent.v1.Result.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Result
                 * @static
                 * @param {sandboxd.agent.v1.Result.$Properties} message Result message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Result.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.error != null && $Object.hasOwnProperty.call(message, "error"))
                        $root.sandboxd.agent.v1.Error.encode(message.error, writer.uint32(/* id 1, wireType 2 =*/10).fork(), _depth + 1).ldelim();
                    if (message.exec != null && $Object.hasOwnProperty.call(message, "exec"))
                        $root.sandboxd.agent.v1.ExecResult.encode(message.exec, writer.uint32(/* id 2, wireType 2 =*/18).fork(), _depth + 1).ldelim();
                    if (message.identity != null && $Object.hasOwnProperty.call(message, "identity"))
                        $root.sandboxd.agent.v1.IdentityResult.encode(message.identity, writer.uint32(/* id 3, wireType 2 =*/26).fork(), _depth + 1).ldelim();
                    if (message.stats != null && $Object.hasOwnProperty.call(message, "stats"))
                        $root.sandboxd.agent.v1.StatsResult.encode(message.stats, writer.uint32(/* id 4, wireType 2 =*/34).fork(), _depth + 1).ldelim();
                    if (message.filePush != null && $Object.hasOwnProperty.call(message, "filePush"))
                        $root.sandboxd.agent.v1.FilePushResult.encode(message.filePush, writer.uint32(/* id 10, wireType 2 =*/82).fork(), _depth + 1).ldelim();
                    if (message.filePull != null && $Object.hasOwnProperty.call(message, "filePull"))
                        $root.sandboxd.agent.v1.FilePullResult.encode(message.filePull, writer.uint32(/* id 11, wireType 2 =*/90).fork(), _depth + 1).ldelim();
                    if (message.dirPull != null && $Object.hasOwnProperty.call(message, "dirPull"))
                        $root.sandboxd.agent.v1.DirPullResult.encode(message.dirPull, writer.uint32(/* id 12, wireType 2 =*/98).fork(), _depth + 1).ldelim();
                    if (message.fileCall != null && $Object.hasOwnProperty.call(message, "fileCall"))
                        $root.sandboxd.agent.v1.FileCallResult.encode(message.fileCall, writer.uint32(/* id 13, wireType 2 =*/106).fork(), _depth + 1).ldelim();
                    if (message.fileWatch != null && $Object.hasOwnProperty.call(message, "fileWatch"))
                        $root.sandboxd.agent.v1.FileWatchResult.encode(message.fileWatch, writer.uint32(/* id 18, wireType 2 =*/146).fork(), _depth + 1).ldelim();
                    if (message.serviceStatus != null && $Object.hasOwnProperty.call(message, "serviceStatus"))
                        $root.sandboxd.agent.v1.ServiceStatus.encode(message.serviceStatus, writer.uint32(/* id 20, wireType 2 =*/162).fork(), _depth + 1).ldelim();
                    if (message.serviceOutput != null && $Object.hasOwnProperty.call(message, "serviceOutput"))
                        $root.sandboxd.agent.v1.ServiceOutputResult.encode(message.serviceOutput, writer.uint32(/* id 22, wireType 2 =*/178).fork(), _depth + 1).ldelim();
                    if (message.growDisk != null && $Object.hasOwnProperty.call(message, "growDisk"))
                        $root.sandboxd.agent.v1.GrowDiskResult.encode(message.growDisk, writer.uint32(/* id 30, wireType 2 =*/242).fork(), _depth + 1).ldelim();
                    if (message.setClock != null && $Object.hasOwnProperty.call(message, "setClock"))
                        $root.sandboxd.agent.v1.SetClockResult.encode(message.setClock, writer.uint32(/* id 31, wireType 2 =*/250).fork(), _depth + 1).ldelim();
                    if (message.freeze != null && $Object.hasOwnProperty.call(message, "freeze"))
                        $root.sandboxd.agent.v1.FreezeResult.encode(message.freeze, writer.uint32(/* id 32, wireType 2 =*/258).fork(), _depth + 1).ldelim();
                    if (message.commandList != null && $Object.hasOwnProperty.call(message, "commandList"))
                        $root.sandboxd.agent.v1.CommandListResult.encode(message.commandList, writer.uint32(/* id 40, wireType 2 =*/322).fork(), _depth + 1).ldelim();
                    if (message.command != null && $Object.hasOwnProperty.call(message, "command"))
                        $root.sandboxd.agent.v1.CommandStatus.encode(message.command, writer.uint32(/* id 41, wireType 2 =*/330).fork(), _depth + 1).ldelim();
                    if (message.commandAttach != null && $Object.hasOwnProperty.call(message, "commandAttach"))
                        $root.sandboxd.agent.v1.CommandAttachResult.encode(message.commandAttach, writer.uint32(/* id 42, wireType 2 =*/338).fork(), _depth + 1).ldelim();
                    if (message.wake != null && $Object.hasOwnProperty.call(message, "wake"))
                        $root.sandboxd.agent.v1.WakeResult.encode(message.wake, writer.uint32(/* id 45, wireType 2 =*/362).fork(), _depth + 1).ldelim();
                    if (message.portConnect != null && $Object.hasOwnProperty.call(message, "portConnect"))
                        $root.sandboxd.agent.v1.PortConnectResult.encode(message.portConnect, writer.uint32(/* id 50, wireType 2 =*/402).fork(), _depth + 1).ldelim();
                    if (message.trust != null && $Object.hasOwnProperty.call(message, "trust"))
                        $root.sandboxd.agent.v1.TrustResult.encode(message.trust, writer.uint32(/* id 51, wireType 2 =*/410).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a Result message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Result
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Result & sandboxd.agent.v1.Result.$Shape} Result
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Result.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Result();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                message.error = $root.sandboxd.agent.v1.Error.decode(reader, reader.size(), $undefined, _depth + 1, message.error);
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                message.exec = $root.sandboxd.agent.v1.ExecResult.decode(reader, reader.size(), $undefined, _depth + 1, message.exec);
                                message.value = "exec";
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                message.identity = $root.sandboxd.agent.v1.IdentityResult.decode(reader, reader.size(), $undefined, _depth + 1, message.identity);
                                message.value = "identity";
                                continue;
                            }
                        case 4: {
                                if (wireType !== 2)
                                    break;
                                message.stats = $root.sandboxd.agent.v1.StatsResult.decode(reader, reader.size(), $undefined, _depth + 1, message.stats);
                                message.value = "stats";
                                continue;
                            }
                        case 20: {
                                if (wireType !== 2)
                                    break;
                                message.serviceStatus = $root.sandboxd.agent.v1.ServiceStatus.decode(reader, reader.size(), $undefined, _depth + 1, message.serviceStatus);
                                message.value = "serviceStatus";
                                continue;
                            }
                        case 22: {
                                if (wireType !== 2)
                                    break;
                                message.serviceOutput = $root.sandboxd.agent.v1.ServiceOutputResult.decode(reader, reader.size(), $undefined, _depth + 1, message.serviceOutput);
                                message.value = "serviceOutput";
                                continue;
                            }
                        case 10: {
                                if (wireType !== 2)
                                    break;
                                message.filePush = $root.sandboxd.agent.v1.FilePushResult.decode(reader, reader.size(), $undefined, _depth + 1, message.filePush);
                                message.value = "filePush";
                                continue;
                            }
                        case 11: {
                                if (wireType !== 2)
                                    break;
                                message.filePull = $root.sandboxd.agent.v1.FilePullResult.decode(reader, reader.size(), $undefined, _depth + 1, message.filePull);
                                message.value = "filePull";
                                continue;
                            }
                        case 12: {
                                if (wireType !== 2)
                                    break;
                                message.dirPull = $root.sandboxd.agent.v1.DirPullResult.decode(reader, reader.size(), $undefined, _depth + 1, message.dirPull);
                                message.value = "dirPull";
                                continue;
                            }
                        case 13: {
                                if (wireType !== 2)
                                    break;
                                message.fileCall = $root.sandboxd.agent.v1.FileCallResult.decode(reader, reader.size(), $undefined, _depth + 1, message.fileCall);
                                message.value = "fileCall";
                                continue;
                            }
                        case 18: {
                                if (wireType !== 2)
                                    break;
                                message.fileWatch = $root.sandboxd.agent.v1.FileWatchResult.decode(reader, reader.size(), $undefined, _depth + 1, message.fileWatch);
                                message.value = "fileWatch";
                                continue;
                            }
                        case 30: {
                                if (wireType !== 2)
                                    break;
                                message.growDisk = $root.sandboxd.agent.v1.GrowDiskResult.decode(reader, reader.size(), $undefined, _depth + 1, message.growDisk);
                                message.value = "growDisk";
                                continue;
                            }
                        case 31: {
                                if (wireType !== 2)
                                    break;
                                message.setClock = $root.sandboxd.agent.v1.SetClockResult.decode(reader, reader.size(), $undefined, _depth + 1, message.setClock);
                                message.value = "setClock";
                                continue;
                            }
                        case 32: {
                                if (wireType !== 2)
                                    break;
                                message.freeze = $root.sandboxd.agent.v1.FreezeResult.decode(reader, reader.size(), $undefined, _depth + 1, message.freeze);
                                message.value = "freeze";
                                continue;
                            }
                        case 40: {
                                if (wireType !== 2)
                                    break;
                                message.commandList = $root.sandboxd.agent.v1.CommandListResult.decode(reader, reader.size(), $undefined, _depth + 1, message.commandList);
                                message.value = "commandList";
                                continue;
                            }
                        case 41: {
                                if (wireType !== 2)
                                    break;
                                message.command = $root.sandboxd.agent.v1.CommandStatus.decode(reader, reader.size(), $undefined, _depth + 1, message.command);
                                message.value = "command";
                                continue;
                            }
                        case 42: {
                                if (wireType !== 2)
                                    break;
                                message.commandAttach = $root.sandboxd.agent.v1.CommandAttachResult.decode(reader, reader.size(), $undefined, _depth + 1, message.commandAttach);
                                message.value = "commandAttach";
                                continue;
                            }
                        case 45: {
                                if (wireType !== 2)
                                    break;
                                message.wake = $root.sandboxd.agent.v1.WakeResult.decode(reader, reader.size(), $undefined, _depth + 1, message.wake);
                                message.value = "wake";
                                continue;
                            }
                        case 50: {
                                if (wireType !== 2)
                                    break;
                                message.portConnect = $root.sandboxd.agent.v1.PortConnectResult.decode(reader, reader.size(), $undefined, _depth + 1, message.portConnect);
                                message.value = "portConnect";
                                continue;
                            }
                        case 51: {
                                if (wireType !== 2)
                                    break;
                                message.trust = $root.sandboxd.agent.v1.TrustResult.decode(reader, reader.size(), $undefined, _depth + 1, message.trust);
                                message.value = "trust";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Result;
            })();

            v1.Error = (function() {

                /**
                 * Properties of an Error.
                 * @typedef {Object} sandboxd.agent.v1.Error.$Properties
                 * @property {string|null} [code] Error code
                 * @property {string|null} [message] Error message
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of an Error.
                 * @memberof sandboxd.agent.v1
                 * @interface IError
                 * @augments sandboxd.agent.v1.Error.$Properties
                 * @deprecated Use sandboxd.agent.v1.Error.$Properties instead.
                 */

                /**
                 * Shape of an Error.
                 * @typedef {sandboxd.agent.v1.Error.$Properties} sandboxd.agent.v1.Error.$Shape
                 */

                /**
                 * Constructs a new Error.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents an Error.
                 * @constructor
                 * @param {sandboxd.agent.v1.Error.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Error = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Error code.
                 * @member {string} code
                 * @memberof sandboxd.agent.v1.Error
                 * @instance
                 */
                Error.prototype.code = "";

                /**
                 * Error message.
                 * @member {string} message
                 * @memberof sandboxd.agent.v1.Error
                 * @instance
                 */
                Error.prototype.message = "";

                /**
                 * Creates a new Error instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Error
                 * @static
                 * @param {sandboxd.agent.v1.Error.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Error} Error instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Error.$Shape): sandboxd.agent.v1.Error & sandboxd.agent.v1.Error.$Shape;
                 *   (properties?: sandboxd.agent.v1.Error.$Properties): sandboxd.agent.v1.Error;
                 * }}
                 */
                Error.create = function(properties) {
                    return new Error(properties);
                };

                /**
                 * Encodes the specified Error message. Does not implicitly {@link sandboxd.agent.v1.Error.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Error
                 * @static
                 * @param {sandboxd.agent.v1.Error.$Properties} message Error message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Error.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.code != null && $Object.hasOwnProperty.call(message, "code") && message.code !== "")
                        writer.uint32(/* id 1, wireType 2 =*/10).string(message.code);
                    if (message.message != null && $Object.hasOwnProperty.call(message, "message") && message.message !== "")
                        writer.uint32(/* id 2, wireType 2 =*/18).string(message.message);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes an Error message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Error
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Error & sandboxd.agent.v1.Error.$Shape} Error
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Error.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Error();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.code = value;
                                else
                                    delete message.code;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.message = value;
                                else
                                    delete message.message;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Error;
            })();

            v1.Started = (function() {

                /**
                 * Properties of a Started.
                 * @typedef {Object} sandboxd.agent.v1.Started.$Properties
                 * @property {number|null} [pid] Started pid
                 * @property {sandboxd.agent.v1.FileInfo.$Properties|null} [file] Started file
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a Started.
                 * @memberof sandboxd.agent.v1
                 * @interface IStarted
                 * @augments sandboxd.agent.v1.Started.$Properties
                 * @deprecated Use sandboxd.agent.v1.Started.$Properties instead.
                 */

                /**
                 * Shape of a Started.
                 * @typedef {sandboxd.agent.v1.Started.$Properties} sandboxd.agent.v1.Started.$Shape
                 */

                /**
                 * Constructs a new Started.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a Started.
                 * @constructor
                 * @param {sandboxd.agent.v1.Started.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Started = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Started pid.
                 * @member {number} pid
                 * @memberof sandboxd.agent.v1.Started
                 * @instance
                 */
                Started.prototype.pid = 0;

                /**
                 * Started file.
                 * @member {sandboxd.agent.v1.FileInfo.$Properties|null|undefined} file
                 * @memberof sandboxd.agent.v1.Started
                 * @instance
                 */
                Started.prototype.file = null;

                /**
                 * Creates a new Started instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Started
                 * @static
                 * @param {sandboxd.agent.v1.Started.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Started} Started instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Started.$Shape): sandboxd.agent.v1.Started & sandboxd.agent.v1.Started.$Shape;
                 *   (properties?: sandboxd.agent.v1.Started.$Properties): sandboxd.agent.v1.Started;
                 * }}
                 */
                Started.create = function(properties) {
                    return new Started(properties);
                };

                /**
                 * Encodes the specified Started message. Does not implicitly {@link sandboxd.agent.v1.Started.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Started
                 * @static
                 * @param {sandboxd.agent.v1.Started.$Properties} message Started message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Started.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.pid != null && $Object.hasOwnProperty.call(message, "pid") && message.pid !== 0)
                        writer.uint32(/* id 1, wireType 0 =*/8).uint32(message.pid);
                    if (message.file != null && $Object.hasOwnProperty.call(message, "file"))
                        $root.sandboxd.agent.v1.FileInfo.encode(message.file, writer.uint32(/* id 10, wireType 2 =*/82).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a Started message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Started
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Started & sandboxd.agent.v1.Started.$Shape} Started
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Started.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Started();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.pid = value;
                                else
                                    delete message.pid;
                                continue;
                            }
                        case 10: {
                                if (wireType !== 2)
                                    break;
                                message.file = $root.sandboxd.agent.v1.FileInfo.decode(reader, reader.size(), $undefined, _depth + 1, message.file);
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Started;
            })();

            v1.Exec = (function() {

                /**
                 * Properties of an Exec.
                 * @typedef {Object} sandboxd.agent.v1.Exec.$Properties
                 * @property {Array.<string>|null} [cmd] Exec cmd
                 * @property {Array.<string>|null} [env] Exec env
                 * @property {string|null} [cwd] Exec cwd
                 * @property {string|null} [user] Exec user
                 * @property {number|null} [timeoutMs] Exec timeoutMs
                 * @property {boolean|null} [stdin] Exec stdin
                 * @property {sandboxd.agent.v1.TtySize.$Properties|null} [tty] Exec tty
                 * @property {string|null} [id] Exec id
                 * @property {boolean|null} [detach] Exec detach
                 * @property {number|null} [outputBufferBytes] Exec outputBufferBytes
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of an Exec.
                 * @memberof sandboxd.agent.v1
                 * @interface IExec
                 * @augments sandboxd.agent.v1.Exec.$Properties
                 * @deprecated Use sandboxd.agent.v1.Exec.$Properties instead.
                 */

                /**
                 * Shape of an Exec.
                 * @typedef {sandboxd.agent.v1.Exec.$Properties} sandboxd.agent.v1.Exec.$Shape
                 */

                /**
                 * Constructs a new Exec.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents an Exec.
                 * @constructor
                 * @param {sandboxd.agent.v1.Exec.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Exec = function (properties) {
                    this.cmd = [];
                    this.env = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Exec cmd.
                 * @member {Array.<string>} cmd
                 * @memberof sandboxd.agent.v1.Exec
                 * @instance
                 */
                Exec.prototype.cmd = $util.emptyArray;

                /**
                 * Exec env.
                 * @member {Array.<string>} env
                 * @memberof sandboxd.agent.v1.Exec
                 * @instance
                 */
                Exec.prototype.env = $util.emptyArray;

                /**
                 * Exec cwd.
                 * @member {string} cwd
                 * @memberof sandboxd.agent.v1.Exec
                 * @instance
                 */
                Exec.prototype.cwd = "";

                /**
                 * Exec user.
                 * @member {string} user
                 * @memberof sandboxd.agent.v1.Exec
                 * @instance
                 */
                Exec.prototype.user = "";

                /**
                 * Exec timeoutMs.
                 * @member {number} timeoutMs
                 * @memberof sandboxd.agent.v1.Exec
                 * @instance
                 */
                Exec.prototype.timeoutMs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * Exec stdin.
                 * @member {boolean} stdin
                 * @memberof sandboxd.agent.v1.Exec
                 * @instance
                 */
                Exec.prototype.stdin = false;

                /**
                 * Exec tty.
                 * @member {sandboxd.agent.v1.TtySize.$Properties|null|undefined} tty
                 * @memberof sandboxd.agent.v1.Exec
                 * @instance
                 */
                Exec.prototype.tty = null;

                /**
                 * Exec id.
                 * @member {string} id
                 * @memberof sandboxd.agent.v1.Exec
                 * @instance
                 */
                Exec.prototype.id = "";

                /**
                 * Exec detach.
                 * @member {boolean} detach
                 * @memberof sandboxd.agent.v1.Exec
                 * @instance
                 */
                Exec.prototype.detach = false;

                /**
                 * Exec outputBufferBytes.
                 * @member {number} outputBufferBytes
                 * @memberof sandboxd.agent.v1.Exec
                 * @instance
                 */
                Exec.prototype.outputBufferBytes = 0;

                /**
                 * Creates a new Exec instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Exec
                 * @static
                 * @param {sandboxd.agent.v1.Exec.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Exec} Exec instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Exec.$Shape): sandboxd.agent.v1.Exec & sandboxd.agent.v1.Exec.$Shape;
                 *   (properties?: sandboxd.agent.v1.Exec.$Properties): sandboxd.agent.v1.Exec;
                 * }}
                 */
                Exec.create = function(properties) {
                    return new Exec(properties);
                };

                /**
                 * Encodes the specified Exec message. Does not implicitly {@link sandboxd.agent.v1.Exec.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Exec
                 * @static
                 * @param {sandboxd.agent.v1.Exec.$Properties} message Exec message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Exec.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.cmd != null && message.cmd.length)
                        for (let i = 0; i < message.cmd.length; ++i)
                            writer.uint32(/* id 1, wireType 2 =*/10).string(message.cmd[i]);
                    if (message.env != null && message.env.length)
                        for (let i = 0; i < message.env.length; ++i)
                            writer.uint32(/* id 2, wireType 2 =*/18).string(message.env[i]);
                    if (message.cwd != null && $Object.hasOwnProperty.call(message, "cwd") && message.cwd !== "")
                        writer.uint32(/* id 3, wireType 2 =*/26).string(message.cwd);
                    if (message.user != null && $Object.hasOwnProperty.call(message, "user") && message.user !== "")
                        writer.uint32(/* id 4, wireType 2 =*/34).string(message.user);
                    if (message.timeoutMs != null && $Object.hasOwnProperty.call(message, "timeoutMs") && (typeof message.timeoutMs === "object" ? message.timeoutMs.low || message.timeoutMs.high : message.timeoutMs !== 0))
                        writer.uint32(/* id 5, wireType 0 =*/40).uint64(message.timeoutMs);
                    if (message.stdin != null && $Object.hasOwnProperty.call(message, "stdin") && message.stdin !== false)
                        writer.uint32(/* id 6, wireType 0 =*/48).bool(message.stdin);
                    if (message.tty != null && $Object.hasOwnProperty.call(message, "tty"))
                        $root.sandboxd.agent.v1.TtySize.encode(message.tty, writer.uint32(/* id 7, wireType 2 =*/58).fork(), _depth + 1).ldelim();
                    if (message.id != null && $Object.hasOwnProperty.call(message, "id") && message.id !== "")
                        writer.uint32(/* id 8, wireType 2 =*/66).string(message.id);
                    if (message.detach != null && $Object.hasOwnProperty.call(message, "detach") && message.detach !== false)
                        writer.uint32(/* id 9, wireType 0 =*/72).bool(message.detach);
                    if (message.outputBufferBytes != null && $Object.hasOwnProperty.call(message, "outputBufferBytes") && message.outputBufferBytes !== 0)
                        writer.uint32(/* id 10, wireType 0 =*/80).uint32(message.outputBufferBytes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes an Exec message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Exec
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Exec & sandboxd.agent.v1.Exec.$Shape} Exec
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Exec.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Exec();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.cmd && message.cmd.length))
                                    message.cmd = [];
                                message.cmd.push(reader.stringVerify());
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.env && message.env.length))
                                    message.env = [];
                                message.env.push(reader.stringVerify());
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.cwd = value;
                                else
                                    delete message.cwd;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.user = value;
                                else
                                    delete message.user;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.timeoutMs = value;
                                else
                                    delete message.timeoutMs;
                                continue;
                            }
                        case 6: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.stdin = value;
                                else
                                    delete message.stdin;
                                continue;
                            }
                        case 7: {
                                if (wireType !== 2)
                                    break;
                                message.tty = $root.sandboxd.agent.v1.TtySize.decode(reader, reader.size(), $undefined, _depth + 1, message.tty);
                                continue;
                            }
                        case 8: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.id = value;
                                else
                                    delete message.id;
                                continue;
                            }
                        case 9: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.detach = value;
                                else
                                    delete message.detach;
                                continue;
                            }
                        case 10: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.outputBufferBytes = value;
                                else
                                    delete message.outputBufferBytes;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Exec;
            })();

            v1.ExecResult = (function() {

                /**
                 * Properties of an ExecResult.
                 * @typedef {Object} sandboxd.agent.v1.ExecResult.$Properties
                 * @property {number|null} [exitCode] ExecResult exitCode
                 * @property {number|null} [durationUs] ExecResult durationUs
                 * @property {string|null} [signal] ExecResult signal
                 * @property {boolean|null} [timedOut] ExecResult timedOut
                 * @property {boolean|null} [oomKilled] ExecResult oomKilled
                 * @property {string|null} [error] ExecResult error
                 * @property {sandboxd.agent.v1.ResourceUsage.$Properties|null} [usage] ExecResult usage
                 * @property {number|null} [agentUs] ExecResult agentUs
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of an ExecResult.
                 * @memberof sandboxd.agent.v1
                 * @interface IExecResult
                 * @augments sandboxd.agent.v1.ExecResult.$Properties
                 * @deprecated Use sandboxd.agent.v1.ExecResult.$Properties instead.
                 */

                /**
                 * Shape of an ExecResult.
                 * @typedef {sandboxd.agent.v1.ExecResult.$Properties} sandboxd.agent.v1.ExecResult.$Shape
                 */

                /**
                 * Constructs a new ExecResult.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents an ExecResult.
                 * @constructor
                 * @param {sandboxd.agent.v1.ExecResult.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const ExecResult = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * ExecResult exitCode.
                 * @member {number} exitCode
                 * @memberof sandboxd.agent.v1.ExecResult
                 * @instance
                 */
                ExecResult.prototype.exitCode = 0;

                /**
                 * ExecResult durationUs.
                 * @member {number} durationUs
                 * @memberof sandboxd.agent.v1.ExecResult
                 * @instance
                 */
                ExecResult.prototype.durationUs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * ExecResult signal.
                 * @member {string} signal
                 * @memberof sandboxd.agent.v1.ExecResult
                 * @instance
                 */
                ExecResult.prototype.signal = "";

                /**
                 * ExecResult timedOut.
                 * @member {boolean} timedOut
                 * @memberof sandboxd.agent.v1.ExecResult
                 * @instance
                 */
                ExecResult.prototype.timedOut = false;

                /**
                 * ExecResult oomKilled.
                 * @member {boolean} oomKilled
                 * @memberof sandboxd.agent.v1.ExecResult
                 * @instance
                 */
                ExecResult.prototype.oomKilled = false;

                /**
                 * ExecResult error.
                 * @member {string} error
                 * @memberof sandboxd.agent.v1.ExecResult
                 * @instance
                 */
                ExecResult.prototype.error = "";

                /**
                 * ExecResult usage.
                 * @member {sandboxd.agent.v1.ResourceUsage.$Properties|null|undefined} usage
                 * @memberof sandboxd.agent.v1.ExecResult
                 * @instance
                 */
                ExecResult.prototype.usage = null;

                /**
                 * ExecResult agentUs.
                 * @member {number} agentUs
                 * @memberof sandboxd.agent.v1.ExecResult
                 * @instance
                 */
                ExecResult.prototype.agentUs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * Creates a new ExecResult instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.ExecResult
                 * @static
                 * @param {sandboxd.agent.v1.ExecResult.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.ExecResult} ExecResult instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.ExecResult.$Shape): sandboxd.agent.v1.ExecResult & sandboxd.agent.v1.ExecResult.$Shape;
                 *   (properties?: sandboxd.agent.v1.ExecResult.$Properties): sandboxd.agent.v1.ExecResult;
                 * }}
                 */
                ExecResult.create = function(properties) {
                    return new ExecResult(properties);
                };

                /**
                 * Encodes the specified ExecResult message. Does not implicitly {@link sandboxd.agent.v1.ExecResult.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.ExecResult
                 * @static
                 * @param {sandboxd.agent.v1.ExecResult.$Properties} message ExecResult message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                ExecResult.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.exitCode != null && $Object.hasOwnProperty.call(message, "exitCode") && message.exitCode !== 0)
                        writer.uint32(/* id 1, wireType 0 =*/8).sint32(message.exitCode);
                    if (message.durationUs != null && $Object.hasOwnProperty.call(message, "durationUs") && (typeof message.durationUs === "object" ? message.durationUs.low || message.durationUs.high : message.durationUs !== 0))
                        writer.uint32(/* id 2, wireType 0 =*/16).uint64(message.durationUs);
                    if (message.signal != null && $Object.hasOwnProperty.call(message, "signal") && message.signal !== "")
                        writer.uint32(/* id 3, wireType 2 =*/26).string(message.signal);
                    if (message.timedOut != null && $Object.hasOwnProperty.call(message, "timedOut") && message.timedOut !== false)
                        writer.uint32(/* id 4, wireType 0 =*/32).bool(message.timedOut);
                    if (message.oomKilled != null && $Object.hasOwnProperty.call(message, "oomKilled") && message.oomKilled !== false)
                        writer.uint32(/* id 5, wireType 0 =*/40).bool(message.oomKilled);
                    if (message.error != null && $Object.hasOwnProperty.call(message, "error") && message.error !== "")
                        writer.uint32(/* id 6, wireType 2 =*/50).string(message.error);
                    if (message.usage != null && $Object.hasOwnProperty.call(message, "usage"))
                        $root.sandboxd.agent.v1.ResourceUsage.encode(message.usage, writer.uint32(/* id 7, wireType 2 =*/58).fork(), _depth + 1).ldelim();
                    if (message.agentUs != null && $Object.hasOwnProperty.call(message, "agentUs") && (typeof message.agentUs === "object" ? message.agentUs.low || message.agentUs.high : message.agentUs !== 0))
                        writer.uint32(/* id 8, wireType 0 =*/64).uint64(message.agentUs);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes an ExecResult message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.ExecResult
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ExecResult & sandboxd.agent.v1.ExecResult.$Shape} ExecResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                ExecResult.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.ExecResult();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.sint32())
                                    message.exitCode = value;
                                else
                                    delete message.exitCode;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.durationUs = value;
                                else
                                    delete message.durationUs;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.signal = value;
                                else
                                    delete message.signal;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.timedOut = value;
                                else
                                    delete message.timedOut;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.oomKilled = value;
                                else
                                    delete message.oomKilled;
                                continue;
                            }
                        case 6: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.error = value;
                                else
                                    delete message.error;
                                continue;
                            }
                        case 7: {
                                if (wireType !== 2)
                                    break;
                                message.usage = $root.sandboxd.agent.v1.ResourceUsage.decode(reader, reader.size(), $undefined, _depth + 1, message.usage);
                                continue;
                            }
                        case 8: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.agentUs = value;
                                else
                                    delete message.agentUs;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return ExecResult;
            })();

            v1.ResourceUsage = (function() {

                /**
                 * Properties of a ResourceUsage.
                 * @typedef {Object} sandboxd.agent.v1.ResourceUsage.$Properties
                 * @property {number|null} [cpuUserUs] ResourceUsage cpuUserUs
                 * @property {number|null} [cpuSysUs] ResourceUsage cpuSysUs
                 * @property {number|null} [peakMemoryBytes] ResourceUsage peakMemoryBytes
                 * @property {number|null} [pageFaultsMajor] ResourceUsage pageFaultsMajor
                 * @property {number|null} [contextSwitchesInvoluntary] ResourceUsage contextSwitchesInvoluntary
                 * @property {number|null} [ioReadBytes] ResourceUsage ioReadBytes
                 * @property {number|null} [ioWriteBytes] ResourceUsage ioWriteBytes
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a ResourceUsage.
                 * @memberof sandboxd.agent.v1
                 * @interface IResourceUsage
                 * @augments sandboxd.agent.v1.ResourceUsage.$Properties
                 * @deprecated Use sandboxd.agent.v1.ResourceUsage.$Properties instead.
                 */

                /**
                 * Shape of a ResourceUsage.
                 * @typedef {sandboxd.agent.v1.ResourceUsage.$Properties} sandboxd.agent.v1.ResourceUsage.$Shape
                 */

                /**
                 * Constructs a new ResourceUsage.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a ResourceUsage.
                 * @constructor
                 * @param {sandboxd.agent.v1.ResourceUsage.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const ResourceUsage = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * ResourceUsage cpuUserUs.
                 * @member {number} cpuUserUs
                 * @memberof sandboxd.agent.v1.ResourceUsage
                 * @instance
                 */
                ResourceUsage.prototype.cpuUserUs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * ResourceUsage cpuSysUs.
                 * @member {number} cpuSysUs
                 * @memberof sandboxd.agent.v1.ResourceUsage
                 * @instance
                 */
                ResourceUsage.prototype.cpuSysUs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * ResourceUsage peakMemoryBytes.
                 * @member {number} peakMemoryBytes
                 * @memberof sandboxd.agent.v1.ResourceUsage
                 * @instance
                 */
                ResourceUsage.prototype.peakMemoryBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * ResourceUsage pageFaultsMajor.
                 * @member {number} pageFaultsMajor
                 * @memberof sandboxd.agent.v1.ResourceUsage
                 * @instance
                 */
                ResourceUsage.prototype.pageFaultsMajor = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * ResourceUsage contextSwitchesInvoluntary.
                 * @member {number} contextSwitchesInvoluntary
                 * @memberof sandboxd.agent.v1.ResourceUsage
                 * @instance
                 */
                ResourceUsage.prototype.contextSwitchesInvoluntary = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * ResourceUsage ioReadBytes.
                 * @member {number} ioReadBytes
                 * @memberof sandboxd.agent.v1.ResourceUsage
                 * @instance
                 */
                ResourceUsage.prototype.ioReadBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * ResourceUsage ioWriteBytes.
                 * @member {number} ioWriteBytes
                 * @memberof sandboxd.agent.v1.ResourceUsage
                 * @instance
                 */
                ResourceUsage.prototype.ioWriteBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * Creates a new ResourceUsage instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.ResourceUsage
                 * @static
                 * @param {sandboxd.agent.v1.ResourceUsage.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.ResourceUsage} ResourceUsage instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.ResourceUsage.$Shape): sandboxd.agent.v1.ResourceUsage & sandboxd.agent.v1.ResourceUsage.$Shape;
                 *   (properties?: sandboxd.agent.v1.ResourceUsage.$Properties): sandboxd.agent.v1.ResourceUsage;
                 * }}
                 */
                ResourceUsage.create = function(properties) {
                    return new ResourceUsage(properties);
                };

                /**
                 * Encodes the specified ResourceUsage message. Does not implicitly {@link sandboxd.agent.v1.ResourceUsage.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.ResourceUsage
                 * @static
                 * @param {sandboxd.agent.v1.ResourceUsage.$Properties} message ResourceUsage message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                ResourceUsage.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.cpuUserUs != null && $Object.hasOwnProperty.call(message, "cpuUserUs") && (typeof message.cpuUserUs === "object" ? message.cpuUserUs.low || message.cpuUserUs.high : message.cpuUserUs !== 0))
                        writer.uint32(/* id 1, wireType 0 =*/8).uint64(message.cpuUserUs);
                    if (message.cpuSysUs != null && $Object.hasOwnProperty.call(message, "cpuSysUs") && (typeof message.cpuSysUs === "object" ? message.cpuSysUs.low || message.cpuSysUs.high : message.cpuSysUs !== 0))
                        writer.uint32(/* id 2, wireType 0 =*/16).uint64(message.cpuSysUs);
                    if (message.peakMemoryBytes != null && $Object.hasOwnProperty.call(message, "peakMemoryBytes") && (typeof message.peakMemoryBytes === "object" ? message.peakMemoryBytes.low || message.peakMemoryBytes.high : message.peakMemoryBytes !== 0))
                        writer.uint32(/* id 3, wireType 0 =*/24).uint64(message.peakMemoryBytes);
                    if (message.pageFaultsMajor != null && $Object.hasOwnProperty.call(message, "pageFaultsMajor") && (typeof message.pageFaultsMajor === "object" ? message.pageFaultsMajor.low || message.pageFaultsMajor.high : message.pageFaultsMajor !== 0))
                        writer.uint32(/* id 4, wireType 0 =*/32).uint64(message.pageFaultsMajor);
                    if (message.contextSwitchesInvoluntary != null && $Object.hasOwnProperty.call(message, "contextSwitchesInvoluntary") && (typeof message.contextSwitchesInvoluntary === "object" ? message.contextSwitchesInvoluntary.low || message.contextSwitchesInvoluntary.high : message.contextSwitchesInvoluntary !== 0))
                        writer.uint32(/* id 5, wireType 0 =*/40).uint64(message.contextSwitchesInvoluntary);
                    if (message.ioReadBytes != null && $Object.hasOwnProperty.call(message, "ioReadBytes") && (typeof message.ioReadBytes === "object" ? message.ioReadBytes.low || message.ioReadBytes.high : message.ioReadBytes !== 0))
                        writer.uint32(/* id 6, wireType 0 =*/48).uint64(message.ioReadBytes);
                    if (message.ioWriteBytes != null && $Object.hasOwnProperty.call(message, "ioWriteBytes") && (typeof message.ioWriteBytes === "object" ? message.ioWriteBytes.low || message.ioWriteBytes.high : message.ioWriteBytes !== 0))
                        writer.uint32(/* id 7, wireType 0 =*/56).uint64(message.ioWriteBytes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a ResourceUsage message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.ResourceUsage
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ResourceUsage & sandboxd.agent.v1.ResourceUsage.$Shape} ResourceUsage
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                ResourceUsage.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.ResourceUsage();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.cpuUserUs = value;
                                else
                                    delete message.cpuUserUs;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.cpuSysUs = value;
                                else
                                    delete message.cpuSysUs;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.peakMemoryBytes = value;
                                else
                                    delete message.peakMemoryBytes;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.pageFaultsMajor = value;
                                else
                                    delete message.pageFaultsMajor;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.contextSwitchesInvoluntary = value;
                                else
                                    delete message.contextSwitchesInvoluntary;
                                continue;
                            }
                        case 6: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.ioReadBytes = value;
                                else
                                    delete message.ioReadBytes;
                                continue;
                            }
                        case 7: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.ioWriteBytes = value;
                                else
                                    delete message.ioWriteBytes;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return ResourceUsage;
            })();

            v1.CommandStatus = (function() {

                /**
                 * Properties of a CommandStatus.
                 * @typedef {Object} sandboxd.agent.v1.CommandStatus.$Properties
                 * @property {string|null} [id] CommandStatus id
                 * @property {Array.<string>|null} [cmd] CommandStatus cmd
                 * @property {boolean|null} [cmdTruncated] CommandStatus cmdTruncated
                 * @property {number|null} [pid] CommandStatus pid
                 * @property {boolean|null} [detached] CommandStatus detached
                 * @property {boolean|null} [stdin] CommandStatus stdin
                 * @property {sandboxd.agent.v1.TtySize.$Properties|null} [tty] CommandStatus tty
                 * @property {number|null} [startedUnixMs] CommandStatus startedUnixMs
                 * @property {sandboxd.agent.v1.ExecResult.$Properties|null} [result] CommandStatus result
                 * @property {number|null} [endedUnixMs] CommandStatus endedUnixMs
                 * @property {sandboxd.agent.v1.OutputRing.$Properties|null} [output] CommandStatus output
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a CommandStatus.
                 * @memberof sandboxd.agent.v1
                 * @interface ICommandStatus
                 * @augments sandboxd.agent.v1.CommandStatus.$Properties
                 * @deprecated Use sandboxd.agent.v1.CommandStatus.$Properties instead.
                 */

                /**
                 * Shape of a CommandStatus.
                 * @typedef {sandboxd.agent.v1.CommandStatus.$Properties} sandboxd.agent.v1.CommandStatus.$Shape
                 */

                /**
                 * Constructs a new CommandStatus.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a CommandStatus.
                 * @constructor
                 * @param {sandboxd.agent.v1.CommandStatus.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const CommandStatus = function (properties) {
                    this.cmd = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * CommandStatus id.
                 * @member {string} id
                 * @memberof sandboxd.agent.v1.CommandStatus
                 * @instance
                 */
                CommandStatus.prototype.id = "";

                /**
                 * CommandStatus cmd.
                 * @member {Array.<string>} cmd
                 * @memberof sandboxd.agent.v1.CommandStatus
                 * @instance
                 */
                CommandStatus.prototype.cmd = $util.emptyArray;

                /**
                 * CommandStatus cmdTruncated.
                 * @member {boolean} cmdTruncated
                 * @memberof sandboxd.agent.v1.CommandStatus
                 * @instance
                 */
                CommandStatus.prototype.cmdTruncated = false;

                /**
                 * CommandStatus pid.
                 * @member {number} pid
                 * @memberof sandboxd.agent.v1.CommandStatus
                 * @instance
                 */
                CommandStatus.prototype.pid = 0;

                /**
                 * CommandStatus detached.
                 * @member {boolean} detached
                 * @memberof sandboxd.agent.v1.CommandStatus
                 * @instance
                 */
                CommandStatus.prototype.detached = false;

                /**
                 * CommandStatus stdin.
                 * @member {boolean} stdin
                 * @memberof sandboxd.agent.v1.CommandStatus
                 * @instance
                 */
                CommandStatus.prototype.stdin = false;

                /**
                 * CommandStatus tty.
                 * @member {sandboxd.agent.v1.TtySize.$Properties|null|undefined} tty
                 * @memberof sandboxd.agent.v1.CommandStatus
                 * @instance
                 */
                CommandStatus.prototype.tty = null;

                /**
                 * CommandStatus startedUnixMs.
                 * @member {number} startedUnixMs
                 * @memberof sandboxd.agent.v1.CommandStatus
                 * @instance
                 */
                CommandStatus.prototype.startedUnixMs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * CommandStatus result.
                 * @member {sandboxd.agent.v1.ExecResult.$Properties|null|undefined} result
                 * @memberof sandboxd.agent.v1.CommandStatus
                 * @instance
                 */
                CommandStatus.prototype.result = null;

                /**
                 * CommandStatus endedUnixMs.
                 * @member {number} endedUnixMs
                 * @memberof sandboxd.agent.v1.CommandStatus
                 * @instance
                 */
                CommandStatus.prototype.endedUnixMs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * CommandStatus output.
                 * @member {sandboxd.agent.v1.OutputRing.$Properties|null|undefined} output
                 * @memberof sandboxd.agent.v1.CommandStatus
                 * @instance
                 */
                CommandStatus.prototype.output = null;

                /**
                 * Creates a new CommandStatus instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.CommandStatus
                 * @static
                 * @param {sandboxd.agent.v1.CommandStatus.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.CommandStatus} CommandStatus instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.CommandStatus.$Shape): sandboxd.agent.v1.CommandStatus & sandboxd.agent.v1.CommandStatus.$Shape;
                 *   (properties?: sandboxd.agent.v1.CommandStatus.$Properties): sandboxd.agent.v1.CommandStatus;
                 * }}
                 */
                CommandStatus.create = function(properties) {
                    return new CommandStatus(properties);
                };

                /**
                 * Encodes the specified CommandStatus message. Does not implicitly {@link sandboxd.agent.v1.CommandStatus.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.CommandStatus
                 * @static
                 * @param {sandboxd.agent.v1.CommandStatus.$Properties} message CommandStatus message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                CommandStatus.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.id != null && $Object.hasOwnProperty.call(message, "id") && message.id !== "")
                        writer.uint32(/* id 1, wireType 2 =*/10).string(message.id);
                    if (message.cmd != null && message.cmd.length)
                        for (let i = 0; i < message.cmd.length; ++i)
                            writer.uint32(/* id 2, wireType 2 =*/18).string(message.cmd[i]);
                    if (message.cmdTruncated != null && $Object.hasOwnProperty.call(message, "cmdTruncated") && message.cmdTruncated !== false)
                        writer.uint32(/* id 3, wireType 0 =*/24).bool(message.cmdTruncated);
                    if (message.pid != null && $Object.hasOwnProperty.call(message, "pid") && message.pid !== 0)
                        writer.uint32(/* id 4, wireType 0 =*/32).uint32(message.pid);
                    if (message.detached != null && $Object.hasOwnProperty.call(message, "detached") && message.detached !== false)
                        writer.uint32(/* id 5, wireType 0 =*/40).bool(message.detached);
                    if (message.stdin != null && $Object.hasOwnProperty.call(message, "stdin") && message.stdin !== false)
                        writer.uint32(/* id 6, wireType 0 =*/48).bool(message.stdin);
                    if (message.tty != null && $Object.hasOwnProperty.call(message, "tty"))
                        $root.sandboxd.agent.v1.TtySize.encode(message.tty, writer.uint32(/* id 7, wireType 2 =*/58).fork(), _depth + 1).ldelim();
                    if (message.startedUnixMs != null && $Object.hasOwnProperty.call(message, "startedUnixMs") && (typeof message.startedUnixMs === "object" ? message.startedUnixMs.low || message.startedUnixMs.high : message.startedUnixMs !== 0))
                        writer.uint32(/* id 8, wireType 0 =*/64).uint64(message.startedUnixMs);
                    if (message.result != null && $Object.hasOwnProperty.call(message, "result"))
                        $root.sandboxd.agent.v1.ExecResult.encode(message.result, writer.uint32(/* id 9, wireType 2 =*/74).fork(), _depth + 1).ldelim();
                    if (message.endedUnixMs != null && $Object.hasOwnProperty.call(message, "endedUnixMs") && (typeof message.endedUnixMs === "object" ? message.endedUnixMs.low || message.endedUnixMs.high : message.endedUnixMs !== 0))
                        writer.uint32(/* id 10, wireType 0 =*/80).uint64(message.endedUnixMs);
                    if (message.output != null && $Object.hasOwnProperty.call(message, "output"))
                        $root.sandboxd.agent.v1.OutputRing.encode(message.output, writer.uint32(/* id 11, wireType 2 =*/90).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a CommandStatus message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.CommandStatus
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.CommandStatus & sandboxd.agent.v1.CommandStatus.$Shape} CommandStatus
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                CommandStatus.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.CommandStatus();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.id = value;
                                else
                                    delete message.id;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.cmd && message.cmd.length))
                                    message.cmd = [];
                                message.cmd.push(reader.stringVerify());
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.cmdTruncated = value;
                                else
                                    delete message.cmdTruncated;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.pid = value;
                                else
                                    delete message.pid;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.detached = value;
                                else
                                    delete message.detached;
                                continue;
                            }
                        case 6: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.stdin = value;
                                else
                                    delete message.stdin;
                                continue;
                            }
                        case 7: {
                                if (wireType !== 2)
                                    break;
                                message.tty = $root.sandboxd.agent.v1.TtySize.decode(reader, reader.size(), $undefined, _depth + 1, message.tty);
                                continue;
                            }
                        case 8: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.startedUnixMs = value;
                                else
                                    delete message.startedUnixMs;
                                continue;
                            }
                        case 9: {
                                if (wireType !== 2)
                                    break;
                                message.result = $root.sandboxd.agent.v1.ExecResult.decode(reader, reader.size(), $undefined, _depth + 1, message.result);
                                continue;
                            }
                        case 10: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.endedUnixMs = value;
                                else
                                    delete message.endedUnixMs;
                                continue;
                            }
                        case 11: {
                                if (wireType !== 2)
                                    break;
                                message.output = $root.sandboxd.agent.v1.OutputRing.decode(reader, reader.size(), $undefined, _depth + 1, message.output);
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return CommandStatus;
            })();

            v1.OutputRing = (function() {

                /**
                 * Properties of an OutputRing.
                 * @typedef {Object} sandboxd.agent.v1.OutputRing.$Properties
                 * @property {number|null} [firstSeq] OutputRing firstSeq
                 * @property {number|null} [nextSeq] OutputRing nextSeq
                 * @property {number|null} [droppedBytes] OutputRing droppedBytes
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of an OutputRing.
                 * @memberof sandboxd.agent.v1
                 * @interface IOutputRing
                 * @augments sandboxd.agent.v1.OutputRing.$Properties
                 * @deprecated Use sandboxd.agent.v1.OutputRing.$Properties instead.
                 */

                /**
                 * Shape of an OutputRing.
                 * @typedef {sandboxd.agent.v1.OutputRing.$Properties} sandboxd.agent.v1.OutputRing.$Shape
                 */

                /**
                 * Constructs a new OutputRing.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents an OutputRing.
                 * @constructor
                 * @param {sandboxd.agent.v1.OutputRing.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const OutputRing = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * OutputRing firstSeq.
                 * @member {number} firstSeq
                 * @memberof sandboxd.agent.v1.OutputRing
                 * @instance
                 */
                OutputRing.prototype.firstSeq = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * OutputRing nextSeq.
                 * @member {number} nextSeq
                 * @memberof sandboxd.agent.v1.OutputRing
                 * @instance
                 */
                OutputRing.prototype.nextSeq = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * OutputRing droppedBytes.
                 * @member {number} droppedBytes
                 * @memberof sandboxd.agent.v1.OutputRing
                 * @instance
                 */
                OutputRing.prototype.droppedBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * Creates a new OutputRing instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.OutputRing
                 * @static
                 * @param {sandboxd.agent.v1.OutputRing.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.OutputRing} OutputRing instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.OutputRing.$Shape): sandboxd.agent.v1.OutputRing & sandboxd.agent.v1.OutputRing.$Shape;
                 *   (properties?: sandboxd.agent.v1.OutputRing.$Properties): sandboxd.agent.v1.OutputRing;
                 * }}
                 */
                OutputRing.create = function(properties) {
                    return new OutputRing(properties);
                };

                /**
                 * Encodes the specified OutputRing message. Does not implicitly {@link sandboxd.agent.v1.OutputRing.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.OutputRing
                 * @static
                 * @param {sandboxd.agent.v1.OutputRing.$Properties} message OutputRing message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                OutputRing.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.firstSeq != null && $Object.hasOwnProperty.call(message, "firstSeq") && (typeof message.firstSeq === "object" ? message.firstSeq.low || message.firstSeq.high : message.firstSeq !== 0))
                        writer.uint32(/* id 1, wireType 0 =*/8).uint64(message.firstSeq);
                    if (message.nextSeq != null && $Object.hasOwnProperty.call(message, "nextSeq") && (typeof message.nextSeq === "object" ? message.nextSeq.low || message.nextSeq.high : message.nextSeq !== 0))
                        writer.uint32(/* id 2, wireType 0 =*/16).uint64(message.nextSeq);
                    if (message.droppedBytes != null && $Object.hasOwnProperty.call(message, "droppedBytes") && (typeof message.droppedBytes === "object" ? message.droppedBytes.low || message.droppedBytes.high : message.droppedBytes !== 0))
                        writer.uint32(/* id 3, wireType 0 =*/24).uint64(message.droppedBytes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes an OutputRing message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.OutputRing
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.OutputRing & sandboxd.agent.v1.OutputRing.$Shape} OutputRing
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                OutputRing.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.OutputRing();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.firstSeq = value;
                                else
                                    delete message.firstSeq;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.nextSeq = value;
                                else
                                    delete message.nextSeq;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.droppedBytes = value;
                                else
                                    delete message.droppedBytes;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return OutputRing;
            })();

            v1.CommandList = (function() {

                /**
                 * Properties of a CommandList.
                 * @typedef {Object} sandboxd.agent.v1.CommandList.$Properties
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a CommandList.
                 * @memberof sandboxd.agent.v1
                 * @interface ICommandList
                 * @augments sandboxd.agent.v1.CommandList.$Properties
                 * @deprecated Use sandboxd.agent.v1.CommandList.$Properties instead.
                 */

                /**
                 * Shape of a CommandList.
                 * @typedef {sandboxd.agent.v1.CommandList.$Properties} sandboxd.agent.v1.CommandList.$Shape
                 */

                /**
                 * Constructs a new CommandList.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a CommandList.
                 * @constructor
                 * @param {sandboxd.agent.v1.CommandList.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const CommandList = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Creates a new CommandList instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.CommandList
                 * @static
                 * @param {sandboxd.agent.v1.CommandList.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.CommandList} CommandList instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.CommandList.$Shape): sandboxd.agent.v1.CommandList & sandboxd.agent.v1.CommandList.$Shape;
                 *   (properties?: sandboxd.agent.v1.CommandList.$Properties): sandboxd.agent.v1.CommandList;
                 * }}
                 */
                CommandList.create = function(properties) {
                    return new CommandList(properties);
                };

                /**
                 * Encodes the specified CommandList message. Does not implicitly {@link sandboxd.agent.v1.CommandList.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.CommandList
                 * @static
                 * @param {sandboxd.agent.v1.CommandList.$Properties} message CommandList message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                CommandList.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a CommandList message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.CommandList
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.CommandList & sandboxd.agent.v1.CommandList.$Shape} CommandList
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                CommandList.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.CommandList();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        reader.skipType(tag & 7, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return CommandList;
            })();

            v1.CommandListResult = (function() {

                /**
                 * Properties of a CommandListResult.
                 * @typedef {Object} sandboxd.agent.v1.CommandListResult.$Properties
                 * @property {Uint8Array|null} [commands] CommandListResult commands
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a CommandListResult.
                 * @memberof sandboxd.agent.v1
                 * @interface ICommandListResult
                 * @augments sandboxd.agent.v1.CommandListResult.$Properties
                 * @deprecated Use sandboxd.agent.v1.CommandListResult.$Properties instead.
                 */

                /**
                 * Shape of a CommandListResult.
                 * @typedef {sandboxd.agent.v1.CommandListResult.$Properties} sandboxd.agent.v1.CommandListResult.$Shape
                 */

                /**
                 * Constructs a new CommandListResult.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a CommandListResult.
                 * @constructor
                 * @param {sandboxd.agent.v1.CommandListResult.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const CommandListResult = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * CommandListResult commands.
                 * @member {Uint8Array} commands
                 * @memberof sandboxd.agent.v1.CommandListResult
                 * @instance
                 */
                CommandListResult.prototype.commands = $util.newBuffer([]);

                /**
                 * Creates a new CommandListResult instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.CommandListResult
                 * @static
                 * @param {sandboxd.agent.v1.CommandListResult.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.CommandListResult} CommandListResult instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.CommandListResult.$Shape): sandboxd.agent.v1.CommandListResult & sandboxd.agent.v1.CommandListResult.$Shape;
                 *   (properties?: sandboxd.agent.v1.CommandListResult.$Properties): sandboxd.agent.v1.CommandListResult;
                 * }}
                 */
                CommandListResult.create = function(properties) {
                    return new CommandListResult(properties);
                };

                /**
                 * Encodes the specified CommandListResult message. Does not implicitly {@link sandboxd.agent.v1.CommandListResult.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.CommandListResult
                 * @static
                 * @param {sandboxd.agent.v1.CommandListResult.$Properties} message CommandListResult message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                CommandListResult.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.commands != null && $Object.hasOwnProperty.call(message, "commands") && message.commands.length)
                        writer.uint32(/* id 1, wireType 2 =*/10).bytes(message.commands);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a CommandListResult message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.CommandListResult
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.CommandListResult & sandboxd.agent.v1.CommandListResult.$Shape} CommandListResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                CommandListResult.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.CommandListResult();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.commands = value;
                                else
                                    delete message.commands;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return CommandListResult;
            })();

            v1.CommandCall = (function() {

                /**
                 * Properties of a CommandCall.
                 * @typedef {Object} sandboxd.agent.v1.CommandCall.$Properties
                 * @property {string|null} [id] CommandCall id
                 * @property {sandboxd.agent.v1.CommandWait.$Properties|null} [wait] CommandCall wait
                 * @property {sandboxd.agent.v1.Signal.$Properties|null} [signal] CommandCall signal
                 * @property {sandboxd.agent.v1.TtySize.$Properties|null} [resize] CommandCall resize
                 * @property {sandboxd.agent.v1.CommandKill.$Properties|null} [kill] CommandCall kill
                 * @property {"wait"|"signal"|"resize"|"kill"} [action] CommandCall action
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a CommandCall.
                 * @memberof sandboxd.agent.v1
                 * @interface ICommandCall
                 * @augments sandboxd.agent.v1.CommandCall.$Properties
                 * @deprecated Use sandboxd.agent.v1.CommandCall.$Properties instead.
                 */

                /**
                 * Narrowed shape of a CommandCall.
                 * @typedef {{
                 *   id?: string|null;
                 *   wait?: sandboxd.agent.v1.CommandWait.$Shape|null;
                 *   signal?: sandboxd.agent.v1.Signal.$Shape|null;
                 *   resize?: sandboxd.agent.v1.TtySize.$Shape|null;
                 *   kill?: sandboxd.agent.v1.CommandKill.$Shape|null;
                 *   $unknowns?: Array.<Uint8Array>;
                 * } & (
                 *   ({ action?: undefined; wait?: null; signal?: null; resize?: null; kill?: null }|{ action?: "wait"; wait: sandboxd.agent.v1.CommandWait.$Shape; signal?: null; resize?: null; kill?: null }|{ action?: "signal"; wait?: null; signal: sandboxd.agent.v1.Signal.$Shape; resize?: null; kill?: null }|{ action?: "resize"; wait?: null; signal?: null; resize: sandboxd.agent.v1.TtySize.$Shape; kill?: null }|{ action?: "kill"; wait?: null; signal?: null; resize?: null; kill: sandboxd.agent.v1.CommandKill.$Shape })
                 * )} sandboxd.agent.v1.CommandCall.$Shape
                 */

                /**
                 * Constructs a new CommandCall.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a CommandCall.
                 * @constructor
                 * @param {sandboxd.agent.v1.CommandCall.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const CommandCall = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * CommandCall id.
                 * @member {string} id
                 * @memberof sandboxd.agent.v1.CommandCall
                 * @instance
                 */
                CommandCall.prototype.id = "";

                /**
                 * CommandCall wait.
                 * @member {sandboxd.agent.v1.CommandWait.$Properties|null|undefined} wait
                 * @memberof sandboxd.agent.v1.CommandCall
                 * @instance
                 */
                CommandCall.prototype.wait = null;

                /**
                 * CommandCall signal.
                 * @member {sandboxd.agent.v1.Signal.$Properties|null|undefined} signal
                 * @memberof sandboxd.agent.v1.CommandCall
                 * @instance
                 */
                CommandCall.prototype.signal = null;

                /**
                 * CommandCall resize.
                 * @member {sandboxd.agent.v1.TtySize.$Properties|null|undefined} resize
                 * @memberof sandboxd.agent.v1.CommandCall
                 * @instance
                 */
                CommandCall.prototype.resize = null;

                /**
                 * CommandCall kill.
                 * @member {sandboxd.agent.v1.CommandKill.$Properties|null|undefined} kill
                 * @memberof sandboxd.agent.v1.CommandCall
                 * @instance
                 */
                CommandCall.prototype.kill = null;

                // OneOf field names bound to virtual getters and setters
                let $oneOfFields;

                /**
                 * CommandCall action.
                 * @member {"wait"|"signal"|"resize"|"kill"|undefined} action
                 * @memberof sandboxd.agent.v1.CommandCall
                 * @instance
                 */
                $Object.defineProperty(CommandCall.prototype, "action", {
                    get: $util.oneOfGetter($oneOfFields = ["wait", "signal", "resize", "kill"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                /**
                 * Creates a new CommandCall instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.CommandCall
                 * @static
                 * @param {sandboxd.agent.v1.CommandCall.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.CommandCall} CommandCall instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.CommandCall.$Shape): sandboxd.agent.v1.CommandCall & sandboxd.agent.v1.CommandCall.$Shape;
                 *   (properties?: sandboxd.agent.v1.CommandCall.$Properties): sandboxd.agent.v1.CommandCall;
                 * }}
                 */
                CommandCall.create = function(properties) {
                    return new CommandCall(properties);
                };

                /**
                 * Encodes the specified CommandCall message. Does not implicitly {@link sandboxd.agent.v1.CommandCall.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.CommandCall
                 * @static
                 * @param {sandboxd.agent.v1.CommandCall.$Properties} message CommandCall message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                CommandCall.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.id != null && $Object.hasOwnProperty.call(message, "id") && message.id !== "")
                        writer.uint32(/* id 1, wireType 2 =*/10).string(message.id);
                    if (message.wait != null && $Object.hasOwnProperty.call(message, "wait"))
                        $root.sandboxd.agent.v1.CommandWait.encode(message.wait, writer.uint32(/* id 2, wireType 2 =*/18).fork(), _depth + 1).ldelim();
                    if (message.signal != null && $Object.hasOwnProperty.call(message, "signal"))
                        $root.sandboxd.agent.v1.Signal.encode(message.signal, writer.uint32(/* id 3, wireType 2 =*/26).fork(), _depth + 1).ldelim();
                    if (message.resize != null && $Object.hasOwnProperty.call(message, "resize"))
                        $root.sandboxd.agent.v1.TtySize.encode(message.resize, writer.uint32(/* id 4, wireType 2 =*/34).fork(), _depth + 1).ldelim();
                    if (message.kill != null && $Object.hasOwnProperty.call(message, "kill"))
                        $root.sandboxd.agent.v1.CommandKill.encode(message.kill, writer.uint32(/* id 5, wireType 2 =*/42).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a CommandCall message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.CommandCall
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.CommandCall & sandboxd.agent.v1.CommandCall.$Shape} CommandCall
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                CommandCall.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.CommandCall();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.id = value;
                                else
                                    delete message.id;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                message.wait = $root.sandboxd.agent.v1.CommandWait.decode(reader, reader.size(), $undefined, _depth + 1, message.wait);
                                message.action = "wait";
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                message.signal = $root.sandboxd.agent.v1.Signal.decode(reader, reader.size(), $undefined, _depth + 1, message.signal);
                                message.action = "signal";
                                continue;
                            }
                        case 4: {
                                if (wireType !== 2)
                                    break;
                                message.resize = $root.sandboxd.agent.v1.TtySize.decode(reader, reader.size(), $undefined, _depth + 1, message.resize);
                                message.action = "resize";
                                continue;
                            }
                        case 5: {
                                if (wireType !== 2)
                                    break;
                                message.kill = $root.sandboxd.agent.v1.CommandKill.decode(reader, reader.size(), $undefined, _depth + 1, message.kill);
                                message.action = "kill";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return CommandCall;
            })();

            v1.CommandWait = (function() {

                /**
                 * Properties of a CommandWait.
                 * @typedef {Object} sandboxd.agent.v1.CommandWait.$Properties
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a CommandWait.
                 * @memberof sandboxd.agent.v1
                 * @interface ICommandWait
                 * @augments sandboxd.agent.v1.CommandWait.$Properties
                 * @deprecated Use sandboxd.agent.v1.CommandWait.$Properties instead.
                 */

                /**
                 * Shape of a CommandWait.
                 * @typedef {sandboxd.agent.v1.CommandWait.$Properties} sandboxd.agent.v1.CommandWait.$Shape
                 */

                /**
                 * Constructs a new CommandWait.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a CommandWait.
                 * @constructor
                 * @param {sandboxd.agent.v1.CommandWait.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const CommandWait = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Creates a new CommandWait instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.CommandWait
                 * @static
                 * @param {sandboxd.agent.v1.CommandWait.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.CommandWait} CommandWait instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.CommandWait.$Shape): sandboxd.agent.v1.CommandWait & sandboxd.agent.v1.CommandWait.$Shape;
                 *   (properties?: sandboxd.agent.v1.CommandWait.$Properties): sandboxd.agent.v1.CommandWait;
                 * }}
                 */
                CommandWait.create = function(properties) {
                    return new CommandWait(properties);
                };

                /**
                 * Encodes the specified CommandWait message. Does not implicitly {@link sandboxd.agent.v1.CommandWait.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.CommandWait
                 * @static
                 * @param {sandboxd.agent.v1.CommandWait.$Properties} message CommandWait message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                CommandWait.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a CommandWait message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.CommandWait
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.CommandWait & sandboxd.agent.v1.CommandWait.$Shape} CommandWait
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                CommandWait.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.CommandWait();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        reader.skipType(tag & 7, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return CommandWait;
            })();

            v1.CommandKill = (function() {

                /**
                 * Properties of a CommandKill.
                 * @typedef {Object} sandboxd.agent.v1.CommandKill.$Properties
                 * @property {number|null} [graceMs] CommandKill graceMs
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a CommandKill.
                 * @memberof sandboxd.agent.v1
                 * @interface ICommandKill
                 * @augments sandboxd.agent.v1.CommandKill.$Properties
                 * @deprecated Use sandboxd.agent.v1.CommandKill.$Properties instead.
                 */

                /**
                 * Shape of a CommandKill.
                 * @typedef {sandboxd.agent.v1.CommandKill.$Properties} sandboxd.agent.v1.CommandKill.$Shape
                 */

                /**
                 * Constructs a new CommandKill.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a CommandKill.
                 * @constructor
                 * @param {sandboxd.agent.v1.CommandKill.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const CommandKill = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * CommandKill graceMs.
                 * @member {number} graceMs
                 * @memberof sandboxd.agent.v1.CommandKill
                 * @instance
                 */
                CommandKill.prototype.graceMs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * Creates a new CommandKill instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.CommandKill
                 * @static
                 * @param {sandboxd.agent.v1.CommandKill.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.CommandKill} CommandKill instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.CommandKill.$Shape): sandboxd.agent.v1.CommandKill & sandboxd.agent.v1.CommandKill.$Shape;
                 *   (properties?: sandboxd.agent.v1.CommandKill.$Properties): sandboxd.agent.v1.CommandKill;
                 * }}
                 */
                CommandKill.create = function(properties) {
                    return new CommandKill(properties);
                };

                /**
                 * Encodes the specified CommandKill message. Does not implicitly {@link sandboxd.agent.v1.CommandKill.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.CommandKill
                 * @static
                 * @param {sandboxd.agent.v1.CommandKill.$Properties} message CommandKill message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                CommandKill.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.graceMs != null && $Object.hasOwnProperty.call(message, "graceMs") && (typeof message.graceMs === "object" ? message.graceMs.low || message.graceMs.high : message.graceMs !== 0))
                        writer.uint32(/* id 1, wireType 0 =*/8).uint64(message.graceMs);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a CommandKill message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.CommandKill
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.CommandKill & sandboxd.agent.v1.CommandKill.$Shape} CommandKill
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                CommandKill.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.CommandKill();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.graceMs = value;
                                else
                                    delete message.graceMs;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return CommandKill;
            })();

            v1.CommandAttach = (function() {

                /**
                 * Properties of a CommandAttach.
                 * @typedef {Object} sandboxd.agent.v1.CommandAttach.$Properties
                 * @property {string|null} [id] CommandAttach id
                 * @property {number|null} [fromSeq] CommandAttach fromSeq
                 * @property {boolean|null} [follow] CommandAttach follow
                 * @property {boolean|null} [noOutput] CommandAttach noOutput
                 * @property {sandboxd.agent.v1.CommandInput|null} [input] CommandAttach input
                 * @property {boolean|null} [closesInput] CommandAttach closesInput
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a CommandAttach.
                 * @memberof sandboxd.agent.v1
                 * @interface ICommandAttach
                 * @augments sandboxd.agent.v1.CommandAttach.$Properties
                 * @deprecated Use sandboxd.agent.v1.CommandAttach.$Properties instead.
                 */

                /**
                 * Shape of a CommandAttach.
                 * @typedef {sandboxd.agent.v1.CommandAttach.$Properties} sandboxd.agent.v1.CommandAttach.$Shape
                 */

                /**
                 * Constructs a new CommandAttach.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a CommandAttach.
                 * @constructor
                 * @param {sandboxd.agent.v1.CommandAttach.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const CommandAttach = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * CommandAttach id.
                 * @member {string} id
                 * @memberof sandboxd.agent.v1.CommandAttach
                 * @instance
                 */
                CommandAttach.prototype.id = "";

                /**
                 * CommandAttach fromSeq.
                 * @member {number} fromSeq
                 * @memberof sandboxd.agent.v1.CommandAttach
                 * @instance
                 */
                CommandAttach.prototype.fromSeq = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * CommandAttach follow.
                 * @member {boolean} follow
                 * @memberof sandboxd.agent.v1.CommandAttach
                 * @instance
                 */
                CommandAttach.prototype.follow = false;

                /**
                 * CommandAttach noOutput.
                 * @member {boolean} noOutput
                 * @memberof sandboxd.agent.v1.CommandAttach
                 * @instance
                 */
                CommandAttach.prototype.noOutput = false;

                /**
                 * CommandAttach input.
                 * @member {sandboxd.agent.v1.CommandInput} input
                 * @memberof sandboxd.agent.v1.CommandAttach
                 * @instance
                 */
                CommandAttach.prototype.input = 0;

                /**
                 * CommandAttach closesInput.
                 * @member {boolean} closesInput
                 * @memberof sandboxd.agent.v1.CommandAttach
                 * @instance
                 */
                CommandAttach.prototype.closesInput = false;

                /**
                 * Creates a new CommandAttach instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.CommandAttach
                 * @static
                 * @param {sandboxd.agent.v1.CommandAttach.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.CommandAttach} CommandAttach instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.CommandAttach.$Shape): sandboxd.agent.v1.CommandAttach & sandboxd.agent.v1.CommandAttach.$Shape;
                 *   (properties?: sandboxd.agent.v1.CommandAttach.$Properties): sandboxd.agent.v1.CommandAttach;
                 * }}
                 */
                CommandAttach.create = function(properties) {
                    return new CommandAttach(properties);
                };

                /**
                 * Encodes the specified CommandAttach message. Does not implicitly {@link sandboxd.agent.v1.CommandAttach.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.CommandAttach
                 * @static
                 * @param {sandboxd.agent.v1.CommandAttach.$Properties} message CommandAttach message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                CommandAttach.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.id != null && $Object.hasOwnProperty.call(message, "id") && message.id !== "")
                        writer.uint32(/* id 1, wireType 2 =*/10).string(message.id);
                    if (message.fromSeq != null && $Object.hasOwnProperty.call(message, "fromSeq") && (typeof message.fromSeq === "object" ? message.fromSeq.low || message.fromSeq.high : message.fromSeq !== 0))
                        writer.uint32(/* id 2, wireType 0 =*/16).uint64(message.fromSeq);
                    if (message.follow != null && $Object.hasOwnProperty.call(message, "follow") && message.follow !== false)
                        writer.uint32(/* id 3, wireType 0 =*/24).bool(message.follow);
                    if (message.noOutput != null && $Object.hasOwnProperty.call(message, "noOutput") && message.noOutput !== false)
                        writer.uint32(/* id 4, wireType 0 =*/32).bool(message.noOutput);
                    if (message.input != null && $Object.hasOwnProperty.call(message, "input") && message.input !== 0)
                        writer.uint32(/* id 5, wireType 0 =*/40).int32(message.input);
                    if (message.closesInput != null && $Object.hasOwnProperty.call(message, "closesInput") && message.closesInput !== false)
                        writer.uint32(/* id 6, wireType 0 =*/48).bool(message.closesInput);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a CommandAttach message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.CommandAttach
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.CommandAttach & sandboxd.agent.v1.CommandAttach.$Shape} CommandAttach
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                CommandAttach.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.CommandAttach();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.id = value;
                                else
                                    delete message.id;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.fromSeq = value;
                                else
                                    delete message.fromSeq;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.follow = value;
                                else
                                    delete message.follow;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.noOutput = value;
                                else
                                    delete message.noOutput;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.int32())
                                    message.input = value;
                                else
                                    delete message.input;
                                continue;
                            }
                        case 6: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.closesInput = value;
                                else
                                    delete message.closesInput;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return CommandAttach;
            })();

            /**
             * CommandInput enum.
             * @name sandboxd.agent.v1.CommandInput
             * @enum {number}
             * @property {number} COMMAND_INPUT_NONE=0 COMMAND_INPUT_NONE value
             * @property {number} COMMAND_INPUT_WRITE=1 COMMAND_INPUT_WRITE value
             * @property {number} COMMAND_INPUT_TAKE=2 COMMAND_INPUT_TAKE value
             */
            v1.CommandInput = (function() {
                const valuesById = $Object.create(null), values = $Object.create(valuesById);
                values[valuesById[0] = "COMMAND_INPUT_NONE"] = 0;
                values[valuesById[1] = "COMMAND_INPUT_WRITE"] = 1;
                values[valuesById[2] = "COMMAND_INPUT_TAKE"] = 2;
                return values;
            })();

            v1.CommandAttachResult = (function() {

                /**
                 * Properties of a CommandAttachResult.
                 * @typedef {Object} sandboxd.agent.v1.CommandAttachResult.$Properties
                 * @property {number|null} [nextSeq] CommandAttachResult nextSeq
                 * @property {sandboxd.agent.v1.CommandStatus.$Properties|null} [status] CommandAttachResult status
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a CommandAttachResult.
                 * @memberof sandboxd.agent.v1
                 * @interface ICommandAttachResult
                 * @augments sandboxd.agent.v1.CommandAttachResult.$Properties
                 * @deprecated Use sandboxd.agent.v1.CommandAttachResult.$Properties instead.
                 */

                /**
                 * Shape of a CommandAttachResult.
                 * @typedef {sandboxd.agent.v1.CommandAttachResult.$Properties} sandboxd.agent.v1.CommandAttachResult.$Shape
                 */

                /**
                 * Constructs a new CommandAttachResult.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a CommandAttachResult.
                 * @constructor
                 * @param {sandboxd.agent.v1.CommandAttachResult.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const CommandAttachResult = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * CommandAttachResult nextSeq.
                 * @member {number} nextSeq
                 * @memberof sandboxd.agent.v1.CommandAttachResult
                 * @instance
                 */
                CommandAttachResult.prototype.nextSeq = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * CommandAttachResult status.
                 * @member {sandboxd.agent.v1.CommandStatus.$Properties|null|undefined} status
                 * @memberof sandboxd.agent.v1.CommandAttachResult
                 * @instance
                 */
                CommandAttachResult.prototype.status = null;

                /**
                 * Creates a new CommandAttachResult instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.CommandAttachResult
                 * @static
                 * @param {sandboxd.agent.v1.CommandAttachResult.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.CommandAttachResult} CommandAttachResult instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.CommandAttachResult.$Shape): sandboxd.agent.v1.CommandAttachResult & sandboxd.agent.v1.CommandAttachResult.$Shape;
                 *   (properties?: sandboxd.agent.v1.CommandAttachResult.$Properties): sandboxd.agent.v1.CommandAttachResult;
                 * }}
                 */
                CommandAttachResult.create = function(properties) {
                    return new CommandAttachResult(properties);
                };

                /**
                 * Encodes the specified CommandAttachResult message. Does not implicitly {@link sandboxd.agent.v1.CommandAttachResult.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.CommandAttachResult
                 * @static
                 * @param {sandboxd.agent.v1.CommandAttachResult.$Properties} message CommandAttachResult message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                CommandAttachResult.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.nextSeq != null && $Object.hasOwnProperty.call(message, "nextSeq") && (typeof message.nextSeq === "object" ? message.nextSeq.low || message.nextSeq.high : message.nextSeq !== 0))
                        writer.uint32(/* id 1, wireType 0 =*/8).uint64(message.nextSeq);
                    if (message.status != null && $Object.hasOwnProperty.call(message, "status"))
                        $root.sandboxd.agent.v1.CommandStatus.encode(message.status, writer.uint32(/* id 2, wireType 2 =*/18).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a CommandAttachResult message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.CommandAttachResult
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.CommandAttachResult & sandboxd.agent.v1.CommandAttachResult.$Shape} CommandAttachResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                CommandAttachResult.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.CommandAttachResult();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.nextSeq = value;
                                else
                                    delete message.nextSeq;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                message.status = $root.sandboxd.agent.v1.CommandStatus.decode(reader, reader.size(), $undefined, _depth + 1, message.status);
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return CommandAttachResult;
            })();

            v1.Identity = (function() {

                /**
                 * Properties of an Identity.
                 * @typedef {Object} sandboxd.agent.v1.Identity.$Properties
                 * @property {string|null} [sandboxId] Identity sandboxId
                 * @property {string|null} [hostname] Identity hostname
                 * @property {string|null} [machineId] Identity machineId
                 * @property {Uint8Array|null} [entropy] Identity entropy
                 * @property {number|null} [unixTimeUs] Identity unixTimeUs
                 * @property {sandboxd.agent.v1.Network.$Properties|null} [network] Identity network
                 * @property {boolean|null} [entersRoot] Identity entersRoot
                 * @property {number|null} [pidsLimit] Identity pidsLimit
                 * @property {sandboxd.agent.v1.Trust.$Properties|null} [trust] Identity trust
                 * @property {Array.<string>|null} [environment] Identity environment
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of an Identity.
                 * @memberof sandboxd.agent.v1
                 * @interface IIdentity
                 * @augments sandboxd.agent.v1.Identity.$Properties
                 * @deprecated Use sandboxd.agent.v1.Identity.$Properties instead.
                 */

                /**
                 * Shape of an Identity.
                 * @typedef {sandboxd.agent.v1.Identity.$Properties} sandboxd.agent.v1.Identity.$Shape
                 */

                /**
                 * Constructs a new Identity.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents an Identity.
                 * @constructor
                 * @param {sandboxd.agent.v1.Identity.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Identity = function (properties) {
                    this.environment = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Identity sandboxId.
                 * @member {string} sandboxId
                 * @memberof sandboxd.agent.v1.Identity
                 * @instance
                 */
                Identity.prototype.sandboxId = "";

                /**
                 * Identity hostname.
                 * @member {string} hostname
                 * @memberof sandboxd.agent.v1.Identity
                 * @instance
                 */
                Identity.prototype.hostname = "";

                /**
                 * Identity machineId.
                 * @member {string} machineId
                 * @memberof sandboxd.agent.v1.Identity
                 * @instance
                 */
                Identity.prototype.machineId = "";

                /**
                 * Identity entropy.
                 * @member {Uint8Array} entropy
                 * @memberof sandboxd.agent.v1.Identity
                 * @instance
                 */
                Identity.prototype.entropy = $util.newBuffer([]);

                /**
                 * Identity unixTimeUs.
                 * @member {number} unixTimeUs
                 * @memberof sandboxd.agent.v1.Identity
                 * @instance
                 */
                Identity.prototype.unixTimeUs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * Identity network.
                 * @member {sandboxd.agent.v1.Network.$Properties|null|undefined} network
                 * @memberof sandboxd.agent.v1.Identity
                 * @instance
                 */
                Identity.prototype.network = null;

                /**
                 * Identity entersRoot.
                 * @member {boolean} entersRoot
                 * @memberof sandboxd.agent.v1.Identity
                 * @instance
                 */
                Identity.prototype.entersRoot = false;

                /**
                 * Identity pidsLimit.
                 * @member {number} pidsLimit
                 * @memberof sandboxd.agent.v1.Identity
                 * @instance
                 */
                Identity.prototype.pidsLimit = 0;

                /**
                 * Identity trust.
                 * @member {sandboxd.agent.v1.Trust.$Properties|null|undefined} trust
                 * @memberof sandboxd.agent.v1.Identity
                 * @instance
                 */
                Identity.prototype.trust = null;

                /**
                 * Identity environment.
                 * @member {Array.<string>} environment
                 * @memberof sandboxd.agent.v1.Identity
                 * @instance
                 */
                Identity.prototype.environment = $util.emptyArray;

                /**
                 * Creates a new Identity instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Identity
                 * @static
                 * @param {sandboxd.agent.v1.Identity.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Identity} Identity instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Identity.$Shape): sandboxd.agent.v1.Identity & sandboxd.agent.v1.Identity.$Shape;
                 *   (properties?: sandboxd.agent.v1.Identity.$Properties): sandboxd.agent.v1.Identity;
                 * }}
                 */
                Identity.create = function(properties) {
                    return new Identity(properties);
                };

                /**
                 * Encodes the specified Identity message. Does not implicitly {@link sandboxd.agent.v1.Identity.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Identity
                 * @static
                 * @param {sandboxd.agent.v1.Identity.$Properties} message Identity message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Identity.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.sandboxId != null && $Object.hasOwnProperty.call(message, "sandboxId") && message.sandboxId !== "")
                        writer.uint32(/* id 1, wireType 2 =*/10).string(message.sandboxId);
                    if (message.hostname != null && $Object.hasOwnProperty.call(message, "hostname") && message.hostname !== "")
                        writer.uint32(/* id 2, wireType 2 =*/18).string(message.hostname);
                    if (message.machineId != null && $Object.hasOwnProperty.call(message, "machineId") && message.machineId !== "")
                        writer.uint32(/* id 3, wireType 2 =*/26).string(message.machineId);
                    if (message.entropy != null && $Object.hasOwnProperty.call(message, "entropy") && message.entropy.length)
                        writer.uint32(/* id 4, wireType 2 =*/34).bytes(message.entropy);
                    if (message.unixTimeUs != null && $Object.hasOwnProperty.call(message, "unixTimeUs") && (typeof message.unixTimeUs === "object" ? message.unixTimeUs.low || message.unixTimeUs.high : message.unixTimeUs !== 0))
                        writer.uint32(/* id 5, wireType 0 =*/40).uint64(message.unixTimeUs);
                    if (message.network != null && $Object.hasOwnProperty.call(message, "network"))
                        $root.sandboxd.agent.v1.Network.encode(message.network, writer.uint32(/* id 6, wireType 2 =*/50).fork(), _depth + 1).ldelim();
                    if (message.entersRoot != null && $Object.hasOwnProperty.call(message, "entersRoot") && message.entersRoot !== false)
                        writer.uint32(/* id 7, wireType 0 =*/56).bool(message.entersRoot);
                    if (message.pidsLimit != null && $Object.hasOwnProperty.call(message, "pidsLimit") && message.pidsLimit !== 0)
                        writer.uint32(/* id 9, wireType 0 =*/72).uint32(message.pidsLimit);
                    if (message.trust != null && $Object.hasOwnProperty.call(message, "trust"))
                        $root.sandboxd.agent.v1.Trust.encode(message.trust, writer.uint32(/* id 10, wireType 2 =*/82).fork(), _depth + 1).ldelim();
                    if (message.environment != null && message.environment.length)
                        for (let i = 0; i < message.environment.length; ++i)
                            writer.uint32(/* id 11, wireType 2 =*/90).string(message.environment[i]);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes an Identity message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Identity
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Identity & sandboxd.agent.v1.Identity.$Shape} Identity
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Identity.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Identity();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.sandboxId = value;
                                else
                                    delete message.sandboxId;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.hostname = value;
                                else
                                    delete message.hostname;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.machineId = value;
                                else
                                    delete message.machineId;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.entropy = value;
                                else
                                    delete message.entropy;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.unixTimeUs = value;
                                else
                                    delete message.unixTimeUs;
                                continue;
                            }
                        case 6: {
                                if (wireType !== 2)
                                    break;
                                message.network = $root.sandboxd.agent.v1.Network.decode(reader, reader.size(), $undefined, _depth + 1, message.network);
                                continue;
                            }
                        case 7: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.entersRoot = value;
                                else
                                    delete message.entersRoot;
                                continue;
                            }
                        case 9: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.pidsLimit = value;
                                else
                                    delete message.pidsLimit;
                                continue;
                            }
                        case 10: {
                                if (wireType !== 2)
                                    break;
                                message.trust = $root.sandboxd.agent.v1.Trust.decode(reader, reader.size(), $undefined, _depth + 1, message.trust);
                                continue;
                            }
                        case 11: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.environment && message.environment.length))
                                    message.environment = [];
                                message.environment.push(reader.stringVerify());
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Identity;
            })();

            v1.Network = (function() {

                /**
                 * Properties of a Network.
                 * @typedef {Object} sandboxd.agent.v1.Network.$Properties
                 * @property {string|null} [mac] Network mac
                 * @property {string|null} [gatewayMac] Network gatewayMac
                 * @property {string|null} [address] Network address
                 * @property {number|null} [prefixLength] Network prefixLength
                 * @property {string|null} [gateway] Network gateway
                 * @property {string|null} [dns] Network dns
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a Network.
                 * @memberof sandboxd.agent.v1
                 * @interface INetwork
                 * @augments sandboxd.agent.v1.Network.$Properties
                 * @deprecated Use sandboxd.agent.v1.Network.$Properties instead.
                 */

                /**
                 * Shape of a Network.
                 * @typedef {sandboxd.agent.v1.Network.$Properties} sandboxd.agent.v1.Network.$Shape
                 */

                /**
                 * Constructs a new Network.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a Network.
                 * @constructor
                 * @param {sandboxd.agent.v1.Network.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Network = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Network mac.
                 * @member {string} mac
                 * @memberof sandboxd.agent.v1.Network
                 * @instance
                 */
                Network.prototype.mac = "";

                /**
                 * Network gatewayMac.
                 * @member {string} gatewayMac
                 * @memberof sandboxd.agent.v1.Network
                 * @instance
                 */
                Network.prototype.gatewayMac = "";

                /**
                 * Network address.
                 * @member {string} address
                 * @memberof sandboxd.agent.v1.Network
                 * @instance
                 */
                Network.prototype.address = "";

                /**
                 * Network prefixLength.
                 * @member {number} prefixLength
                 * @memberof sandboxd.agent.v1.Network
                 * @instance
                 */
                Network.prototype.prefixLength = 0;

                /**
                 * Network gateway.
                 * @member {string} gateway
                 * @memberof sandboxd.agent.v1.Network
                 * @instance
                 */
                Network.prototype.gateway = "";

                /**
                 * Network dns.
                 * @member {string} dns
                 * @memberof sandboxd.agent.v1.Network
                 * @instance
                 */
                Network.prototype.dns = "";

                /**
                 * Creates a new Network instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Network
                 * @static
                 * @param {sandboxd.agent.v1.Network.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Network} Network instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Network.$Shape): sandboxd.agent.v1.Network & sandboxd.agent.v1.Network.$Shape;
                 *   (properties?: sandboxd.agent.v1.Network.$Properties): sandboxd.agent.v1.Network;
                 * }}
                 */
                Network.create = function(properties) {
                    return new Network(properties);
                };

                /**
                 * Encodes the specified Network message. Does not implicitly {@link sandboxd.agent.v1.Network.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Network
                 * @static
                 * @param {sandboxd.agent.v1.Network.$Properties} message Network message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Network.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.mac != null && $Object.hasOwnProperty.call(message, "mac") && message.mac !== "")
                        writer.uint32(/* id 1, wireType 2 =*/10).string(message.mac);
                    if (message.gatewayMac != null && $Object.hasOwnProperty.call(message, "gatewayMac") && message.gatewayMac !== "")
                        writer.uint32(/* id 2, wireType 2 =*/18).string(message.gatewayMac);
                    if (message.address != null && $Object.hasOwnProperty.call(message, "address") && message.address !== "")
                        writer.uint32(/* id 3, wireType 2 =*/26).string(message.address);
                    if (message.prefixLength != null && $Object.hasOwnProperty.call(message, "prefixLength") && message.prefixLength !== 0)
                        writer.uint32(/* id 4, wireType 0 =*/32).uint32(message.prefixLength);
                    if (message.gateway != null && $Object.hasOwnProperty.call(message, "gateway") && message.gateway !== "")
                        writer.uint32(/* id 5, wireType 2 =*/42).string(message.gateway);
                    if (message.dns != null && $Object.hasOwnProperty.call(message, "dns") && message.dns !== "")
                        writer.uint32(/* id 6, wireType 2 =*/50).string(message.dns);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a Network message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Network
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Network & sandboxd.agent.v1.Network.$Shape} Network
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Network.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Network();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.mac = value;
                                else
                                    delete message.mac;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.gatewayMac = value;
                                else
                                    delete message.gatewayMac;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.address = value;
                                else
                                    delete message.address;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.prefixLength = value;
                                else
                                    delete message.prefixLength;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.gateway = value;
                                else
                                    delete message.gateway;
                                continue;
                            }
                        case 6: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.dns = value;
                                else
                                    delete message.dns;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Network;
            })();

            v1.IdentityResult = (function() {

                /**
                 * Properties of an IdentityResult.
                 * @typedef {Object} sandboxd.agent.v1.IdentityResult.$Properties
                 * @property {number|null} [unixTimeUs] IdentityResult unixTimeUs
                 * @property {sandboxd.agent.v1.TrustResult.$Properties|null} [trust] IdentityResult trust
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of an IdentityResult.
                 * @memberof sandboxd.agent.v1
                 * @interface IIdentityResult
                 * @augments sandboxd.agent.v1.IdentityResult.$Properties
                 * @deprecated Use sandboxd.agent.v1.IdentityResult.$Properties instead.
                 */

                /**
                 * Shape of an IdentityResult.
                 * @typedef {sandboxd.agent.v1.IdentityResult.$Properties} sandboxd.agent.v1.IdentityResult.$Shape
                 */

                /**
                 * Constructs a new IdentityResult.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents an IdentityResult.
                 * @constructor
                 * @param {sandboxd.agent.v1.IdentityResult.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const IdentityResult = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * IdentityResult unixTimeUs.
                 * @member {number} unixTimeUs
                 * @memberof sandboxd.agent.v1.IdentityResult
                 * @instance
                 */
                IdentityResult.prototype.unixTimeUs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * IdentityResult trust.
                 * @member {sandboxd.agent.v1.TrustResult.$Properties|null|undefined} trust
                 * @memberof sandboxd.agent.v1.IdentityResult
                 * @instance
                 */
                IdentityResult.prototype.trust = null;

                /**
                 * Creates a new IdentityResult instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.IdentityResult
                 * @static
                 * @param {sandboxd.agent.v1.IdentityResult.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.IdentityResult} IdentityResult instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.IdentityResult.$Shape): sandboxd.agent.v1.IdentityResult & sandboxd.agent.v1.IdentityResult.$Shape;
                 *   (properties?: sandboxd.agent.v1.IdentityResult.$Properties): sandboxd.agent.v1.IdentityResult;
                 * }}
                 */
                IdentityResult.create = function(properties) {
                    return new IdentityResult(properties);
                };

                /**
                 * Encodes the specified IdentityResult message. Does not implicitly {@link sandboxd.agent.v1.IdentityResult.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.IdentityResult
                 * @static
                 * @param {sandboxd.agent.v1.IdentityResult.$Properties} message IdentityResult message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                IdentityResult.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.unixTimeUs != null && $Object.hasOwnProperty.call(message, "unixTimeUs") && (typeof message.unixTimeUs === "object" ? message.unixTimeUs.low || message.unixTimeUs.high : message.unixTimeUs !== 0))
                        writer.uint32(/* id 1, wireType 0 =*/8).uint64(message.unixTimeUs);
                    if (message.trust != null && $Object.hasOwnProperty.call(message, "trust"))
                        $root.sandboxd.agent.v1.TrustResult.encode(message.trust, writer.uint32(/* id 2, wireType 2 =*/18).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes an IdentityResult message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.IdentityResult
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.IdentityResult & sandboxd.agent.v1.IdentityResult.$Shape} IdentityResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                IdentityResult.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.IdentityResult();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.unixTimeUs = value;
                                else
                                    delete message.unixTimeUs;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                message.trust = $root.sandboxd.agent.v1.TrustResult.decode(reader, reader.size(), $undefined, _depth + 1, message.trust);
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return IdentityResult;
            })();

            v1.Trust = (function() {

                /**
                 * Properties of a Trust.
                 * @typedef {Object} sandboxd.agent.v1.Trust.$Properties
                 * @property {string|null} [certificate] Trust certificate
                 * @property {string|null} [subjectHash] Trust subjectHash
                 * @property {boolean|null} [isRehearsal] Trust isRehearsal
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a Trust.
                 * @memberof sandboxd.agent.v1
                 * @interface ITrust
                 * @augments sandboxd.agent.v1.Trust.$Properties
                 * @deprecated Use sandboxd.agent.v1.Trust.$Properties instead.
                 */

                /**
                 * Shape of a Trust.
                 * @typedef {sandboxd.agent.v1.Trust.$Properties} sandboxd.agent.v1.Trust.$Shape
                 */

                /**
                 * Constructs a new Trust.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a Trust.
                 * @constructor
                 * @param {sandboxd.agent.v1.Trust.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Trust = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Trust certificate.
                 * @member {string} certificate
                 * @memberof sandboxd.agent.v1.Trust
                 * @instance
                 */
                Trust.prototype.certificate = "";

                /**
                 * Trust subjectHash.
                 * @member {string} subjectHash
                 * @memberof sandboxd.agent.v1.Trust
                 * @instance
                 */
                Trust.prototype.subjectHash = "";

                /**
                 * Trust isRehearsal.
                 * @member {boolean} isRehearsal
                 * @memberof sandboxd.agent.v1.Trust
                 * @instance
                 */
                Trust.prototype.isRehearsal = false;

                /**
                 * Creates a new Trust instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Trust
                 * @static
                 * @param {sandboxd.agent.v1.Trust.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Trust} Trust instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Trust.$Shape): sandboxd.agent.v1.Trust & sandboxd.agent.v1.Trust.$Shape;
                 *   (properties?: sandboxd.agent.v1.Trust.$Properties): sandboxd.agent.v1.Trust;
                 * }}
                 */
                Trust.create = function(properties) {
                    return new Trust(properties);
                };

                /**
                 * Encodes the specified Trust message. Does not implicitly {@link sandboxd.agent.v1.Trust.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Trust
                 * @static
                 * @param {sandboxd.agent.v1.Trust.$Properties} message Trust message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Trust.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.certificate != null && $Object.hasOwnProperty.call(message, "certificate") && message.certificate !== "")
                        writer.uint32(/* id 1, wireType 2 =*/10).string(message.certificate);
                    if (message.subjectHash != null && $Object.hasOwnProperty.call(message, "subjectHash") && message.subjectHash !== "")
                        writer.uint32(/* id 2, wireType 2 =*/18).string(message.subjectHash);
                    if (message.isRehearsal != null && $Object.hasOwnProperty.call(message, "isRehearsal") && message.isRehearsal !== false)
                        writer.uint32(/* id 3, wireType 0 =*/24).bool(message.isRehearsal);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a Trust message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Trust
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Trust & sandboxd.agent.v1.Trust.$Shape} Trust
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Trust.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Trust();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.certificate = value;
                                else
                                    delete message.certificate;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.subjectHash = value;
                                else
                                    delete message.subjectHash;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.isRehearsal = value;
                                else
                                    delete message.isRehearsal;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Trust;
            })();

            v1.TrustResult = (function() {

                /**
                 * Properties of a TrustResult.
                 * @typedef {Object} sandboxd.agent.v1.TrustResult.$Properties
                 * @property {Array.<string>|null} [problems] TrustResult problems
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a TrustResult.
                 * @memberof sandboxd.agent.v1
                 * @interface ITrustResult
                 * @augments sandboxd.agent.v1.TrustResult.$Properties
                 * @deprecated Use sandboxd.agent.v1.TrustResult.$Properties instead.
                 */

                /**
                 * Shape of a TrustResult.
                 * @typedef {sandboxd.agent.v1.TrustResult.$Properties} sandboxd.agent.v1.TrustResult.$Shape
                 */

                /**
                 * Constructs a new TrustResult.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a TrustResult.
                 * @constructor
                 * @param {sandboxd.agent.v1.TrustResult.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const TrustResult = function (properties) {
                    this.problems = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * TrustResult problems.
                 * @member {Array.<string>} problems
                 * @memberof sandboxd.agent.v1.TrustResult
                 * @instance
                 */
                TrustResult.prototype.problems = $util.emptyArray;

                /**
                 * Creates a new TrustResult instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.TrustResult
                 * @static
                 * @param {sandboxd.agent.v1.TrustResult.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.TrustResult} TrustResult instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.TrustResult.$Shape): sandboxd.agent.v1.TrustResult & sandboxd.agent.v1.TrustResult.$Shape;
                 *   (properties?: sandboxd.agent.v1.TrustResult.$Properties): sandboxd.agent.v1.TrustResult;
                 * }}
                 */
                TrustResult.create = function(properties) {
                    return new TrustResult(properties);
                };

                /**
                 * Encodes the specified TrustResult message. Does not implicitly {@link sandboxd.agent.v1.TrustResult.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.TrustResult
                 * @static
                 * @param {sandboxd.agent.v1.TrustResult.$Properties} message TrustResult message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                TrustResult.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.problems != null && message.problems.length)
                        for (let i = 0; i < message.problems.length; ++i)
                            writer.uint32(/* id 1, wireType 2 =*/10).string(message.problems[i]);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a TrustResult message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.TrustResult
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.TrustResult & sandboxd.agent.v1.TrustResult.$Shape} TrustResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                TrustResult.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.TrustResult();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.problems && message.problems.length))
                                    message.problems = [];
                                message.problems.push(reader.stringVerify());
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return TrustResult;
            })();

            v1.Stats = (function() {

                /**
                 * Properties of a Stats.
                 * @typedef {Object} sandboxd.agent.v1.Stats.$Properties
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a Stats.
                 * @memberof sandboxd.agent.v1
                 * @interface IStats
                 * @augments sandboxd.agent.v1.Stats.$Properties
                 * @deprecated Use sandboxd.agent.v1.Stats.$Properties instead.
                 */

                /**
                 * Shape of a Stats.
                 * @typedef {sandboxd.agent.v1.Stats.$Properties} sandboxd.agent.v1.Stats.$Shape
                 */

                /**
                 * Constructs a new Stats.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a Stats.
                 * @constructor
                 * @param {sandboxd.agent.v1.Stats.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Stats = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Creates a new Stats instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Stats
                 * @static
                 * @param {sandboxd.agent.v1.Stats.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Stats} Stats instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Stats.$Shape): sandboxd.agent.v1.Stats & sandboxd.agent.v1.Stats.$Shape;
                 *   (properties?: sandboxd.agent.v1.Stats.$Properties): sandboxd.agent.v1.Stats;
                 * }}
                 */
                Stats.create = function(properties) {
                    return new Stats(properties);
                };

                /**
                 * Encodes the specified Stats message. Does not implicitly {@link sandboxd.agent.v1.Stats.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Stats
                 * @static
                 * @param {sandboxd.agent.v1.Stats.$Properties} message Stats message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Stats.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a Stats message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Stats
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Stats & sandboxd.agent.v1.Stats.$Shape} Stats
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Stats.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Stats();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        reader.skipType(tag & 7, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Stats;
            })();

            v1.StatsResult = (function() {

                /**
                 * Properties of a StatsResult.
                 * @typedef {Object} sandboxd.agent.v1.StatsResult.$Properties
                 * @property {number|null} [agentRssBytes] StatsResult agentRssBytes
                 * @property {number|null} [agentPssBytes] StatsResult agentPssBytes
                 * @property {number|null} [agentAnonBytes] StatsResult agentAnonBytes
                 * @property {number|null} [memoryTotalBytes] StatsResult memoryTotalBytes
                 * @property {number|null} [memoryAvailableBytes] StatsResult memoryAvailableBytes
                 * @property {number|null} [openFds] StatsResult openFds
                 * @property {number|null} [execCgroups] StatsResult execCgroups
                 * @property {number|null} [streams] StatsResult streams
                 * @property {number|null} [processes] StatsResult processes
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a StatsResult.
                 * @memberof sandboxd.agent.v1
                 * @interface IStatsResult
                 * @augments sandboxd.agent.v1.StatsResult.$Properties
                 * @deprecated Use sandboxd.agent.v1.StatsResult.$Properties instead.
                 */

                /**
                 * Shape of a StatsResult.
                 * @typedef {sandboxd.agent.v1.StatsResult.$Properties} sandboxd.agent.v1.StatsResult.$Shape
                 */

                /**
                 * Constructs a new StatsResult.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a StatsResult.
                 * @constructor
                 * @param {sandboxd.agent.v1.StatsResult.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const StatsResult = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * StatsResult agentRssBytes.
                 * @member {number} agentRssBytes
                 * @memberof sandboxd.agent.v1.StatsResult
                 * @instance
                 */
                StatsResult.prototype.agentRssBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * StatsResult agentPssBytes.
                 * @member {number} agentPssBytes
                 * @memberof sandboxd.agent.v1.StatsResult
                 * @instance
                 */
                StatsResult.prototype.agentPssBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * StatsResult agentAnonBytes.
                 * @member {number} agentAnonBytes
                 * @memberof sandboxd.agent.v1.StatsResult
                 * @instance
                 */
                StatsResult.prototype.agentAnonBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * StatsResult memoryTotalBytes.
                 * @member {number} memoryTotalBytes
                 * @memberof sandboxd.agent.v1.StatsResult
                 * @instance
                 */
                StatsResult.prototype.memoryTotalBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * StatsResult memoryAvailableBytes.
                 * @member {number} memoryAvailableBytes
                 * @memberof sandboxd.agent.v1.StatsResult
                 * @instance
                 */
                StatsResult.prototype.memoryAvailableBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * StatsResult openFds.
                 * @member {number} openFds
                 * @memberof sandboxd.agent.v1.StatsResult
                 * @instance
                 */
                StatsResult.prototype.openFds = 0;

                /**
                 * StatsResult execCgroups.
                 * @member {number} execCgroups
                 * @memberof sandboxd.agent.v1.StatsResult
                 * @instance
                 */
                StatsResult.prototype.execCgroups = 0;

                /**
                 * StatsResult streams.
                 * @member {number} streams
                 * @memberof sandboxd.agent.v1.StatsResult
                 * @instance
                 */
                StatsResult.prototype.streams = 0;

                /**
                 * StatsResult processes.
                 * @member {number} processes
                 * @memberof sandboxd.agent.v1.StatsResult
                 * @instance
                 */
                StatsResult.prototype.processes = 0;

                /**
                 * Creates a new StatsResult instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.StatsResult
                 * @static
                 * @param {sandboxd.agent.v1.StatsResult.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.StatsResult} StatsResult instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.StatsResult.$Shape): sandboxd.agent.v1.StatsResult & sandboxd.agent.v1.StatsResult.$Shape;
                 *   (properties?: sandboxd.agent.v1.StatsResult.$Properties): sandboxd.agent.v1.StatsResult;
                 * }}
                 */
                StatsResult.create = function(properties) {
                    return new StatsResult(properties);
                };

                /**
                 * Encodes the specified StatsResult message. Does not implicitly {@link sandboxd.agent.v1.StatsResult.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.StatsResult
                 * @static
                 * @param {sandboxd.agent.v1.StatsResult.$Properties} message StatsResult message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                StatsResult.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.agentRssBytes != null && $Object.hasOwnProperty.call(message, "agentRssBytes") && (typeof message.agentRssBytes === "object" ? message.agentRssBytes.low || message.agentRssBytes.high : message.agentRssBytes !== 0))
                        writer.uint32(/* id 1, wireType 0 =*/8).uint64(message.agentRssBytes);
                    if (message.agentPssBytes != null && $Object.hasOwnProperty.call(message, "agentPssBytes") && (typeof message.agentPssBytes === "object" ? message.agentPssBytes.low || message.agentPssBytes.high : message.agentPssBytes !== 0))
                        writer.uint32(/* id 2, wireType 0 =*/16).uint64(message.agentPssBytes);
                    if (message.agentAnonBytes != null && $Object.hasOwnProperty.call(message, "agentAnonBytes") && (typeof message.agentAnonBytes === "object" ? message.agentAnonBytes.low || message.agentAnonBytes.high : message.agentAnonBytes !== 0))
                        writer.uint32(/* id 3, wireType 0 =*/24).uint64(message.agentAnonBytes);
                    if (message.memoryTotalBytes != null && $Object.hasOwnProperty.call(message, "memoryTotalBytes") && (typeof message.memoryTotalBytes === "object" ? message.memoryTotalBytes.low || message.memoryTotalBytes.high : message.memoryTotalBytes !== 0))
                        writer.uint32(/* id 4, wireType 0 =*/32).uint64(message.memoryTotalBytes);
                    if (message.memoryAvailableBytes != null && $Object.hasOwnProperty.call(message, "memoryAvailableBytes") && (typeof message.memoryAvailableBytes === "object" ? message.memoryAvailableBytes.low || message.memoryAvailableBytes.high : message.memoryAvailableBytes !== 0))
                        writer.uint32(/* id 5, wireType 0 =*/40).uint64(message.memoryAvailableBytes);
                    if (message.openFds != null && $Object.hasOwnProperty.call(message, "openFds") && message.openFds !== 0)
                        writer.uint32(/* id 6, wireType 0 =*/48).uint32(message.openFds);
                    if (message.execCgroups != null && $Object.hasOwnProperty.call(message, "execCgroups") && message.execCgroups !== 0)
                        writer.uint32(/* id 7, wireType 0 =*/56).uint32(message.execCgroups);
                    if (message.streams != null && $Object.hasOwnProperty.call(message, "streams") && message.streams !== 0)
                        writer.uint32(/* id 8, wireType 0 =*/64).uint32(message.streams);
                    if (message.processes != null && $Object.hasOwnProperty.call(message, "processes") && message.processes !== 0)
                        writer.uint32(/* id 9, wireType 0 =*/72).uint32(message.processes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a StatsResult message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.StatsResult
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.StatsResult & sandboxd.agent.v1.StatsResult.$Shape} StatsResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                StatsResult.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.StatsResult();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.agentRssBytes = value;
                                else
                                    delete message.agentRssBytes;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.agentPssBytes = value;
                                else
                                    delete message.agentPssBytes;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.agentAnonBytes = value;
                                else
                                    delete message.agentAnonBytes;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.memoryTotalBytes = value;
                                else
                                    delete message.memoryTotalBytes;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.memoryAvailableBytes = value;
                                else
                                    delete message.memoryAvailableBytes;
                                continue;
                            }
                        case 6: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.openFds = value;
                                else
                                    delete message.openFds;
                                continue;
                            }
                        case 7: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.execCgroups = value;
                                else
                                    delete message.execCgroups;
                                continue;
                            }
                        case 8: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.streams = value;
                                else
                                    delete message.streams;
                                continue;
                            }
                        case 9: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.processes = value;
                                else
                                    delete message.processes;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return StatsResult;
            })();

            v1.SetClock = (function() {

                /**
                 * Properties of a SetClock.
                 * @typedef {Object} sandboxd.agent.v1.SetClock.$Properties
                 * @property {number|null} [unixTimeUs] SetClock unixTimeUs
                 * @property {number|null} [shiftUs] SetClock shiftUs
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a SetClock.
                 * @memberof sandboxd.agent.v1
                 * @interface ISetClock
                 * @augments sandboxd.agent.v1.SetClock.$Properties
                 * @deprecated Use sandboxd.agent.v1.SetClock.$Properties instead.
                 */

                /**
                 * Shape of a SetClock.
                 * @typedef {sandboxd.agent.v1.SetClock.$Properties} sandboxd.agent.v1.SetClock.$Shape
                 */

                /**
                 * Constructs a new SetClock.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a SetClock.
                 * @constructor
                 * @param {sandboxd.agent.v1.SetClock.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const SetClock = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * SetClock unixTimeUs.
                 * @member {number} unixTimeUs
                 * @memberof sandboxd.agent.v1.SetClock
                 * @instance
                 */
                SetClock.prototype.unixTimeUs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * SetClock shiftUs.
                 * @member {number} shiftUs
                 * @memberof sandboxd.agent.v1.SetClock
                 * @instance
                 */
                SetClock.prototype.shiftUs = $util.Long ? $util.Long.fromBits(0,0,false) : 0;

                /**
                 * Creates a new SetClock instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.SetClock
                 * @static
                 * @param {sandboxd.agent.v1.SetClock.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.SetClock} SetClock instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.SetClock.$Shape): sandboxd.agent.v1.SetClock & sandboxd.agent.v1.SetClock.$Shape;
                 *   (properties?: sandboxd.agent.v1.SetClock.$Properties): sandboxd.agent.v1.SetClock;
                 * }}
                 */
                SetClock.create = function(properties) {
                    return new SetClock(properties);
                };

                /**
                 * Encodes the specified SetClock message. Does not implicitly {@link sandboxd.agent.v1.SetClock.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.SetClock
                 * @static
                 * @param {sandboxd.agent.v1.SetClock.$Properties} message SetClock message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                SetClock.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.unixTimeUs != null && $Object.hasOwnProperty.call(message, "unixTimeUs") && (typeof message.unixTimeUs === "object" ? message.unixTimeUs.low || message.unixTimeUs.high : message.unixTimeUs !== 0))
                        writer.uint32(/* id 1, wireType 0 =*/8).uint64(message.unixTimeUs);
                    if (message.shiftUs != null && $Object.hasOwnProperty.call(message, "shiftUs") && (typeof message.shiftUs === "object" ? message.shiftUs.low || message.shiftUs.high : message.shiftUs !== 0))
                        writer.uint32(/* id 2, wireType 0 =*/16).sint64(message.shiftUs);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a SetClock message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.SetClock
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.SetClock & sandboxd.agent.v1.SetClock.$Shape} SetClock
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                SetClock.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.SetClock();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.unixTimeUs = value;
                                else
                                    delete message.unixTimeUs;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.sint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.shiftUs = value;
                                else
                                    delete message.shiftUs;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return SetClock;
            })();

            v1.SetClockResult = (function() {

                /**
                 * Properties of a SetClockResult.
                 * @typedef {Object} sandboxd.agent.v1.SetClockResult.$Properties
                 * @property {number|null} [unixTimeUs] SetClockResult unixTimeUs
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a SetClockResult.
                 * @memberof sandboxd.agent.v1
                 * @interface ISetClockResult
                 * @augments sandboxd.agent.v1.SetClockResult.$Properties
                 * @deprecated Use sandboxd.agent.v1.SetClockResult.$Properties instead.
                 */

                /**
                 * Shape of a SetClockResult.
                 * @typedef {sandboxd.agent.v1.SetClockResult.$Properties} sandboxd.agent.v1.SetClockResult.$Shape
                 */

                /**
                 * Constructs a new SetClockResult.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a SetClockResult.
                 * @constructor
                 * @param {sandboxd.agent.v1.SetClockResult.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const SetClockResult = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * SetClockResult unixTimeUs.
                 * @member {number} unixTimeUs
                 * @memberof sandboxd.agent.v1.SetClockResult
                 * @instance
                 */
                SetClockResult.prototype.unixTimeUs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * Creates a new SetClockResult instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.SetClockResult
                 * @static
                 * @param {sandboxd.agent.v1.SetClockResult.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.SetClockResult} SetClockResult instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.SetClockResult.$Shape): sandboxd.agent.v1.SetClockResult & sandboxd.agent.v1.SetClockResult.$Shape;
                 *   (properties?: sandboxd.agent.v1.SetClockResult.$Properties): sandboxd.agent.v1.SetClockResult;
                 * }}
                 */
                SetClockResult.create = function(properties) {
                    return new SetClockResult(properties);
                };

                /**
                 * Encodes the specified SetClockResult message. Does not implicitly {@link sandboxd.agent.v1.SetClockResult.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.SetClockResult
                 * @static
                 * @param {sandboxd.agent.v1.SetClockResult.$Properties} message SetClockResult message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                SetClockResult.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.unixTimeUs != null && $Object.hasOwnProperty.call(message, "unixTimeUs") && (typeof message.unixTimeUs === "object" ? message.unixTimeUs.low || message.unixTimeUs.high : message.unixTimeUs !== 0))
                        writer.uint32(/* id 1, wireType 0 =*/8).uint64(message.unixTimeUs);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a SetClockResult message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.SetClockResult
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.SetClockResult & sandboxd.agent.v1.SetClockResult.$Shape} SetClockResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                SetClockResult.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.SetClockResult();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.unixTimeUs = value;
                                else
                                    delete message.unixTimeUs;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return SetClockResult;
            })();

            v1.Freeze = (function() {

                /**
                 * Properties of a Freeze.
                 * @typedef {Object} sandboxd.agent.v1.Freeze.$Properties
                 * @property {boolean|null} [isFrozen] Freeze isFrozen
                 * @property {boolean|null} [sync] Freeze sync
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a Freeze.
                 * @memberof sandboxd.agent.v1
                 * @interface IFreeze
                 * @augments sandboxd.agent.v1.Freeze.$Properties
                 * @deprecated Use sandboxd.agent.v1.Freeze.$Properties instead.
                 */

                /**
                 * Shape of a Freeze.
                 * @typedef {sandboxd.agent.v1.Freeze.$Properties} sandboxd.agent.v1.Freeze.$Shape
                 */

                /**
                 * Constructs a new Freeze.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a Freeze.
                 * @constructor
                 * @param {sandboxd.agent.v1.Freeze.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Freeze = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Freeze isFrozen.
                 * @member {boolean} isFrozen
                 * @memberof sandboxd.agent.v1.Freeze
                 * @instance
                 */
                Freeze.prototype.isFrozen = false;

                /**
                 * Freeze sync.
                 * @member {boolean} sync
                 * @memberof sandboxd.agent.v1.Freeze
                 * @instance
                 */
                Freeze.prototype.sync = false;

                /**
                 * Creates a new Freeze instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Freeze
                 * @static
                 * @param {sandboxd.agent.v1.Freeze.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Freeze} Freeze instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Freeze.$Shape): sandboxd.agent.v1.Freeze & sandboxd.agent.v1.Freeze.$Shape;
                 *   (properties?: sandboxd.agent.v1.Freeze.$Properties): sandboxd.agent.v1.Freeze;
                 * }}
                 */
                Freeze.create = function(properties) {
                    return new Freeze(properties);
                };

                /**
                 * Encodes the specified Freeze message. Does not implicitly {@link sandboxd.agent.v1.Freeze.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Freeze
                 * @static
                 * @param {sandboxd.agent.v1.Freeze.$Properties} message Freeze message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Freeze.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.isFrozen != null && $Object.hasOwnProperty.call(message, "isFrozen") && message.isFrozen !== false)
                        writer.uint32(/* id 1, wireType 0 =*/8).bool(message.isFrozen);
                    if (message.sync != null && $Object.hasOwnProperty.call(message, "sync") && message.sync !== false)
                        writer.uint32(/* id 2, wireType 0 =*/16).bool(message.sync);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a Freeze message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Freeze
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Freeze & sandboxd.agent.v1.Freeze.$Shape} Freeze
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Freeze.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Freeze();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.isFrozen = value;
                                else
                                    delete message.isFrozen;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.sync = value;
                                else
                                    delete message.sync;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Freeze;
            })();

            v1.FreezeResult = (function() {

                /**
                 * Properties of a FreezeResult.
                 * @typedef {Object} sandboxd.agent.v1.FreezeResult.$Properties
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FreezeResult.
                 * @memberof sandboxd.agent.v1
                 * @interface IFreezeResult
                 * @augments sandboxd.agent.v1.FreezeResult.$Properties
                 * @deprecated Use sandboxd.agent.v1.FreezeResult.$Properties instead.
                 */

                /**
                 * Shape of a FreezeResult.
                 * @typedef {sandboxd.agent.v1.FreezeResult.$Properties} sandboxd.agent.v1.FreezeResult.$Shape
                 */

                /**
                 * Constructs a new FreezeResult.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FreezeResult.
                 * @constructor
                 * @param {sandboxd.agent.v1.FreezeResult.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FreezeResult = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Creates a new FreezeResult instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FreezeResult
                 * @static
                 * @param {sandboxd.agent.v1.FreezeResult.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FreezeResult} FreezeResult instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FreezeResult.$Shape): sandboxd.agent.v1.FreezeResult & sandboxd.agent.v1.FreezeResult.$Shape;
                 *   (properties?: sandboxd.agent.v1.FreezeResult.$Properties): sandboxd.agent.v1.FreezeResult;
                 * }}
                 */
                FreezeResult.create = function(properties) {
                    return new FreezeResult(properties);
                };

                /**
                 * Encodes the specified FreezeResult message. Does not implicitly {@link sandboxd.agent.v1.FreezeResult.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FreezeResult
                 * @static
                 * @param {sandboxd.agent.v1.FreezeResult.$Properties} message FreezeResult message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FreezeResult.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FreezeResult message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FreezeResult
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FreezeResult & sandboxd.agent.v1.FreezeResult.$Shape} FreezeResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FreezeResult.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FreezeResult();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        reader.skipType(tag & 7, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FreezeResult;
            })();

            v1.Wake = (function() {

                /**
                 * Properties of a Wake.
                 * @typedef {Object} sandboxd.agent.v1.Wake.$Properties
                 * @property {Uint8Array|null} [entropy] Wake entropy
                 * @property {number|null} [unixTimeUs] Wake unixTimeUs
                 * @property {sandboxd.agent.v1.Network.$Properties|null} [network] Wake network
                 * @property {sandboxd.agent.v1.Connections.$Properties|null} [connections] Wake connections
                 * @property {sandboxd.agent.v1.Trust.$Properties|null} [trust] Wake trust
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a Wake.
                 * @memberof sandboxd.agent.v1
                 * @interface IWake
                 * @augments sandboxd.agent.v1.Wake.$Properties
                 * @deprecated Use sandboxd.agent.v1.Wake.$Properties instead.
                 */

                /**
                 * Shape of a Wake.
                 * @typedef {sandboxd.agent.v1.Wake.$Properties} sandboxd.agent.v1.Wake.$Shape
                 */

                /**
                 * Constructs a new Wake.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a Wake.
                 * @constructor
                 * @param {sandboxd.agent.v1.Wake.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Wake = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Wake entropy.
                 * @member {Uint8Array} entropy
                 * @memberof sandboxd.agent.v1.Wake
                 * @instance
                 */
                Wake.prototype.entropy = $util.newBuffer([]);

                /**
                 * Wake unixTimeUs.
                 * @member {number} unixTimeUs
                 * @memberof sandboxd.agent.v1.Wake
                 * @instance
                 */
                Wake.prototype.unixTimeUs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * Wake network.
                 * @member {sandboxd.agent.v1.Network.$Properties|null|undefined} network
                 * @memberof sandboxd.agent.v1.Wake
                 * @instance
                 */
                Wake.prototype.network = null;

                /**
                 * Wake connections.
                 * @member {sandboxd.agent.v1.Connections.$Properties|null|undefined} connections
                 * @memberof sandboxd.agent.v1.Wake
                 * @instance
                 */
                Wake.prototype.connections = null;

                /**
                 * Wake trust.
                 * @member {sandboxd.agent.v1.Trust.$Properties|null|undefined} trust
                 * @memberof sandboxd.agent.v1.Wake
                 * @instance
                 */
                Wake.prototype.trust = null;

                /**
                 * Creates a new Wake instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Wake
                 * @static
                 * @param {sandboxd.agent.v1.Wake.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Wake} Wake instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Wake.$Shape): sandboxd.agent.v1.Wake & sandboxd.agent.v1.Wake.$Shape;
                 *   (properties?: sandboxd.agent.v1.Wake.$Properties): sandboxd.agent.v1.Wake;
                 * }}
                 */
                Wake.create = function(properties) {
                    return new Wake(properties);
                };

                /**
                 * Encodes the specified Wake message. Does not implicitly {@link sandboxd.agent.v1.Wake.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Wake
                 * @static
                 * @param {sandboxd.agent.v1.Wake.$Properties} message Wake message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Wake.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.entropy != null && $Object.hasOwnProperty.call(message, "entropy") && message.entropy.length)
                        writer.uint32(/* id 1, wireType 2 =*/10).bytes(message.entropy);
                    if (message.unixTimeUs != null && $Object.hasOwnProperty.call(message, "unixTimeUs") && (typeof message.unixTimeUs === "object" ? message.unixTimeUs.low || message.unixTimeUs.high : message.unixTimeUs !== 0))
                        writer.uint32(/* id 2, wireType 0 =*/16).uint64(message.unixTimeUs);
                    if (message.network != null && $Object.hasOwnProperty.call(message, "network"))
                        $root.sandboxd.agent.v1.Network.encode(message.network, writer.uint32(/* id 3, wireType 2 =*/26).fork(), _depth + 1).ldelim();
                    if (message.connections != null && $Object.hasOwnProperty.call(message, "connections"))
                        $root.sandboxd.agent.v1.Connections.encode(message.connections, writer.uint32(/* id 4, wireType 2 =*/34).fork(), _depth + 1).ldelim();
                    if (message.trust != null && $Object.hasOwnProperty.call(message, "trust"))
                        $root.sandboxd.agent.v1.Trust.encode(message.trust, writer.uint32(/* id 5, wireType 2 =*/42).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a Wake message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Wake
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Wake & sandboxd.agent.v1.Wake.$Shape} Wake
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Wake.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Wake();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.entropy = value;
                                else
                                    delete message.entropy;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.unixTimeUs = value;
                                else
                                    delete message.unixTimeUs;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                message.network = $root.sandboxd.agent.v1.Network.decode(reader, reader.size(), $undefined, _depth + 1, message.network);
                                continue;
                            }
                        case 4: {
                                if (wireType !== 2)
                                    break;
                                message.connections = $root.sandboxd.agent.v1.Connections.decode(reader, reader.size(), $undefined, _depth + 1, message.connections);
                                continue;
                            }
                        case 5: {
                                if (wireType !== 2)
                                    break;
                                message.trust = $root.sandboxd.agent.v1.Trust.decode(reader, reader.size(), $undefined, _depth + 1, message.trust);
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Wake;
            })();

            v1.Connections = (function() {

                /**
                 * Properties of a Connections.
                 * @typedef {Object} sandboxd.agent.v1.Connections.$Properties
                 * @property {Uint8Array|null} [address] Connections address
                 * @property {Uint8Array|null} [tracked] Connections tracked
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a Connections.
                 * @memberof sandboxd.agent.v1
                 * @interface IConnections
                 * @augments sandboxd.agent.v1.Connections.$Properties
                 * @deprecated Use sandboxd.agent.v1.Connections.$Properties instead.
                 */

                /**
                 * Shape of a Connections.
                 * @typedef {sandboxd.agent.v1.Connections.$Properties} sandboxd.agent.v1.Connections.$Shape
                 */

                /**
                 * Constructs a new Connections.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a Connections.
                 * @constructor
                 * @param {sandboxd.agent.v1.Connections.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const Connections = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Connections address.
                 * @member {Uint8Array} address
                 * @memberof sandboxd.agent.v1.Connections
                 * @instance
                 */
                Connections.prototype.address = $util.newBuffer([]);

                /**
                 * Connections tracked.
                 * @member {Uint8Array} tracked
                 * @memberof sandboxd.agent.v1.Connections
                 * @instance
                 */
                Connections.prototype.tracked = $util.newBuffer([]);

                /**
                 * Creates a new Connections instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.Connections
                 * @static
                 * @param {sandboxd.agent.v1.Connections.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.Connections} Connections instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.Connections.$Shape): sandboxd.agent.v1.Connections & sandboxd.agent.v1.Connections.$Shape;
                 *   (properties?: sandboxd.agent.v1.Connections.$Properties): sandboxd.agent.v1.Connections;
                 * }}
                 */
                Connections.create = function(properties) {
                    return new Connections(properties);
                };

                /**
                 * Encodes the specified Connections message. Does not implicitly {@link sandboxd.agent.v1.Connections.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.Connections
                 * @static
                 * @param {sandboxd.agent.v1.Connections.$Properties} message Connections message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                Connections.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.address != null && $Object.hasOwnProperty.call(message, "address") && message.address.length)
                        writer.uint32(/* id 1, wireType 2 =*/10).bytes(message.address);
                    if (message.tracked != null && $Object.hasOwnProperty.call(message, "tracked") && message.tracked.length)
                        writer.uint32(/* id 2, wireType 2 =*/18).bytes(message.tracked);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a Connections message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.Connections
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.Connections & sandboxd.agent.v1.Connections.$Shape} Connections
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                Connections.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.Connections();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.address = value;
                                else
                                    delete message.address;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.tracked = value;
                                else
                                    delete message.tracked;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Connections;
            })();

            v1.WakeResult = (function() {

                /**
                 * Properties of a WakeResult.
                 * @typedef {Object} sandboxd.agent.v1.WakeResult.$Properties
                 * @property {number|null} [unixTimeUs] WakeResult unixTimeUs
                 * @property {sandboxd.agent.v1.TrustResult.$Properties|null} [trust] WakeResult trust
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a WakeResult.
                 * @memberof sandboxd.agent.v1
                 * @interface IWakeResult
                 * @augments sandboxd.agent.v1.WakeResult.$Properties
                 * @deprecated Use sandboxd.agent.v1.WakeResult.$Properties instead.
                 */

                /**
                 * Shape of a WakeResult.
                 * @typedef {sandboxd.agent.v1.WakeResult.$Properties} sandboxd.agent.v1.WakeResult.$Shape
                 */

                /**
                 * Constructs a new WakeResult.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a WakeResult.
                 * @constructor
                 * @param {sandboxd.agent.v1.WakeResult.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const WakeResult = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * WakeResult unixTimeUs.
                 * @member {number} unixTimeUs
                 * @memberof sandboxd.agent.v1.WakeResult
                 * @instance
                 */
                WakeResult.prototype.unixTimeUs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * WakeResult trust.
                 * @member {sandboxd.agent.v1.TrustResult.$Properties|null|undefined} trust
                 * @memberof sandboxd.agent.v1.WakeResult
                 * @instance
                 */
                WakeResult.prototype.trust = null;

                /**
                 * Creates a new WakeResult instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.WakeResult
                 * @static
                 * @param {sandboxd.agent.v1.WakeResult.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.WakeResult} WakeResult instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.WakeResult.$Shape): sandboxd.agent.v1.WakeResult & sandboxd.agent.v1.WakeResult.$Shape;
                 *   (properties?: sandboxd.agent.v1.WakeResult.$Properties): sandboxd.agent.v1.WakeResult;
                 * }}
                 */
                WakeResult.create = function(properties) {
                    return new WakeResult(properties);
                };

                /**
                 * Encodes the specified WakeResult message. Does not implicitly {@link sandboxd.agent.v1.WakeResult.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.WakeResult
                 * @static
                 * @param {sandboxd.agent.v1.WakeResult.$Properties} message WakeResult message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                WakeResult.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.unixTimeUs != null && $Object.hasOwnProperty.call(message, "unixTimeUs") && (typeof message.unixTimeUs === "object" ? message.unixTimeUs.low || message.unixTimeUs.high : message.unixTimeUs !== 0))
                        writer.uint32(/* id 1, wireType 0 =*/8).uint64(message.unixTimeUs);
                    if (message.trust != null && $Object.hasOwnProperty.call(message, "trust"))
                        $root.sandboxd.agent.v1.TrustResult.encode(message.trust, writer.uint32(/* id 2, wireType 2 =*/18).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a WakeResult message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.WakeResult
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.WakeResult & sandboxd.agent.v1.WakeResult.$Shape} WakeResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                WakeResult.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.WakeResult();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.unixTimeUs = value;
                                else
                                    delete message.unixTimeUs;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                message.trust = $root.sandboxd.agent.v1.TrustResult.decode(reader, reader.size(), $undefined, _depth + 1, message.trust);
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return WakeResult;
            })();

            v1.ServiceSpec = (function() {

                /**
                 * Properties of a ServiceSpec.
                 * @typedef {Object} sandboxd.agent.v1.ServiceSpec.$Properties
                 * @property {Array.<string>|null} [cmd] ServiceSpec cmd
                 * @property {Array.<string>|null} [env] ServiceSpec env
                 * @property {Array.<string>|null} [baseEnv] ServiceSpec baseEnv
                 * @property {boolean|null} [makeCwd] ServiceSpec makeCwd
                 * @property {string|null} [cwd] ServiceSpec cwd
                 * @property {string|null} [user] ServiceSpec user
                 * @property {string|null} [stopSignal] ServiceSpec stopSignal
                 * @property {number|null} [stopGraceMs] ServiceSpec stopGraceMs
                 * @property {string|null} [restartPolicy] ServiceSpec restartPolicy
                 * @property {number|null} [maxRetries] ServiceSpec maxRetries
                 * @property {number|null} [logBufferBytes] ServiceSpec logBufferBytes
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a ServiceSpec.
                 * @memberof sandboxd.agent.v1
                 * @interface IServiceSpec
                 * @augments sandboxd.agent.v1.ServiceSpec.$Properties
                 * @deprecated Use sandboxd.agent.v1.ServiceSpec.$Properties instead.
                 */

                /**
                 * Shape of a ServiceSpec.
                 * @typedef {sandboxd.agent.v1.ServiceSpec.$Properties} sandboxd.agent.v1.ServiceSpec.$Shape
                 */

                /**
                 * Constructs a new ServiceSpec.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a ServiceSpec.
                 * @constructor
                 * @param {sandboxd.agent.v1.ServiceSpec.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const ServiceSpec = function (properties) {
                    this.cmd = [];
                    this.env = [];
                    this.baseEnv = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * ServiceSpec cmd.
                 * @member {Array.<string>} cmd
                 * @memberof sandboxd.agent.v1.ServiceSpec
                 * @instance
                 */
                ServiceSpec.prototype.cmd = $util.emptyArray;

                /**
                 * ServiceSpec env.
                 * @member {Array.<string>} env
                 * @memberof sandboxd.agent.v1.ServiceSpec
                 * @instance
                 */
                ServiceSpec.prototype.env = $util.emptyArray;

                /**
                 * ServiceSpec baseEnv.
                 * @member {Array.<string>} baseEnv
                 * @memberof sandboxd.agent.v1.ServiceSpec
                 * @instance
                 */
                ServiceSpec.prototype.baseEnv = $util.emptyArray;

                /**
                 * ServiceSpec makeCwd.
                 * @member {boolean} makeCwd
                 * @memberof sandboxd.agent.v1.ServiceSpec
                 * @instance
                 */
                ServiceSpec.prototype.makeCwd = false;

                /**
                 * ServiceSpec cwd.
                 * @member {string} cwd
                 * @memberof sandboxd.agent.v1.ServiceSpec
                 * @instance
                 */
                ServiceSpec.prototype.cwd = "";

                /**
                 * ServiceSpec user.
                 * @member {string} user
                 * @memberof sandboxd.agent.v1.ServiceSpec
                 * @instance
                 */
                ServiceSpec.prototype.user = "";

                /**
                 * ServiceSpec stopSignal.
                 * @member {string} stopSignal
                 * @memberof sandboxd.agent.v1.ServiceSpec
                 * @instance
                 */
                ServiceSpec.prototype.stopSignal = "";

                /**
                 * ServiceSpec stopGraceMs.
                 * @member {number} stopGraceMs
                 * @memberof sandboxd.agent.v1.ServiceSpec
                 * @instance
                 */
                ServiceSpec.prototype.stopGraceMs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * ServiceSpec restartPolicy.
                 * @member {string} restartPolicy
                 * @memberof sandboxd.agent.v1.ServiceSpec
                 * @instance
                 */
                ServiceSpec.prototype.restartPolicy = "";

                /**
                 * ServiceSpec maxRetries.
                 * @member {number} maxRetries
                 * @memberof sandboxd.agent.v1.ServiceSpec
                 * @instance
                 */
                ServiceSpec.prototype.maxRetries = 0;

                /**
                 * ServiceSpec logBufferBytes.
                 * @member {number} logBufferBytes
                 * @memberof sandboxd.agent.v1.ServiceSpec
                 * @instance
                 */
                ServiceSpec.prototype.logBufferBytes = 0;

                /**
                 * Creates a new ServiceSpec instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.ServiceSpec
                 * @static
                 * @param {sandboxd.agent.v1.ServiceSpec.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.ServiceSpec} ServiceSpec instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.ServiceSpec.$Shape): sandboxd.agent.v1.ServiceSpec & sandboxd.agent.v1.ServiceSpec.$Shape;
                 *   (properties?: sandboxd.agent.v1.ServiceSpec.$Properties): sandboxd.agent.v1.ServiceSpec;
                 * }}
                 */
                ServiceSpec.create = function(properties) {
                    return new ServiceSpec(properties);
                };

                /**
                 * Encodes the specified ServiceSpec message. Does not implicitly {@link sandboxd.agent.v1.ServiceSpec.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.ServiceSpec
                 * @static
                 * @param {sandboxd.agent.v1.ServiceSpec.$Properties} message ServiceSpec message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                ServiceSpec.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.cmd != null && message.cmd.length)
                        for (let i = 0; i < message.cmd.length; ++i)
                            writer.uint32(/* id 1, wireType 2 =*/10).string(message.cmd[i]);
                    if (message.env != null && message.env.length)
                        for (let i = 0; i < message.env.length; ++i)
                            writer.uint32(/* id 2, wireType 2 =*/18).string(message.env[i]);
                    if (message.baseEnv != null && message.baseEnv.length)
                        for (let i = 0; i < message.baseEnv.length; ++i)
                            writer.uint32(/* id 3, wireType 2 =*/26).string(message.baseEnv[i]);
                    if (message.makeCwd != null && $Object.hasOwnProperty.call(message, "makeCwd") && message.makeCwd !== false)
                        writer.uint32(/* id 4, wireType 0 =*/32).bool(message.makeCwd);
                    if (message.cwd != null && $Object.hasOwnProperty.call(message, "cwd") && message.cwd !== "")
                        writer.uint32(/* id 5, wireType 2 =*/42).string(message.cwd);
                    if (message.user != null && $Object.hasOwnProperty.call(message, "user") && message.user !== "")
                        writer.uint32(/* id 6, wireType 2 =*/50).string(message.user);
                    if (message.stopSignal != null && $Object.hasOwnProperty.call(message, "stopSignal") && message.stopSignal !== "")
                        writer.uint32(/* id 7, wireType 2 =*/58).string(message.stopSignal);
                    if (message.stopGraceMs != null && $Object.hasOwnProperty.call(message, "stopGraceMs") && (typeof message.stopGraceMs === "object" ? message.stopGraceMs.low || message.stopGraceMs.high : message.stopGraceMs !== 0))
                        writer.uint32(/* id 8, wireType 0 =*/64).uint64(message.stopGraceMs);
                    if (message.restartPolicy != null && $Object.hasOwnProperty.call(message, "restartPolicy") && message.restartPolicy !== "")
                        writer.uint32(/* id 9, wireType 2 =*/74).string(message.restartPolicy);
                    if (message.maxRetries != null && $Object.hasOwnProperty.call(message, "maxRetries") && message.maxRetries !== 0)
                        writer.uint32(/* id 10, wireType 0 =*/80).uint32(message.maxRetries);
                    if (message.logBufferBytes != null && $Object.hasOwnProperty.call(message, "logBufferBytes") && message.logBufferBytes !== 0)
                        writer.uint32(/* id 11, wireType 0 =*/88).uint32(message.logBufferBytes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a ServiceSpec message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.ServiceSpec
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ServiceSpec & sandboxd.agent.v1.ServiceSpec.$Shape} ServiceSpec
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                ServiceSpec.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.ServiceSpec();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.cmd && message.cmd.length))
                                    message.cmd = [];
                                message.cmd.push(reader.stringVerify());
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.env && message.env.length))
                                    message.env = [];
                                message.env.push(reader.stringVerify());
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.baseEnv && message.baseEnv.length))
                                    message.baseEnv = [];
                                message.baseEnv.push(reader.stringVerify());
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.makeCwd = value;
                                else
                                    delete message.makeCwd;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.cwd = value;
                                else
                                    delete message.cwd;
                                continue;
                            }
                        case 6: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.user = value;
                                else
                                    delete message.user;
                                continue;
                            }
                        case 7: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.stopSignal = value;
                                else
                                    delete message.stopSignal;
                                continue;
                            }
                        case 8: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.stopGraceMs = value;
                                else
                                    delete message.stopGraceMs;
                                continue;
                            }
                        case 9: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.restartPolicy = value;
                                else
                                    delete message.restartPolicy;
                                continue;
                            }
                        case 10: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.maxRetries = value;
                                else
                                    delete message.maxRetries;
                                continue;
                            }
                        case 11: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.logBufferBytes = value;
                                else
                                    delete message.logBufferBytes;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return ServiceSpec;
            })();

            v1.ServiceConfigure = (function() {

                /**
                 * Properties of a ServiceConfigure.
                 * @typedef {Object} sandboxd.agent.v1.ServiceConfigure.$Properties
                 * @property {sandboxd.agent.v1.ServiceSpec.$Properties|null} [spec] ServiceConfigure spec
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a ServiceConfigure.
                 * @memberof sandboxd.agent.v1
                 * @interface IServiceConfigure
                 * @augments sandboxd.agent.v1.ServiceConfigure.$Properties
                 * @deprecated Use sandboxd.agent.v1.ServiceConfigure.$Properties instead.
                 */

                /**
                 * Shape of a ServiceConfigure.
                 * @typedef {sandboxd.agent.v1.ServiceConfigure.$Properties} sandboxd.agent.v1.ServiceConfigure.$Shape
                 */

                /**
                 * Constructs a new ServiceConfigure.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a ServiceConfigure.
                 * @constructor
                 * @param {sandboxd.agent.v1.ServiceConfigure.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const ServiceConfigure = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * ServiceConfigure spec.
                 * @member {sandboxd.agent.v1.ServiceSpec.$Properties|null|undefined} spec
                 * @memberof sandboxd.agent.v1.ServiceConfigure
                 * @instance
                 */
                ServiceConfigure.prototype.spec = null;

                /**
                 * Creates a new ServiceConfigure instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.ServiceConfigure
                 * @static
                 * @param {sandboxd.agent.v1.ServiceConfigure.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.ServiceConfigure} ServiceConfigure instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.ServiceConfigure.$Shape): sandboxd.agent.v1.ServiceConfigure & sandboxd.agent.v1.ServiceConfigure.$Shape;
                 *   (properties?: sandboxd.agent.v1.ServiceConfigure.$Properties): sandboxd.agent.v1.ServiceConfigure;
                 * }}
                 */
                ServiceConfigure.create = function(properties) {
                    return new ServiceConfigure(properties);
                };

                /**
                 * Encodes the specified ServiceConfigure message. Does not implicitly {@link sandboxd.agent.v1.ServiceConfigure.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.ServiceConfigure
                 * @static
                 * @param {sandboxd.agent.v1.ServiceConfigure.$Properties} message ServiceConfigure message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                ServiceConfigure.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.spec != null && $Object.hasOwnProperty.call(message, "spec"))
                        $root.sandboxd.agent.v1.ServiceSpec.encode(message.spec, writer.uint32(/* id 1, wireType 2 =*/10).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a ServiceConfigure message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.ServiceConfigure
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ServiceConfigure & sandboxd.agent.v1.ServiceConfigure.$Shape} ServiceConfigure
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                ServiceConfigure.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.ServiceConfigure();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                message.spec = $root.sandboxd.agent.v1.ServiceSpec.decode(reader, reader.size(), $undefined, _depth + 1, message.spec);
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return ServiceConfigure;
            })();

            v1.ServiceControl = (function() {

                /**
                 * Properties of a ServiceControl.
                 * @typedef {Object} sandboxd.agent.v1.ServiceControl.$Properties
                 * @property {sandboxd.agent.v1.ServiceControl.Verb|null} [verb] ServiceControl verb
                 * @property {number|null} [graceMs] ServiceControl graceMs
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a ServiceControl.
                 * @memberof sandboxd.agent.v1
                 * @interface IServiceControl
                 * @augments sandboxd.agent.v1.ServiceControl.$Properties
                 * @deprecated Use sandboxd.agent.v1.ServiceControl.$Properties instead.
                 */

                /**
                 * Shape of a ServiceControl.
                 * @typedef {sandboxd.agent.v1.ServiceControl.$Properties} sandboxd.agent.v1.ServiceControl.$Shape
                 */

                /**
                 * Constructs a new ServiceControl.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a ServiceControl.
                 * @constructor
                 * @param {sandboxd.agent.v1.ServiceControl.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const ServiceControl = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * ServiceControl verb.
                 * @member {sandboxd.agent.v1.ServiceControl.Verb} verb
                 * @memberof sandboxd.agent.v1.ServiceControl
                 * @instance
                 */
                ServiceControl.prototype.verb = 0;

                /**
                 * ServiceControl graceMs.
                 * @member {number|null|undefined} graceMs
                 * @memberof sandboxd.agent.v1.ServiceControl
                 * @instance
                 */
                ServiceControl.prototype.graceMs = null;

                // OneOf field names bound to virtual getters and setters
                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ServiceControl.prototype, "_graceMs", {
                    get: $util.oneOfGetter($oneOfFields = ["graceMs"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                /**
                 * Creates a new ServiceControl instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.ServiceControl
                 * @static
                 * @param {sandboxd.agent.v1.ServiceControl.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.ServiceControl} ServiceControl instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.ServiceControl.$Shape): sandboxd.agent.v1.ServiceControl & sandboxd.agent.v1.ServiceControl.$Shape;
                 *   (properties?: sandboxd.agent.v1.ServiceControl.$Properties): sandboxd.agent.v1.ServiceControl;
                 * }}
                 */
                ServiceControl.create = function(properties) {
                    return new ServiceControl(properties);
                };

                /**
                 * Encodes the specified ServiceControl message. Does not implicitly {@link sandboxd.agent.v1.ServiceControl.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.ServiceControl
                 * @static
                 * @param {sandboxd.agent.v1.ServiceControl.$Properties} message ServiceControl message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                ServiceControl.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.verb != null && $Object.hasOwnProperty.call(message, "verb") && message.verb !== 0)
                        writer.uint32(/* id 1, wireType 0 =*/8).int32(message.verb);
                    if (message.graceMs != null && $Object.hasOwnProperty.call(message, "graceMs"))
                        writer.uint32(/* id 2, wireType 0 =*/16).uint64(message.graceMs);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a ServiceControl message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.ServiceControl
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ServiceControl & sandboxd.agent.v1.ServiceControl.$Shape} ServiceControl
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                ServiceControl.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.ServiceControl();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.int32())
                                    message.verb = value;
                                else
                                    delete message.verb;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                message.graceMs = reader.uint64();
                                message._graceMs = "graceMs";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                /**
                 * Verb enum.
                 * @name sandboxd.agent.v1.ServiceControl.Verb
                 * @enum {number}
                 * @property {number} STATUS=0 STATUS value
                 * @property {number} START=1 START value
                 * @property {number} STOP=2 STOP value
                 * @property {number} RESTART=3 RESTART value
                 */
                ServiceControl.Verb = (function() {
                    const valuesById = $Object.create(null), values = $Object.create(valuesById);
                    values[valuesById[0] = "STATUS"] = 0;
                    values[valuesById[1] = "START"] = 1;
                    values[valuesById[2] = "STOP"] = 2;
                    values[valuesById[3] = "RESTART"] = 3;
                    return values;
                })();

                return ServiceControl;
            })();

            v1.ServiceStatus = (function() {

                /**
                 * Properties of a ServiceStatus.
                 * @typedef {Object} sandboxd.agent.v1.ServiceStatus.$Properties
                 * @property {string|null} [state] ServiceStatus state
                 * @property {number|null} [pid] ServiceStatus pid
                 * @property {number|null} [restarts] ServiceStatus restarts
                 * @property {sandboxd.agent.v1.ServiceSpec.$Properties|null} [spec] ServiceStatus spec
                 * @property {number|null} [startedUnixMs] ServiceStatus startedUnixMs
                 * @property {number|null} [uptimeMs] ServiceStatus uptimeMs
                 * @property {sandboxd.agent.v1.ExecResult.$Properties|null} [lastExit] ServiceStatus lastExit
                 * @property {number|null} [lastExitUnixMs] ServiceStatus lastExitUnixMs
                 * @property {boolean|null} [lastExitRequested] ServiceStatus lastExitRequested
                 * @property {number|null} [liveRssBytes] ServiceStatus liveRssBytes
                 * @property {number|null} [livePeakRssBytes] ServiceStatus livePeakRssBytes
                 * @property {sandboxd.agent.v1.ServiceRing.$Properties|null} [ring] ServiceStatus ring
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a ServiceStatus.
                 * @memberof sandboxd.agent.v1
                 * @interface IServiceStatus
                 * @augments sandboxd.agent.v1.ServiceStatus.$Properties
                 * @deprecated Use sandboxd.agent.v1.ServiceStatus.$Properties instead.
                 */

                /**
                 * Shape of a ServiceStatus.
                 * @typedef {sandboxd.agent.v1.ServiceStatus.$Properties} sandboxd.agent.v1.ServiceStatus.$Shape
                 */

                /**
                 * Constructs a new ServiceStatus.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a ServiceStatus.
                 * @constructor
                 * @param {sandboxd.agent.v1.ServiceStatus.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const ServiceStatus = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * ServiceStatus state.
                 * @member {string} state
                 * @memberof sandboxd.agent.v1.ServiceStatus
                 * @instance
                 */
                ServiceStatus.prototype.state = "";

                /**
                 * ServiceStatus pid.
                 * @member {number} pid
                 * @memberof sandboxd.agent.v1.ServiceStatus
                 * @instance
                 */
                ServiceStatus.prototype.pid = 0;

                /**
                 * ServiceStatus restarts.
                 * @member {number} restarts
                 * @memberof sandboxd.agent.v1.ServiceStatus
                 * @instance
                 */
                ServiceStatus.prototype.restarts = 0;

                /**
                 * ServiceStatus spec.
                 * @member {sandboxd.agent.v1.ServiceSpec.$Properties|null|undefined} spec
                 * @memberof sandboxd.agent.v1.ServiceStatus
                 * @instance
                 */
                ServiceStatus.prototype.spec = null;

                /**
                 * ServiceStatus startedUnixMs.
                 * @member {number} startedUnixMs
                 * @memberof sandboxd.agent.v1.ServiceStatus
                 * @instance
                 */
                ServiceStatus.prototype.startedUnixMs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * ServiceStatus uptimeMs.
                 * @member {number} uptimeMs
                 * @memberof sandboxd.agent.v1.ServiceStatus
                 * @instance
                 */
                ServiceStatus.prototype.uptimeMs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * ServiceStatus lastExit.
                 * @member {sandboxd.agent.v1.ExecResult.$Properties|null|undefined} lastExit
                 * @memberof sandboxd.agent.v1.ServiceStatus
                 * @instance
                 */
                ServiceStatus.prototype.lastExit = null;

                /**
                 * ServiceStatus lastExitUnixMs.
                 * @member {number} lastExitUnixMs
                 * @memberof sandboxd.agent.v1.ServiceStatus
                 * @instance
                 */
                ServiceStatus.prototype.lastExitUnixMs = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * ServiceStatus lastExitRequested.
                 * @member {boolean} lastExitRequested
                 * @memberof sandboxd.agent.v1.ServiceStatus
                 * @instance
                 */
                ServiceStatus.prototype.lastExitRequested = false;

                /**
                 * ServiceStatus liveRssBytes.
                 * @member {number} liveRssBytes
                 * @memberof sandboxd.agent.v1.ServiceStatus
                 * @instance
                 */
                ServiceStatus.prototype.liveRssBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * ServiceStatus livePeakRssBytes.
                 * @member {number} livePeakRssBytes
                 * @memberof sandboxd.agent.v1.ServiceStatus
                 * @instance
                 */
                ServiceStatus.prototype.livePeakRssBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * ServiceStatus ring.
                 * @member {sandboxd.agent.v1.ServiceRing.$Properties|null|undefined} ring
                 * @memberof sandboxd.agent.v1.ServiceStatus
                 * @instance
                 */
                ServiceStatus.prototype.ring = null;

                /**
                 * Creates a new ServiceStatus instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.ServiceStatus
                 * @static
                 * @param {sandboxd.agent.v1.ServiceStatus.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.ServiceStatus} ServiceStatus instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.ServiceStatus.$Shape): sandboxd.agent.v1.ServiceStatus & sandboxd.agent.v1.ServiceStatus.$Shape;
                 *   (properties?: sandboxd.agent.v1.ServiceStatus.$Properties): sandboxd.agent.v1.ServiceStatus;
                 * }}
                 */
                ServiceStatus.create = function(properties) {
                    return new ServiceStatus(properties);
                };

                /**
                 * Encodes the specified ServiceStatus message. Does not implicitly {@link sandboxd.agent.v1.ServiceStatus.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.ServiceStatus
                 * @static
                 * @param {sandboxd.agent.v1.ServiceStatus.$Properties} message ServiceStatus message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                ServiceStatus.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.state != null && $Object.hasOwnProperty.call(message, "state") && message.state !== "")
                        writer.uint32(/* id 1, wireType 2 =*/10).string(message.state);
                    if (message.pid != null && $Object.hasOwnProperty.call(message, "pid") && message.pid !== 0)
                        writer.uint32(/* id 2, wireType 0 =*/16).uint32(message.pid);
                    if (message.restarts != null && $Object.hasOwnProperty.call(message, "restarts") && message.restarts !== 0)
                        writer.uint32(/* id 3, wireType 0 =*/24).uint32(message.restarts);
                    if (message.spec != null && $Object.hasOwnProperty.call(message, "spec"))
                        $root.sandboxd.agent.v1.ServiceSpec.encode(message.spec, writer.uint32(/* id 4, wireType 2 =*/34).fork(), _depth + 1).ldelim();
                    if (message.startedUnixMs != null && $Object.hasOwnProperty.call(message, "startedUnixMs") && (typeof message.startedUnixMs === "object" ? message.startedUnixMs.low || message.startedUnixMs.high : message.startedUnixMs !== 0))
                        writer.uint32(/* id 5, wireType 0 =*/40).uint64(message.startedUnixMs);
                    if (message.uptimeMs != null && $Object.hasOwnProperty.call(message, "uptimeMs") && (typeof message.uptimeMs === "object" ? message.uptimeMs.low || message.uptimeMs.high : message.uptimeMs !== 0))
                        writer.uint32(/* id 6, wireType 0 =*/48).uint64(message.uptimeMs);
                    if (message.lastExit != null && $Object.hasOwnProperty.call(message, "lastExit"))
                        $root.sandboxd.agent.v1.ExecResult.encode(message.lastExit, writer.uint32(/* id 7, wireType 2 =*/58).fork(), _depth + 1).ldelim();
                    if (message.lastExitUnixMs != null && $Object.hasOwnProperty.call(message, "lastExitUnixMs") && (typeof message.lastExitUnixMs === "object" ? message.lastExitUnixMs.low || message.lastExitUnixMs.high : message.lastExitUnixMs !== 0))
                        writer.uint32(/* id 8, wireType 0 =*/64).uint64(message.lastExitUnixMs);
                    if (message.lastExitRequested != null && $Object.hasOwnProperty.call(message, "lastExitRequested") && message.lastExitRequested !== false)
                        writer.uint32(/* id 9, wireType 0 =*/72).bool(message.lastExitRequested);
                    if (message.liveRssBytes != null && $Object.hasOwnProperty.call(message, "liveRssBytes") && (typeof message.liveRssBytes === "object" ? message.liveRssBytes.low || message.liveRssBytes.high : message.liveRssBytes !== 0))
                        writer.uint32(/* id 10, wireType 0 =*/80).uint64(message.liveRssBytes);
                    if (message.livePeakRssBytes != null && $Object.hasOwnProperty.call(message, "livePeakRssBytes") && (typeof message.livePeakRssBytes === "object" ? message.livePeakRssBytes.low || message.livePeakRssBytes.high : message.livePeakRssBytes !== 0))
                        writer.uint32(/* id 11, wireType 0 =*/88).uint64(message.livePeakRssBytes);
                    if (message.ring != null && $Object.hasOwnProperty.call(message, "ring"))
                        $root.sandboxd.agent.v1.ServiceRing.encode(message.ring, writer.uint32(/* id 12, wireType 2 =*/98).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a ServiceStatus message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.ServiceStatus
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ServiceStatus & sandboxd.agent.v1.ServiceStatus.$Shape} ServiceStatus
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                ServiceStatus.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.ServiceStatus();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.state = value;
                                else
                                    delete message.state;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.pid = value;
                                else
                                    delete message.pid;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.restarts = value;
                                else
                                    delete message.restarts;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 2)
                                    break;
                                message.spec = $root.sandboxd.agent.v1.ServiceSpec.decode(reader, reader.size(), $undefined, _depth + 1, message.spec);
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.startedUnixMs = value;
                                else
                                    delete message.startedUnixMs;
                                continue;
                            }
                        case 6: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.uptimeMs = value;
                                else
                                    delete message.uptimeMs;
                                continue;
                            }
                        case 7: {
                                if (wireType !== 2)
                                    break;
                                message.lastExit = $root.sandboxd.agent.v1.ExecResult.decode(reader, reader.size(), $undefined, _depth + 1, message.lastExit);
                                continue;
                            }
                        case 8: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.lastExitUnixMs = value;
                                else
                                    delete message.lastExitUnixMs;
                                continue;
                            }
                        case 9: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.lastExitRequested = value;
                                else
                                    delete message.lastExitRequested;
                                continue;
                            }
                        case 10: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.liveRssBytes = value;
                                else
                                    delete message.liveRssBytes;
                                continue;
                            }
                        case 11: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.livePeakRssBytes = value;
                                else
                                    delete message.livePeakRssBytes;
                                continue;
                            }
                        case 12: {
                                if (wireType !== 2)
                                    break;
                                message.ring = $root.sandboxd.agent.v1.ServiceRing.decode(reader, reader.size(), $undefined, _depth + 1, message.ring);
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return ServiceStatus;
            })();

            v1.ServiceRing = (function() {

                /**
                 * Properties of a ServiceRing.
                 * @typedef {Object} sandboxd.agent.v1.ServiceRing.$Properties
                 * @property {string|null} [id] ServiceRing id
                 * @property {number|null} [firstSeq] ServiceRing firstSeq
                 * @property {number|null} [nextSeq] ServiceRing nextSeq
                 * @property {number|null} [droppedRecords] ServiceRing droppedRecords
                 * @property {number|null} [droppedBytes] ServiceRing droppedBytes
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a ServiceRing.
                 * @memberof sandboxd.agent.v1
                 * @interface IServiceRing
                 * @augments sandboxd.agent.v1.ServiceRing.$Properties
                 * @deprecated Use sandboxd.agent.v1.ServiceRing.$Properties instead.
                 */

                /**
                 * Shape of a ServiceRing.
                 * @typedef {sandboxd.agent.v1.ServiceRing.$Properties} sandboxd.agent.v1.ServiceRing.$Shape
                 */

                /**
                 * Constructs a new ServiceRing.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a ServiceRing.
                 * @constructor
                 * @param {sandboxd.agent.v1.ServiceRing.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const ServiceRing = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * ServiceRing id.
                 * @member {string} id
                 * @memberof sandboxd.agent.v1.ServiceRing
                 * @instance
                 */
                ServiceRing.prototype.id = "";

                /**
                 * ServiceRing firstSeq.
                 * @member {number} firstSeq
                 * @memberof sandboxd.agent.v1.ServiceRing
                 * @instance
                 */
                ServiceRing.prototype.firstSeq = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * ServiceRing nextSeq.
                 * @member {number} nextSeq
                 * @memberof sandboxd.agent.v1.ServiceRing
                 * @instance
                 */
                ServiceRing.prototype.nextSeq = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * ServiceRing droppedRecords.
                 * @member {number} droppedRecords
                 * @memberof sandboxd.agent.v1.ServiceRing
                 * @instance
                 */
                ServiceRing.prototype.droppedRecords = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * ServiceRing droppedBytes.
                 * @member {number} droppedBytes
                 * @memberof sandboxd.agent.v1.ServiceRing
                 * @instance
                 */
                ServiceRing.prototype.droppedBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * Creates a new ServiceRing instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.ServiceRing
                 * @static
                 * @param {sandboxd.agent.v1.ServiceRing.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.ServiceRing} ServiceRing instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.ServiceRing.$Shape): sandboxd.agent.v1.ServiceRing & sandboxd.agent.v1.ServiceRing.$Shape;
                 *   (properties?: sandboxd.agent.v1.ServiceRing.$Properties): sandboxd.agent.v1.ServiceRing;
                 * }}
                 */
                ServiceRing.create = function(properties) {
                    return new ServiceRing(properties);
                };

                /**
                 * Encodes the specified ServiceRing message. Does not implicitly {@link sandboxd.agent.v1.ServiceRing.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.ServiceRing
                 * @static
                 * @param {sandboxd.agent.v1.ServiceRing.$Properties} message ServiceRing message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                ServiceRing.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.id != null && $Object.hasOwnProperty.call(message, "id") && message.id !== "")
                        writer.uint32(/* id 1, wireType 2 =*/10).string(message.id);
                    if (message.firstSeq != null && $Object.hasOwnProperty.call(message, "firstSeq") && (typeof message.firstSeq === "object" ? message.firstSeq.low || message.firstSeq.high : message.firstSeq !== 0))
                        writer.uint32(/* id 2, wireType 0 =*/16).uint64(message.firstSeq);
                    if (message.nextSeq != null && $Object.hasOwnProperty.call(message, "nextSeq") && (typeof message.nextSeq === "object" ? message.nextSeq.low || message.nextSeq.high : message.nextSeq !== 0))
                        writer.uint32(/* id 3, wireType 0 =*/24).uint64(message.nextSeq);
                    if (message.droppedRecords != null && $Object.hasOwnProperty.call(message, "droppedRecords") && (typeof message.droppedRecords === "object" ? message.droppedRecords.low || message.droppedRecords.high : message.droppedRecords !== 0))
                        writer.uint32(/* id 4, wireType 0 =*/32).uint64(message.droppedRecords);
                    if (message.droppedBytes != null && $Object.hasOwnProperty.call(message, "droppedBytes") && (typeof message.droppedBytes === "object" ? message.droppedBytes.low || message.droppedBytes.high : message.droppedBytes !== 0))
                        writer.uint32(/* id 5, wireType 0 =*/40).uint64(message.droppedBytes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a ServiceRing message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.ServiceRing
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ServiceRing & sandboxd.agent.v1.ServiceRing.$Shape} ServiceRing
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                ServiceRing.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.ServiceRing();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.id = value;
                                else
                                    delete message.id;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.firstSeq = value;
                                else
                                    delete message.firstSeq;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.nextSeq = value;
                                else
                                    delete message.nextSeq;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.droppedRecords = value;
                                else
                                    delete message.droppedRecords;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.droppedBytes = value;
                                else
                                    delete message.droppedBytes;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return ServiceRing;
            })();

            v1.ServiceOutput = (function() {

                /**
                 * Properties of a ServiceOutput.
                 * @typedef {Object} sandboxd.agent.v1.ServiceOutput.$Properties
                 * @property {string|null} [ring] ServiceOutput ring
                 * @property {number|null} [fromSeq] ServiceOutput fromSeq
                 * @property {boolean|null} [follow] ServiceOutput follow
                 * @property {boolean|null} [wait] ServiceOutput wait
                 * @property {number|null} [maxBytes] ServiceOutput maxBytes
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a ServiceOutput.
                 * @memberof sandboxd.agent.v1
                 * @interface IServiceOutput
                 * @augments sandboxd.agent.v1.ServiceOutput.$Properties
                 * @deprecated Use sandboxd.agent.v1.ServiceOutput.$Properties instead.
                 */

                /**
                 * Shape of a ServiceOutput.
                 * @typedef {sandboxd.agent.v1.ServiceOutput.$Properties} sandboxd.agent.v1.ServiceOutput.$Shape
                 */

                /**
                 * Constructs a new ServiceOutput.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a ServiceOutput.
                 * @constructor
                 * @param {sandboxd.agent.v1.ServiceOutput.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const ServiceOutput = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * ServiceOutput ring.
                 * @member {string} ring
                 * @memberof sandboxd.agent.v1.ServiceOutput
                 * @instance
                 */
                ServiceOutput.prototype.ring = "";

                /**
                 * ServiceOutput fromSeq.
                 * @member {number} fromSeq
                 * @memberof sandboxd.agent.v1.ServiceOutput
                 * @instance
                 */
                ServiceOutput.prototype.fromSeq = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * ServiceOutput follow.
                 * @member {boolean} follow
                 * @memberof sandboxd.agent.v1.ServiceOutput
                 * @instance
                 */
                ServiceOutput.prototype.follow = false;

                /**
                 * ServiceOutput wait.
                 * @member {boolean} wait
                 * @memberof sandboxd.agent.v1.ServiceOutput
                 * @instance
                 */
                ServiceOutput.prototype.wait = false;

                /**
                 * ServiceOutput maxBytes.
                 * @member {number} maxBytes
                 * @memberof sandboxd.agent.v1.ServiceOutput
                 * @instance
                 */
                ServiceOutput.prototype.maxBytes = 0;

                /**
                 * Creates a new ServiceOutput instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.ServiceOutput
                 * @static
                 * @param {sandboxd.agent.v1.ServiceOutput.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.ServiceOutput} ServiceOutput instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.ServiceOutput.$Shape): sandboxd.agent.v1.ServiceOutput & sandboxd.agent.v1.ServiceOutput.$Shape;
                 *   (properties?: sandboxd.agent.v1.ServiceOutput.$Properties): sandboxd.agent.v1.ServiceOutput;
                 * }}
                 */
                ServiceOutput.create = function(properties) {
                    return new ServiceOutput(properties);
                };

                /**
                 * Encodes the specified ServiceOutput message. Does not implicitly {@link sandboxd.agent.v1.ServiceOutput.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.ServiceOutput
                 * @static
                 * @param {sandboxd.agent.v1.ServiceOutput.$Properties} message ServiceOutput message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                ServiceOutput.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.ring != null && $Object.hasOwnProperty.call(message, "ring") && message.ring !== "")
                        writer.uint32(/* id 1, wireType 2 =*/10).string(message.ring);
                    if (message.fromSeq != null && $Object.hasOwnProperty.call(message, "fromSeq") && (typeof message.fromSeq === "object" ? message.fromSeq.low || message.fromSeq.high : message.fromSeq !== 0))
                        writer.uint32(/* id 2, wireType 0 =*/16).uint64(message.fromSeq);
                    if (message.follow != null && $Object.hasOwnProperty.call(message, "follow") && message.follow !== false)
                        writer.uint32(/* id 3, wireType 0 =*/24).bool(message.follow);
                    if (message.wait != null && $Object.hasOwnProperty.call(message, "wait") && message.wait !== false)
                        writer.uint32(/* id 4, wireType 0 =*/32).bool(message.wait);
                    if (message.maxBytes != null && $Object.hasOwnProperty.call(message, "maxBytes") && message.maxBytes !== 0)
                        writer.uint32(/* id 5, wireType 0 =*/40).uint32(message.maxBytes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a ServiceOutput message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.ServiceOutput
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ServiceOutput & sandboxd.agent.v1.ServiceOutput.$Shape} ServiceOutput
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                ServiceOutput.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.ServiceOutput();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.ring = value;
                                else
                                    delete message.ring;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.fromSeq = value;
                                else
                                    delete message.fromSeq;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.follow = value;
                                else
                                    delete message.follow;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.wait = value;
                                else
                                    delete message.wait;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.maxBytes = value;
                                else
                                    delete message.maxBytes;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return ServiceOutput;
            })();

            v1.ServiceOutputResult = (function() {

                /**
                 * Properties of a ServiceOutputResult.
                 * @typedef {Object} sandboxd.agent.v1.ServiceOutputResult.$Properties
                 * @property {sandboxd.agent.v1.ServiceRing.$Properties|null} [ring] ServiceOutputResult ring
                 * @property {number|null} [nextSeq] ServiceOutputResult nextSeq
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a ServiceOutputResult.
                 * @memberof sandboxd.agent.v1
                 * @interface IServiceOutputResult
                 * @augments sandboxd.agent.v1.ServiceOutputResult.$Properties
                 * @deprecated Use sandboxd.agent.v1.ServiceOutputResult.$Properties instead.
                 */

                /**
                 * Shape of a ServiceOutputResult.
                 * @typedef {sandboxd.agent.v1.ServiceOutputResult.$Properties} sandboxd.agent.v1.ServiceOutputResult.$Shape
                 */

                /**
                 * Constructs a new ServiceOutputResult.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a ServiceOutputResult.
                 * @constructor
                 * @param {sandboxd.agent.v1.ServiceOutputResult.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const ServiceOutputResult = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * ServiceOutputResult ring.
                 * @member {sandboxd.agent.v1.ServiceRing.$Properties|null|undefined} ring
                 * @memberof sandboxd.agent.v1.ServiceOutputResult
                 * @instance
                 */
                ServiceOutputResult.prototype.ring = null;

                /**
                 * ServiceOutputResult nextSeq.
                 * @member {number} nextSeq
                 * @memberof sandboxd.agent.v1.ServiceOutputResult
                 * @instance
                 */
                ServiceOutputResult.prototype.nextSeq = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * Creates a new ServiceOutputResult instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.ServiceOutputResult
                 * @static
                 * @param {sandboxd.agent.v1.ServiceOutputResult.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.ServiceOutputResult} ServiceOutputResult instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.ServiceOutputResult.$Shape): sandboxd.agent.v1.ServiceOutputResult & sandboxd.agent.v1.ServiceOutputResult.$Shape;
                 *   (properties?: sandboxd.agent.v1.ServiceOutputResult.$Properties): sandboxd.agent.v1.ServiceOutputResult;
                 * }}
                 */
                ServiceOutputResult.create = function(properties) {
                    return new ServiceOutputResult(properties);
                };

                /**
                 * Encodes the specified ServiceOutputResult message. Does not implicitly {@link sandboxd.agent.v1.ServiceOutputResult.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.ServiceOutputResult
                 * @static
                 * @param {sandboxd.agent.v1.ServiceOutputResult.$Properties} message ServiceOutputResult message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                ServiceOutputResult.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.ring != null && $Object.hasOwnProperty.call(message, "ring"))
                        $root.sandboxd.agent.v1.ServiceRing.encode(message.ring, writer.uint32(/* id 1, wireType 2 =*/10).fork(), _depth + 1).ldelim();
                    if (message.nextSeq != null && $Object.hasOwnProperty.call(message, "nextSeq") && (typeof message.nextSeq === "object" ? message.nextSeq.low || message.nextSeq.high : message.nextSeq !== 0))
                        writer.uint32(/* id 2, wireType 0 =*/16).uint64(message.nextSeq);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a ServiceOutputResult message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.ServiceOutputResult
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.ServiceOutputResult & sandboxd.agent.v1.ServiceOutputResult.$Shape} ServiceOutputResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                ServiceOutputResult.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.ServiceOutputResult();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                message.ring = $root.sandboxd.agent.v1.ServiceRing.decode(reader, reader.size(), $undefined, _depth + 1, message.ring);
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.nextSeq = value;
                                else
                                    delete message.nextSeq;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return ServiceOutputResult;
            })();

            v1.FilePush = (function() {

                /**
                 * Properties of a FilePush.
                 * @typedef {Object} sandboxd.agent.v1.FilePush.$Properties
                 * @property {string|null} [path] FilePush path
                 * @property {string|null} [owner] FilePush owner
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FilePush.
                 * @memberof sandboxd.agent.v1
                 * @interface IFilePush
                 * @augments sandboxd.agent.v1.FilePush.$Properties
                 * @deprecated Use sandboxd.agent.v1.FilePush.$Properties instead.
                 */

                /**
                 * Shape of a FilePush.
                 * @typedef {sandboxd.agent.v1.FilePush.$Properties} sandboxd.agent.v1.FilePush.$Shape
                 */

                /**
                 * Constructs a new FilePush.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FilePush.
                 * @constructor
                 * @param {sandboxd.agent.v1.FilePush.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FilePush = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FilePush path.
                 * @member {string} path
                 * @memberof sandboxd.agent.v1.FilePush
                 * @instance
                 */
                FilePush.prototype.path = "";

                /**
                 * FilePush owner.
                 * @member {string} owner
                 * @memberof sandboxd.agent.v1.FilePush
                 * @instance
                 */
                FilePush.prototype.owner = "";

                /**
                 * Creates a new FilePush instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FilePush
                 * @static
                 * @param {sandboxd.agent.v1.FilePush.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FilePush} FilePush instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FilePush.$Shape): sandboxd.agent.v1.FilePush & sandboxd.agent.v1.FilePush.$Shape;
                 *   (properties?: sandboxd.agent.v1.FilePush.$Properties): sandboxd.agent.v1.FilePush;
                 * }}
                 */
                FilePush.create = function(properties) {
                    return new FilePush(properties);
                };

                /**
                 * Encodes the specified FilePush message. Does not implicitly {@link sandboxd.agent.v1.FilePush.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FilePush
                 * @static
                 * @param {sandboxd.agent.v1.FilePush.$Properties} message FilePush message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FilePush.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.path != null && $Object.hasOwnProperty.call(message, "path") && message.path !== "")
                        writer.uint32(/* id 1, wireType 2 =*/10).string(message.path);
                    if (message.owner != null && $Object.hasOwnProperty.call(message, "owner") && message.owner !== "")
                        writer.uint32(/* id 2, wireType 2 =*/18).string(message.owner);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FilePush message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FilePush
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FilePush & sandboxd.agent.v1.FilePush.$Shape} FilePush
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FilePush.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FilePush();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.path = value;
                                else
                                    delete message.path;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.owner = value;
                                else
                                    delete message.owner;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FilePush;
            })();

            v1.FilePushResult = (function() {

                /**
                 * Properties of a FilePushResult.
                 * @typedef {Object} sandboxd.agent.v1.FilePushResult.$Properties
                 * @property {number|null} [files] FilePushResult files
                 * @property {number|null} [bytes] FilePushResult bytes
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FilePushResult.
                 * @memberof sandboxd.agent.v1
                 * @interface IFilePushResult
                 * @augments sandboxd.agent.v1.FilePushResult.$Properties
                 * @deprecated Use sandboxd.agent.v1.FilePushResult.$Properties instead.
                 */

                /**
                 * Shape of a FilePushResult.
                 * @typedef {sandboxd.agent.v1.FilePushResult.$Properties} sandboxd.agent.v1.FilePushResult.$Shape
                 */

                /**
                 * Constructs a new FilePushResult.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FilePushResult.
                 * @constructor
                 * @param {sandboxd.agent.v1.FilePushResult.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FilePushResult = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FilePushResult files.
                 * @member {number} files
                 * @memberof sandboxd.agent.v1.FilePushResult
                 * @instance
                 */
                FilePushResult.prototype.files = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * FilePushResult bytes.
                 * @member {number} bytes
                 * @memberof sandboxd.agent.v1.FilePushResult
                 * @instance
                 */
                FilePushResult.prototype.bytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * Creates a new FilePushResult instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FilePushResult
                 * @static
                 * @param {sandboxd.agent.v1.FilePushResult.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FilePushResult} FilePushResult instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FilePushResult.$Shape): sandboxd.agent.v1.FilePushResult & sandboxd.agent.v1.FilePushResult.$Shape;
                 *   (properties?: sandboxd.agent.v1.FilePushResult.$Properties): sandboxd.agent.v1.FilePushResult;
                 * }}
                 */
                FilePushResult.create = function(properties) {
                    return new FilePushResult(properties);
                };

                /**
                 * Encodes the specified FilePushResult message. Does not implicitly {@link sandboxd.agent.v1.FilePushResult.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FilePushResult
                 * @static
                 * @param {sandboxd.agent.v1.FilePushResult.$Properties} message FilePushResult message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FilePushResult.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.files != null && $Object.hasOwnProperty.call(message, "files") && (typeof message.files === "object" ? message.files.low || message.files.high : message.files !== 0))
                        writer.uint32(/* id 1, wireType 0 =*/8).uint64(message.files);
                    if (message.bytes != null && $Object.hasOwnProperty.call(message, "bytes") && (typeof message.bytes === "object" ? message.bytes.low || message.bytes.high : message.bytes !== 0))
                        writer.uint32(/* id 2, wireType 0 =*/16).uint64(message.bytes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FilePushResult message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FilePushResult
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FilePushResult & sandboxd.agent.v1.FilePushResult.$Shape} FilePushResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FilePushResult.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FilePushResult();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.files = value;
                                else
                                    delete message.files;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.bytes = value;
                                else
                                    delete message.bytes;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FilePushResult;
            })();

            v1.FilePull = (function() {

                /**
                 * Properties of a FilePull.
                 * @typedef {Object} sandboxd.agent.v1.FilePull.$Properties
                 * @property {string|null} [path] FilePull path
                 * @property {number|null} [maxBytes] FilePull maxBytes
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FilePull.
                 * @memberof sandboxd.agent.v1
                 * @interface IFilePull
                 * @augments sandboxd.agent.v1.FilePull.$Properties
                 * @deprecated Use sandboxd.agent.v1.FilePull.$Properties instead.
                 */

                /**
                 * Shape of a FilePull.
                 * @typedef {sandboxd.agent.v1.FilePull.$Properties} sandboxd.agent.v1.FilePull.$Shape
                 */

                /**
                 * Constructs a new FilePull.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FilePull.
                 * @constructor
                 * @param {sandboxd.agent.v1.FilePull.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FilePull = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FilePull path.
                 * @member {string} path
                 * @memberof sandboxd.agent.v1.FilePull
                 * @instance
                 */
                FilePull.prototype.path = "";

                /**
                 * FilePull maxBytes.
                 * @member {number} maxBytes
                 * @memberof sandboxd.agent.v1.FilePull
                 * @instance
                 */
                FilePull.prototype.maxBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * Creates a new FilePull instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FilePull
                 * @static
                 * @param {sandboxd.agent.v1.FilePull.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FilePull} FilePull instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FilePull.$Shape): sandboxd.agent.v1.FilePull & sandboxd.agent.v1.FilePull.$Shape;
                 *   (properties?: sandboxd.agent.v1.FilePull.$Properties): sandboxd.agent.v1.FilePull;
                 * }}
                 */
                FilePull.create = function(properties) {
                    return new FilePull(properties);
                };

                /**
                 * Encodes the specified FilePull message. Does not implicitly {@link sandboxd.agent.v1.FilePull.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FilePull
                 * @static
                 * @param {sandboxd.agent.v1.FilePull.$Properties} message FilePull message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FilePull.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.path != null && $Object.hasOwnProperty.call(message, "path") && message.path !== "")
                        writer.uint32(/* id 1, wireType 2 =*/10).string(message.path);
                    if (message.maxBytes != null && $Object.hasOwnProperty.call(message, "maxBytes") && (typeof message.maxBytes === "object" ? message.maxBytes.low || message.maxBytes.high : message.maxBytes !== 0))
                        writer.uint32(/* id 2, wireType 0 =*/16).uint64(message.maxBytes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FilePull message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FilePull
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FilePull & sandboxd.agent.v1.FilePull.$Shape} FilePull
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FilePull.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FilePull();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.path = value;
                                else
                                    delete message.path;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.maxBytes = value;
                                else
                                    delete message.maxBytes;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FilePull;
            })();

            v1.FilePullResult = (function() {

                /**
                 * Properties of a FilePullResult.
                 * @typedef {Object} sandboxd.agent.v1.FilePullResult.$Properties
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FilePullResult.
                 * @memberof sandboxd.agent.v1
                 * @interface IFilePullResult
                 * @augments sandboxd.agent.v1.FilePullResult.$Properties
                 * @deprecated Use sandboxd.agent.v1.FilePullResult.$Properties instead.
                 */

                /**
                 * Shape of a FilePullResult.
                 * @typedef {sandboxd.agent.v1.FilePullResult.$Properties} sandboxd.agent.v1.FilePullResult.$Shape
                 */

                /**
                 * Constructs a new FilePullResult.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FilePullResult.
                 * @constructor
                 * @param {sandboxd.agent.v1.FilePullResult.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FilePullResult = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Creates a new FilePullResult instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FilePullResult
                 * @static
                 * @param {sandboxd.agent.v1.FilePullResult.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FilePullResult} FilePullResult instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FilePullResult.$Shape): sandboxd.agent.v1.FilePullResult & sandboxd.agent.v1.FilePullResult.$Shape;
                 *   (properties?: sandboxd.agent.v1.FilePullResult.$Properties): sandboxd.agent.v1.FilePullResult;
                 * }}
                 */
                FilePullResult.create = function(properties) {
                    return new FilePullResult(properties);
                };

                /**
                 * Encodes the specified FilePullResult message. Does not implicitly {@link sandboxd.agent.v1.FilePullResult.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FilePullResult
                 * @static
                 * @param {sandboxd.agent.v1.FilePullResult.$Properties} message FilePullResult message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FilePullResult.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FilePullResult message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FilePullResult
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FilePullResult & sandboxd.agent.v1.FilePullResult.$Shape} FilePullResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FilePullResult.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FilePullResult();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        reader.skipType(tag & 7, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FilePullResult;
            })();

            v1.FileInfo = (function() {

                /**
                 * Properties of a FileInfo.
                 * @typedef {Object} sandboxd.agent.v1.FileInfo.$Properties
                 * @property {boolean|null} [isSizeKnown] FileInfo isSizeKnown
                 * @property {number|null} [sizeBytes] FileInfo sizeBytes
                 * @property {number|null} [contentBytes] FileInfo contentBytes
                 * @property {number|null} [offsetBytes] FileInfo offsetBytes
                 * @property {sandboxd.agent.v1.FileEntry.$Properties|null} [entry] FileInfo entry
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FileInfo.
                 * @memberof sandboxd.agent.v1
                 * @interface IFileInfo
                 * @augments sandboxd.agent.v1.FileInfo.$Properties
                 * @deprecated Use sandboxd.agent.v1.FileInfo.$Properties instead.
                 */

                /**
                 * Shape of a FileInfo.
                 * @typedef {sandboxd.agent.v1.FileInfo.$Properties} sandboxd.agent.v1.FileInfo.$Shape
                 */

                /**
                 * Constructs a new FileInfo.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FileInfo.
                 * @constructor
                 * @param {sandboxd.agent.v1.FileInfo.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FileInfo = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FileInfo isSizeKnown.
                 * @member {boolean} isSizeKnown
                 * @memberof sandboxd.agent.v1.FileInfo
                 * @instance
                 */
                FileInfo.prototype.isSizeKnown = false;

                /**
                 * FileInfo sizeBytes.
                 * @member {number} sizeBytes
                 * @memberof sandboxd.agent.v1.FileInfo
                 * @instance
                 */
                FileInfo.prototype.sizeBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * FileInfo contentBytes.
                 * @member {number} contentBytes
                 * @memberof sandboxd.agent.v1.FileInfo
                 * @instance
                 */
                FileInfo.prototype.contentBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * FileInfo offsetBytes.
                 * @member {number} offsetBytes
                 * @memberof sandboxd.agent.v1.FileInfo
                 * @instance
                 */
                FileInfo.prototype.offsetBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * FileInfo entry.
                 * @member {sandboxd.agent.v1.FileEntry.$Properties|null|undefined} entry
                 * @memberof sandboxd.agent.v1.FileInfo
                 * @instance
                 */
                FileInfo.prototype.entry = null;

                /**
                 * Creates a new FileInfo instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FileInfo
                 * @static
                 * @param {sandboxd.agent.v1.FileInfo.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FileInfo} FileInfo instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FileInfo.$Shape): sandboxd.agent.v1.FileInfo & sandboxd.agent.v1.FileInfo.$Shape;
                 *   (properties?: sandboxd.agent.v1.FileInfo.$Properties): sandboxd.agent.v1.FileInfo;
                 * }}
                 */
                FileInfo.create = function(properties) {
                    return new FileInfo(properties);
                };

                /**
                 * Encodes the specified FileInfo message. Does not implicitly {@link sandboxd.agent.v1.FileInfo.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FileInfo
                 * @static
                 * @param {sandboxd.agent.v1.FileInfo.$Properties} message FileInfo message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FileInfo.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.isSizeKnown != null && $Object.hasOwnProperty.call(message, "isSizeKnown") && message.isSizeKnown !== false)
                        writer.uint32(/* id 1, wireType 0 =*/8).bool(message.isSizeKnown);
                    if (message.sizeBytes != null && $Object.hasOwnProperty.call(message, "sizeBytes") && (typeof message.sizeBytes === "object" ? message.sizeBytes.low || message.sizeBytes.high : message.sizeBytes !== 0))
                        writer.uint32(/* id 2, wireType 0 =*/16).uint64(message.sizeBytes);
                    if (message.contentBytes != null && $Object.hasOwnProperty.call(message, "contentBytes") && (typeof message.contentBytes === "object" ? message.contentBytes.low || message.contentBytes.high : message.contentBytes !== 0))
                        writer.uint32(/* id 3, wireType 0 =*/24).uint64(message.contentBytes);
                    if (message.offsetBytes != null && $Object.hasOwnProperty.call(message, "offsetBytes") && (typeof message.offsetBytes === "object" ? message.offsetBytes.low || message.offsetBytes.high : message.offsetBytes !== 0))
                        writer.uint32(/* id 4, wireType 0 =*/32).uint64(message.offsetBytes);
                    if (message.entry != null && $Object.hasOwnProperty.call(message, "entry"))
                        $root.sandboxd.agent.v1.FileEntry.encode(message.entry, writer.uint32(/* id 5, wireType 2 =*/42).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FileInfo message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FileInfo
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileInfo & sandboxd.agent.v1.FileInfo.$Shape} FileInfo
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FileInfo.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FileInfo();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.isSizeKnown = value;
                                else
                                    delete message.isSizeKnown;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.sizeBytes = value;
                                else
                                    delete message.sizeBytes;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.contentBytes = value;
                                else
                                    delete message.contentBytes;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.offsetBytes = value;
                                else
                                    delete message.offsetBytes;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 2)
                                    break;
                                message.entry = $root.sandboxd.agent.v1.FileEntry.decode(reader, reader.size(), $undefined, _depth + 1, message.entry);
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FileInfo;
            })();

            v1.DirPull = (function() {

                /**
                 * Properties of a DirPull.
                 * @typedef {Object} sandboxd.agent.v1.DirPull.$Properties
                 * @property {string|null} [path] DirPull path
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a DirPull.
                 * @memberof sandboxd.agent.v1
                 * @interface IDirPull
                 * @augments sandboxd.agent.v1.DirPull.$Properties
                 * @deprecated Use sandboxd.agent.v1.DirPull.$Properties instead.
                 */

                /**
                 * Shape of a DirPull.
                 * @typedef {sandboxd.agent.v1.DirPull.$Properties} sandboxd.agent.v1.DirPull.$Shape
                 */

                /**
                 * Constructs a new DirPull.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a DirPull.
                 * @constructor
                 * @param {sandboxd.agent.v1.DirPull.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const DirPull = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * DirPull path.
                 * @member {string} path
                 * @memberof sandboxd.agent.v1.DirPull
                 * @instance
                 */
                DirPull.prototype.path = "";

                /**
                 * Creates a new DirPull instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.DirPull
                 * @static
                 * @param {sandboxd.agent.v1.DirPull.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.DirPull} DirPull instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.DirPull.$Shape): sandboxd.agent.v1.DirPull & sandboxd.agent.v1.DirPull.$Shape;
                 *   (properties?: sandboxd.agent.v1.DirPull.$Properties): sandboxd.agent.v1.DirPull;
                 * }}
                 */
                DirPull.create = function(properties) {
                    return new DirPull(properties);
                };

                /**
                 * Encodes the specified DirPull message. Does not implicitly {@link sandboxd.agent.v1.DirPull.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.DirPull
                 * @static
                 * @param {sandboxd.agent.v1.DirPull.$Properties} message DirPull message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                DirPull.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.path != null && $Object.hasOwnProperty.call(message, "path") && message.path !== "")
                        writer.uint32(/* id 1, wireType 2 =*/10).string(message.path);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a DirPull message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.DirPull
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.DirPull & sandboxd.agent.v1.DirPull.$Shape} DirPull
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                DirPull.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.DirPull();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.path = value;
                                else
                                    delete message.path;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return DirPull;
            })();

            v1.DirPullResult = (function() {

                /**
                 * Properties of a DirPullResult.
                 * @typedef {Object} sandboxd.agent.v1.DirPullResult.$Properties
                 * @property {number|null} [leftOut] DirPullResult leftOut
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a DirPullResult.
                 * @memberof sandboxd.agent.v1
                 * @interface IDirPullResult
                 * @augments sandboxd.agent.v1.DirPullResult.$Properties
                 * @deprecated Use sandboxd.agent.v1.DirPullResult.$Properties instead.
                 */

                /**
                 * Shape of a DirPullResult.
                 * @typedef {sandboxd.agent.v1.DirPullResult.$Properties} sandboxd.agent.v1.DirPullResult.$Shape
                 */

                /**
                 * Constructs a new DirPullResult.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a DirPullResult.
                 * @constructor
                 * @param {sandboxd.agent.v1.DirPullResult.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const DirPullResult = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * DirPullResult leftOut.
                 * @member {number} leftOut
                 * @memberof sandboxd.agent.v1.DirPullResult
                 * @instance
                 */
                DirPullResult.prototype.leftOut = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * Creates a new DirPullResult instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.DirPullResult
                 * @static
                 * @param {sandboxd.agent.v1.DirPullResult.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.DirPullResult} DirPullResult instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.DirPullResult.$Shape): sandboxd.agent.v1.DirPullResult & sandboxd.agent.v1.DirPullResult.$Shape;
                 *   (properties?: sandboxd.agent.v1.DirPullResult.$Properties): sandboxd.agent.v1.DirPullResult;
                 * }}
                 */
                DirPullResult.create = function(properties) {
                    return new DirPullResult(properties);
                };

                /**
                 * Encodes the specified DirPullResult message. Does not implicitly {@link sandboxd.agent.v1.DirPullResult.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.DirPullResult
                 * @static
                 * @param {sandboxd.agent.v1.DirPullResult.$Properties} message DirPullResult message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                DirPullResult.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.leftOut != null && $Object.hasOwnProperty.call(message, "leftOut") && (typeof message.leftOut === "object" ? message.leftOut.low || message.leftOut.high : message.leftOut !== 0))
                        writer.uint32(/* id 1, wireType 0 =*/8).uint64(message.leftOut);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a DirPullResult message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.DirPullResult
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.DirPullResult & sandboxd.agent.v1.DirPullResult.$Shape} DirPullResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                DirPullResult.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.DirPullResult();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.leftOut = value;
                                else
                                    delete message.leftOut;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return DirPullResult;
            })();

            v1.FilePlace = (function() {

                /**
                 * Properties of a FilePlace.
                 * @typedef {Object} sandboxd.agent.v1.FilePlace.$Properties
                 * @property {Uint8Array|null} [path] FilePlace path
                 * @property {Uint8Array|null} [root] FilePlace root
                 * @property {string|null} [user] FilePlace user
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FilePlace.
                 * @memberof sandboxd.agent.v1
                 * @interface IFilePlace
                 * @augments sandboxd.agent.v1.FilePlace.$Properties
                 * @deprecated Use sandboxd.agent.v1.FilePlace.$Properties instead.
                 */

                /**
                 * Shape of a FilePlace.
                 * @typedef {sandboxd.agent.v1.FilePlace.$Properties} sandboxd.agent.v1.FilePlace.$Shape
                 */

                /**
                 * Constructs a new FilePlace.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FilePlace.
                 * @constructor
                 * @param {sandboxd.agent.v1.FilePlace.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FilePlace = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FilePlace path.
                 * @member {Uint8Array} path
                 * @memberof sandboxd.agent.v1.FilePlace
                 * @instance
                 */
                FilePlace.prototype.path = $util.newBuffer([]);

                /**
                 * FilePlace root.
                 * @member {Uint8Array} root
                 * @memberof sandboxd.agent.v1.FilePlace
                 * @instance
                 */
                FilePlace.prototype.root = $util.newBuffer([]);

                /**
                 * FilePlace user.
                 * @member {string} user
                 * @memberof sandboxd.agent.v1.FilePlace
                 * @instance
                 */
                FilePlace.prototype.user = "";

                /**
                 * Creates a new FilePlace instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FilePlace
                 * @static
                 * @param {sandboxd.agent.v1.FilePlace.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FilePlace} FilePlace instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FilePlace.$Shape): sandboxd.agent.v1.FilePlace & sandboxd.agent.v1.FilePlace.$Shape;
                 *   (properties?: sandboxd.agent.v1.FilePlace.$Properties): sandboxd.agent.v1.FilePlace;
                 * }}
                 */
                FilePlace.create = function(properties) {
                    return new FilePlace(properties);
                };

                /**
                 * Encodes the specified FilePlace message. Does not implicitly {@link sandboxd.agent.v1.FilePlace.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FilePlace
                 * @static
                 * @param {sandboxd.agent.v1.FilePlace.$Properties} message FilePlace message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FilePlace.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.path != null && $Object.hasOwnProperty.call(message, "path") && message.path.length)
                        writer.uint32(/* id 1, wireType 2 =*/10).bytes(message.path);
                    if (message.root != null && $Object.hasOwnProperty.call(message, "root") && message.root.length)
                        writer.uint32(/* id 2, wireType 2 =*/18).bytes(message.root);
                    if (message.user != null && $Object.hasOwnProperty.call(message, "user") && message.user !== "")
                        writer.uint32(/* id 3, wireType 2 =*/26).string(message.user);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FilePlace message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FilePlace
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FilePlace & sandboxd.agent.v1.FilePlace.$Shape} FilePlace
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FilePlace.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FilePlace();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.path = value;
                                else
                                    delete message.path;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.root = value;
                                else
                                    delete message.root;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.user = value;
                                else
                                    delete message.user;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FilePlace;
            })();

            v1.FileEntry = (function() {

                /**
                 * Properties of a FileEntry.
                 * @typedef {Object} sandboxd.agent.v1.FileEntry.$Properties
                 * @property {Uint8Array|null} [path] FileEntry path
                 * @property {number|null} [mode] FileEntry mode
                 * @property {number|null} [sizeBytes] FileEntry sizeBytes
                 * @property {number|null} [mtimeUs] FileEntry mtimeUs
                 * @property {number|null} [uid] FileEntry uid
                 * @property {number|null} [gid] FileEntry gid
                 * @property {string|null} [user] FileEntry user
                 * @property {string|null} [group] FileEntry group
                 * @property {Uint8Array|null} [target] FileEntry target
                 * @property {number|null} [links] FileEntry links
                 * @property {string|null} [version] FileEntry version
                 * @property {Uint8Array|null} [attributes] FileEntry attributes
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FileEntry.
                 * @memberof sandboxd.agent.v1
                 * @interface IFileEntry
                 * @augments sandboxd.agent.v1.FileEntry.$Properties
                 * @deprecated Use sandboxd.agent.v1.FileEntry.$Properties instead.
                 */

                /**
                 * Shape of a FileEntry.
                 * @typedef {sandboxd.agent.v1.FileEntry.$Properties} sandboxd.agent.v1.FileEntry.$Shape
                 */

                /**
                 * Constructs a new FileEntry.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FileEntry.
                 * @constructor
                 * @param {sandboxd.agent.v1.FileEntry.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FileEntry = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FileEntry path.
                 * @member {Uint8Array} path
                 * @memberof sandboxd.agent.v1.FileEntry
                 * @instance
                 */
                FileEntry.prototype.path = $util.newBuffer([]);

                /**
                 * FileEntry mode.
                 * @member {number} mode
                 * @memberof sandboxd.agent.v1.FileEntry
                 * @instance
                 */
                FileEntry.prototype.mode = 0;

                /**
                 * FileEntry sizeBytes.
                 * @member {number} sizeBytes
                 * @memberof sandboxd.agent.v1.FileEntry
                 * @instance
                 */
                FileEntry.prototype.sizeBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * FileEntry mtimeUs.
                 * @member {number} mtimeUs
                 * @memberof sandboxd.agent.v1.FileEntry
                 * @instance
                 */
                FileEntry.prototype.mtimeUs = $util.Long ? $util.Long.fromBits(0,0,false) : 0;

                /**
                 * FileEntry uid.
                 * @member {number} uid
                 * @memberof sandboxd.agent.v1.FileEntry
                 * @instance
                 */
                FileEntry.prototype.uid = 0;

                /**
                 * FileEntry gid.
                 * @member {number} gid
                 * @memberof sandboxd.agent.v1.FileEntry
                 * @instance
                 */
                FileEntry.prototype.gid = 0;

                /**
                 * FileEntry user.
                 * @member {string} user
                 * @memberof sandboxd.agent.v1.FileEntry
                 * @instance
                 */
                FileEntry.prototype.user = "";

                /**
                 * FileEntry group.
                 * @member {string} group
                 * @memberof sandboxd.agent.v1.FileEntry
                 * @instance
                 */
                FileEntry.prototype.group = "";

                /**
                 * FileEntry target.
                 * @member {Uint8Array} target
                 * @memberof sandboxd.agent.v1.FileEntry
                 * @instance
                 */
                FileEntry.prototype.target = $util.newBuffer([]);

                /**
                 * FileEntry links.
                 * @member {number} links
                 * @memberof sandboxd.agent.v1.FileEntry
                 * @instance
                 */
                FileEntry.prototype.links = 0;

                /**
                 * FileEntry version.
                 * @member {string} version
                 * @memberof sandboxd.agent.v1.FileEntry
                 * @instance
                 */
                FileEntry.prototype.version = "";

                /**
                 * FileEntry attributes.
                 * @member {Uint8Array} attributes
                 * @memberof sandboxd.agent.v1.FileEntry
                 * @instance
                 */
                FileEntry.prototype.attributes = $util.newBuffer([]);

                /**
                 * Creates a new FileEntry instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FileEntry
                 * @static
                 * @param {sandboxd.agent.v1.FileEntry.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FileEntry} FileEntry instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FileEntry.$Shape): sandboxd.agent.v1.FileEntry & sandboxd.agent.v1.FileEntry.$Shape;
                 *   (properties?: sandboxd.agent.v1.FileEntry.$Properties): sandboxd.agent.v1.FileEntry;
                 * }}
                 */
                FileEntry.create = function(properties) {
                    return new FileEntry(properties);
                };

                /**
                 * Encodes the specified FileEntry message. Does not implicitly {@link sandboxd.agent.v1.FileEntry.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FileEntry
                 * @static
                 * @param {sandboxd.agent.v1.FileEntry.$Properties} message FileEntry message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FileEntry.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.path != null && $Object.hasOwnProperty.call(message, "path") && message.path.length)
                        writer.uint32(/* id 1, wireType 2 =*/10).bytes(message.path);
                    if (message.mode != null && $Object.hasOwnProperty.call(message, "mode") && message.mode !== 0)
                        writer.uint32(/* id 2, wireType 0 =*/16).uint32(message.mode);
                    if (message.sizeBytes != null && $Object.hasOwnProperty.call(message, "sizeBytes") && (typeof message.sizeBytes === "object" ? message.sizeBytes.low || message.sizeBytes.high : message.sizeBytes !== 0))
                        writer.uint32(/* id 3, wireType 0 =*/24).uint64(message.sizeBytes);
                    if (message.mtimeUs != null && $Object.hasOwnProperty.call(message, "mtimeUs") && (typeof message.mtimeUs === "object" ? message.mtimeUs.low || message.mtimeUs.high : message.mtimeUs !== 0))
                        writer.uint32(/* id 4, wireType 0 =*/32).sint64(message.mtimeUs);
                    if (message.uid != null && $Object.hasOwnProperty.call(message, "uid") && message.uid !== 0)
                        writer.uint32(/* id 5, wireType 0 =*/40).uint32(message.uid);
                    if (message.gid != null && $Object.hasOwnProperty.call(message, "gid") && message.gid !== 0)
                        writer.uint32(/* id 6, wireType 0 =*/48).uint32(message.gid);
                    if (message.user != null && $Object.hasOwnProperty.call(message, "user") && message.user !== "")
                        writer.uint32(/* id 7, wireType 2 =*/58).string(message.user);
                    if (message.group != null && $Object.hasOwnProperty.call(message, "group") && message.group !== "")
                        writer.uint32(/* id 8, wireType 2 =*/66).string(message.group);
                    if (message.target != null && $Object.hasOwnProperty.call(message, "target") && message.target.length)
                        writer.uint32(/* id 9, wireType 2 =*/74).bytes(message.target);
                    if (message.links != null && $Object.hasOwnProperty.call(message, "links") && message.links !== 0)
                        writer.uint32(/* id 10, wireType 0 =*/80).uint32(message.links);
                    if (message.version != null && $Object.hasOwnProperty.call(message, "version") && message.version !== "")
                        writer.uint32(/* id 11, wireType 2 =*/90).string(message.version);
                    if (message.attributes != null && $Object.hasOwnProperty.call(message, "attributes") && message.attributes.length)
                        writer.uint32(/* id 12, wireType 2 =*/98).bytes(message.attributes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FileEntry message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FileEntry
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileEntry & sandboxd.agent.v1.FileEntry.$Shape} FileEntry
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FileEntry.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FileEntry();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.path = value;
                                else
                                    delete message.path;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.mode = value;
                                else
                                    delete message.mode;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.sizeBytes = value;
                                else
                                    delete message.sizeBytes;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.sint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.mtimeUs = value;
                                else
                                    delete message.mtimeUs;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.uid = value;
                                else
                                    delete message.uid;
                                continue;
                            }
                        case 6: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.gid = value;
                                else
                                    delete message.gid;
                                continue;
                            }
                        case 7: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.user = value;
                                else
                                    delete message.user;
                                continue;
                            }
                        case 8: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.group = value;
                                else
                                    delete message.group;
                                continue;
                            }
                        case 9: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.target = value;
                                else
                                    delete message.target;
                                continue;
                            }
                        case 10: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.links = value;
                                else
                                    delete message.links;
                                continue;
                            }
                        case 11: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.version = value;
                                else
                                    delete message.version;
                                continue;
                            }
                        case 12: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.attributes = value;
                                else
                                    delete message.attributes;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FileEntry;
            })();

            v1.FileAttribute = (function() {

                /**
                 * Properties of a FileAttribute.
                 * @typedef {Object} sandboxd.agent.v1.FileAttribute.$Properties
                 * @property {Uint8Array|null} [name] FileAttribute name
                 * @property {Uint8Array|null} [value] FileAttribute value
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FileAttribute.
                 * @memberof sandboxd.agent.v1
                 * @interface IFileAttribute
                 * @augments sandboxd.agent.v1.FileAttribute.$Properties
                 * @deprecated Use sandboxd.agent.v1.FileAttribute.$Properties instead.
                 */

                /**
                 * Shape of a FileAttribute.
                 * @typedef {sandboxd.agent.v1.FileAttribute.$Properties} sandboxd.agent.v1.FileAttribute.$Shape
                 */

                /**
                 * Constructs a new FileAttribute.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FileAttribute.
                 * @constructor
                 * @param {sandboxd.agent.v1.FileAttribute.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FileAttribute = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FileAttribute name.
                 * @member {Uint8Array} name
                 * @memberof sandboxd.agent.v1.FileAttribute
                 * @instance
                 */
                FileAttribute.prototype.name = $util.newBuffer([]);

                /**
                 * FileAttribute value.
                 * @member {Uint8Array|null|undefined} value
                 * @memberof sandboxd.agent.v1.FileAttribute
                 * @instance
                 */
                FileAttribute.prototype.value = null;

                // OneOf field names bound to virtual getters and setters
                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(FileAttribute.prototype, "_value", {
                    get: $util.oneOfGetter($oneOfFields = ["value"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                /**
                 * Creates a new FileAttribute instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FileAttribute
                 * @static
                 * @param {sandboxd.agent.v1.FileAttribute.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FileAttribute} FileAttribute instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FileAttribute.$Shape): sandboxd.agent.v1.FileAttribute & sandboxd.agent.v1.FileAttribute.$Shape;
                 *   (properties?: sandboxd.agent.v1.FileAttribute.$Properties): sandboxd.agent.v1.FileAttribute;
                 * }}
                 */
                FileAttribute.create = function(properties) {
                    return new FileAttribute(properties);
                };

                /**
                 * Encodes the specified FileAttribute message. Does not implicitly {@link sandboxd.agent.v1.FileAttribute.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FileAttribute
                 * @static
                 * @param {sandboxd.agent.v1.FileAttribute.$Properties} message FileAttribute message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FileAttribute.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.name != null && $Object.hasOwnProperty.call(message, "name") && message.name.length)
                        writer.uint32(/* id 1, wireType 2 =*/10).bytes(message.name);
                    if (message.value != null && $Object.hasOwnProperty.call(message, "value"))
                        writer.uint32(/* id 2, wireType 2 =*/18).bytes(message.value);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FileAttribute message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FileAttribute
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileAttribute & sandboxd.agent.v1.FileAttribute.$Shape} FileAttribute
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FileAttribute.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FileAttribute();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.name = value;
                                else
                                    delete message.name;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                message.value = reader.bytes();
                                message._value = "value";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FileAttribute;
            })();

            v1.FileCall = (function() {

                /**
                 * Properties of a FileCall.
                 * @typedef {Object} sandboxd.agent.v1.FileCall.$Properties
                 * @property {sandboxd.agent.v1.FilePlace.$Properties|null} [place] FileCall place
                 * @property {sandboxd.agent.v1.FileStat.$Properties|null} [stat] FileCall stat
                 * @property {sandboxd.agent.v1.FileList.$Properties|null} [list] FileCall list
                 * @property {sandboxd.agent.v1.MakeDirectory.$Properties|null} [makeDirectory] FileCall makeDirectory
                 * @property {sandboxd.agent.v1.FileMove.$Properties|null} [move] FileCall move
                 * @property {sandboxd.agent.v1.FileMove.$Properties|null} [copy] FileCall copy
                 * @property {sandboxd.agent.v1.FileRemove.$Properties|null} [remove] FileCall remove
                 * @property {sandboxd.agent.v1.FileChange.$Properties|null} [change] FileCall change
                 * @property {"stat"|"list"|"makeDirectory"|"move"|"copy"|"remove"|"change"} [operation] FileCall operation
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FileCall.
                 * @memberof sandboxd.agent.v1
                 * @interface IFileCall
                 * @augments sandboxd.agent.v1.FileCall.$Properties
                 * @deprecated Use sandboxd.agent.v1.FileCall.$Properties instead.
                 */

                /**
                 * Narrowed shape of a FileCall.
                 * @typedef {{
                 *   place?: sandboxd.agent.v1.FilePlace.$Shape|null;
                 *   stat?: sandboxd.agent.v1.FileStat.$Shape|null;
                 *   list?: sandboxd.agent.v1.FileList.$Shape|null;
                 *   makeDirectory?: sandboxd.agent.v1.MakeDirectory.$Shape|null;
                 *   move?: sandboxd.agent.v1.FileMove.$Shape|null;
                 *   copy?: sandboxd.agent.v1.FileMove.$Shape|null;
                 *   remove?: sandboxd.agent.v1.FileRemove.$Shape|null;
                 *   change?: sandboxd.agent.v1.FileChange.$Shape|null;
                 *   $unknowns?: Array.<Uint8Array>;
                 * } & (
                 *   ({ operation?: undefined; stat?: null; list?: null; makeDirectory?: null; move?: null; copy?: null; remove?: null; change?: null }|{ operation?: "stat"; stat: sandboxd.agent.v1.FileStat.$Shape; list?: null; makeDirectory?: null; move?: null; copy?: null; remove?: null; change?: null }|{ operation?: "list"; stat?: null; list: sandboxd.agent.v1.FileList.$Shape; makeDirectory?: null; move?: null; copy?: null; remove?: null; change?: null }|{ operation?: "makeDirectory"; stat?: null; list?: null; makeDirectory: sandboxd.agent.v1.MakeDirectory.$Shape; move?: null; copy?: null; remove?: null; change?: null }|{ operation?: "move"; stat?: null; list?: null; makeDirectory?: null; move: sandboxd.agent.v1.FileMove.$Shape; copy?: null; remove?: null; change?: null }|{ operation?: "copy"; stat?: null; list?: null; makeDirectory?: null; move?: null; copy: sandboxd.agent.v1.FileMove.$Shape; remove?: null; change?: null }|{ operation?: "remove"; stat?: null; list?: null; makeDirectory?: null; move?: null; copy?: null; remove: sandboxd.agent.v1.FileRemove.$Shape; change?: null }|{ operation?: "change"; stat?: null; list?: null; makeDirectory?: null; move?: null; copy?: null; remove?: null; change: sandboxd.agent.v1.FileChange.$Shape })
                 * )} sandboxd.agent.v1.FileCall.$Shape
                 */

                /**
                 * Constructs a new FileCall.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FileCall.
                 * @constructor
                 * @param {sandboxd.agent.v1.FileCall.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FileCall = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FileCall place.
                 * @member {sandboxd.agent.v1.FilePlace.$Properties|null|undefined} place
                 * @memberof sandboxd.agent.v1.FileCall
                 * @instance
                 */
                FileCall.prototype.place = null;

                /**
                 * FileCall stat.
                 * @member {sandboxd.agent.v1.FileStat.$Properties|null|undefined} stat
                 * @memberof sandboxd.agent.v1.FileCall
                 * @instance
                 */
                FileCall.prototype.stat = null;

                /**
                 * FileCall list.
                 * @member {sandboxd.agent.v1.FileList.$Properties|null|undefined} list
                 * @memberof sandboxd.agent.v1.FileCall
                 * @instance
                 */
                FileCall.prototype.list = null;

                /**
                 * FileCall makeDirectory.
                 * @member {sandboxd.agent.v1.MakeDirectory.$Properties|null|undefined} makeDirectory
                 * @memberof sandboxd.agent.v1.FileCall
                 * @instance
                 */
                FileCall.prototype.makeDirectory = null;

                /**
                 * FileCall move.
                 * @member {sandboxd.agent.v1.FileMove.$Properties|null|undefined} move
                 * @memberof sandboxd.agent.v1.FileCall
                 * @instance
                 */
                FileCall.prototype.move = null;

                /**
                 * FileCall copy.
                 * @member {sandboxd.agent.v1.FileMove.$Properties|null|undefined} copy
                 * @memberof sandboxd.agent.v1.FileCall
                 * @instance
                 */
                FileCall.prototype.copy = null;

                /**
                 * FileCall remove.
                 * @member {sandboxd.agent.v1.FileRemove.$Properties|null|undefined} remove
                 * @memberof sandboxd.agent.v1.FileCall
                 * @instance
                 */
                FileCall.prototype.remove = null;

                /**
                 * FileCall change.
                 * @member {sandboxd.agent.v1.FileChange.$Properties|null|undefined} change
                 * @memberof sandboxd.agent.v1.FileCall
                 * @instance
                 */
                FileCall.prototype.change = null;

                // OneOf field names bound to virtual getters and setters
                let $oneOfFields;

                /**
                 * FileCall operation.
                 * @member {"stat"|"list"|"makeDirectory"|"move"|"copy"|"remove"|"change"|undefined} operation
                 * @memberof sandboxd.agent.v1.FileCall
                 * @instance
                 */
                $Object.defineProperty(FileCall.prototype, "operation", {
                    get: $util.oneOfGetter($oneOfFields = ["stat", "list", "makeDirectory", "move", "copy", "remove", "change"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                /**
                 * Creates a new FileCall instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FileCall
                 * @static
                 * @param {sandboxd.agent.v1.FileCall.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FileCall} FileCall instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FileCall.$Shape): sandboxd.agent.v1.FileCall & sandboxd.agent.v1.FileCall.$Shape;
                 *   (properties?: sandboxd.agent.v1.FileCall.$Properties): sandboxd.agent.v1.FileCall;
                 * }}
                 */
                FileCall.create = function(properties) {
                    return new FileCall(properties);
                };

                /**
                 * Encodes the specified FileCall message. Does not implicitly {@link sandboxd.agent.v1.FileCall.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FileCall
                 * @static
                 * @param {sandboxd.agent.v1.FileCall.$Properties} message FileCall message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FileCall.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.place != null && $Object.hasOwnProperty.call(message, "place"))
                        $root.sandboxd.agent.v1.FilePlace.encode(message.place, writer.uint32(/* id 1, wireType 2 =*/10).fork(), _depth + 1).ldelim();
                    if (message.stat != null && $Object.hasOwnProperty.call(message, "stat"))
                        $root.sandboxd.agent.v1.FileStat.encode(message.stat, writer.uint32(/* id 2, wireType 2 =*/18).fork(), _depth + 1).ldelim();
                    if (message.list != null && $Object.hasOwnProperty.call(message, "list"))
                        $root.sandboxd.agent.v1.FileList.encode(message.list, writer.uint32(/* id 3, wireType 2 =*/26).fork(), _depth + 1).ldelim();
                    if (message.makeDirectory != null && $Object.hasOwnProperty.call(message, "makeDirectory"))
                        $root.sandboxd.agent.v1.MakeDirectory.encode(message.makeDirectory, writer.uint32(/* id 4, wireType 2 =*/34).fork(), _depth + 1).ldelim();
                    if (message.move != null && $Object.hasOwnProperty.call(message, "move"))
                        $root.sandboxd.agent.v1.FileMove.encode(message.move, writer.uint32(/* id 5, wireType 2 =*/42).fork(), _depth + 1).ldelim();
                    if (message.copy != null && $Object.hasOwnProperty.call(message, "copy"))
                        $root.sandboxd.agent.v1.FileMove.encode(message.copy, writer.uint32(/* id 6, wireType 2 =*/50).fork(), _depth + 1).ldelim();
                    if (message.remove != null && $Object.hasOwnProperty.call(message, "remove"))
                        $root.sandboxd.agent.v1.FileRemove.encode(message.remove, writer.uint32(/* id 7, wireType 2 =*/58).fork(), _depth + 1).ldelim();
                    if (message.change != null && $Object.hasOwnProperty.call(message, "change"))
                        $root.sandboxd.agent.v1.FileChange.encode(message.change, writer.uint32(/* id 8, wireType 2 =*/66).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FileCall message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FileCall
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileCall & sandboxd.agent.v1.FileCall.$Shape} FileCall
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FileCall.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FileCall();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                message.place = $root.sandboxd.agent.v1.FilePlace.decode(reader, reader.size(), $undefined, _depth + 1, message.place);
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                message.stat = $root.sandboxd.agent.v1.FileStat.decode(reader, reader.size(), $undefined, _depth + 1, message.stat);
                                message.operation = "stat";
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                message.list = $root.sandboxd.agent.v1.FileList.decode(reader, reader.size(), $undefined, _depth + 1, message.list);
                                message.operation = "list";
                                continue;
                            }
                        case 4: {
                                if (wireType !== 2)
                                    break;
                                message.makeDirectory = $root.sandboxd.agent.v1.MakeDirectory.decode(reader, reader.size(), $undefined, _depth + 1, message.makeDirectory);
                                message.operation = "makeDirectory";
                                continue;
                            }
                        case 5: {
                                if (wireType !== 2)
                                    break;
                                message.move = $root.sandboxd.agent.v1.FileMove.decode(reader, reader.size(), $undefined, _depth + 1, message.move);
                                message.operation = "move";
                                continue;
                            }
                        case 6: {
                                if (wireType !== 2)
                                    break;
                                message.copy = $root.sandboxd.agent.v1.FileMove.decode(reader, reader.size(), $undefined, _depth + 1, message.copy);
                                message.operation = "copy";
                                continue;
                            }
                        case 7: {
                                if (wireType !== 2)
                                    break;
                                message.remove = $root.sandboxd.agent.v1.FileRemove.decode(reader, reader.size(), $undefined, _depth + 1, message.remove);
                                message.operation = "remove";
                                continue;
                            }
                        case 8: {
                                if (wireType !== 2)
                                    break;
                                message.change = $root.sandboxd.agent.v1.FileChange.decode(reader, reader.size(), $undefined, _depth + 1, message.change);
                                message.operation = "change";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FileCall;
            })();

            v1.FileCallResult = (function() {

                /**
                 * Properties of a FileCallResult.
                 * @typedef {Object} sandboxd.agent.v1.FileCallResult.$Properties
                 * @property {sandboxd.agent.v1.FileEntry.$Properties|null} [entry] FileCallResult entry
                 * @property {Uint8Array|null} [entries] FileCallResult entries
                 * @property {boolean|null} [hasMore] FileCallResult hasMore
                 * @property {number|null} [count] FileCallResult count
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FileCallResult.
                 * @memberof sandboxd.agent.v1
                 * @interface IFileCallResult
                 * @augments sandboxd.agent.v1.FileCallResult.$Properties
                 * @deprecated Use sandboxd.agent.v1.FileCallResult.$Properties instead.
                 */

                /**
                 * Shape of a FileCallResult.
                 * @typedef {sandboxd.agent.v1.FileCallResult.$Properties} sandboxd.agent.v1.FileCallResult.$Shape
                 */

                /**
                 * Constructs a new FileCallResult.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FileCallResult.
                 * @constructor
                 * @param {sandboxd.agent.v1.FileCallResult.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FileCallResult = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FileCallResult entry.
                 * @member {sandboxd.agent.v1.FileEntry.$Properties|null|undefined} entry
                 * @memberof sandboxd.agent.v1.FileCallResult
                 * @instance
                 */
                FileCallResult.prototype.entry = null;

                /**
                 * FileCallResult entries.
                 * @member {Uint8Array} entries
                 * @memberof sandboxd.agent.v1.FileCallResult
                 * @instance
                 */
                FileCallResult.prototype.entries = $util.newBuffer([]);

                /**
                 * FileCallResult hasMore.
                 * @member {boolean} hasMore
                 * @memberof sandboxd.agent.v1.FileCallResult
                 * @instance
                 */
                FileCallResult.prototype.hasMore = false;

                /**
                 * FileCallResult count.
                 * @member {number} count
                 * @memberof sandboxd.agent.v1.FileCallResult
                 * @instance
                 */
                FileCallResult.prototype.count = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * Creates a new FileCallResult instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FileCallResult
                 * @static
                 * @param {sandboxd.agent.v1.FileCallResult.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FileCallResult} FileCallResult instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FileCallResult.$Shape): sandboxd.agent.v1.FileCallResult & sandboxd.agent.v1.FileCallResult.$Shape;
                 *   (properties?: sandboxd.agent.v1.FileCallResult.$Properties): sandboxd.agent.v1.FileCallResult;
                 * }}
                 */
                FileCallResult.create = function(properties) {
                    return new FileCallResult(properties);
                };

                /**
                 * Encodes the specified FileCallResult message. Does not implicitly {@link sandboxd.agent.v1.FileCallResult.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FileCallResult
                 * @static
                 * @param {sandboxd.agent.v1.FileCallResult.$Properties} message FileCallResult message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FileCallResult.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.entry != null && $Object.hasOwnProperty.call(message, "entry"))
                        $root.sandboxd.agent.v1.FileEntry.encode(message.entry, writer.uint32(/* id 1, wireType 2 =*/10).fork(), _depth + 1).ldelim();
                    if (message.entries != null && $Object.hasOwnProperty.call(message, "entries") && message.entries.length)
                        writer.uint32(/* id 2, wireType 2 =*/18).bytes(message.entries);
                    if (message.hasMore != null && $Object.hasOwnProperty.call(message, "hasMore") && message.hasMore !== false)
                        writer.uint32(/* id 3, wireType 0 =*/24).bool(message.hasMore);
                    if (message.count != null && $Object.hasOwnProperty.call(message, "count") && (typeof message.count === "object" ? message.count.low || message.count.high : message.count !== 0))
                        writer.uint32(/* id 4, wireType 0 =*/32).uint64(message.count);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FileCallResult message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FileCallResult
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileCallResult & sandboxd.agent.v1.FileCallResult.$Shape} FileCallResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FileCallResult.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FileCallResult();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                message.entry = $root.sandboxd.agent.v1.FileEntry.decode(reader, reader.size(), $undefined, _depth + 1, message.entry);
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.entries = value;
                                else
                                    delete message.entries;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.hasMore = value;
                                else
                                    delete message.hasMore;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.count = value;
                                else
                                    delete message.count;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FileCallResult;
            })();

            v1.FileStat = (function() {

                /**
                 * Properties of a FileStat.
                 * @typedef {Object} sandboxd.agent.v1.FileStat.$Properties
                 * @property {boolean|null} [isLink] FileStat isLink
                 * @property {boolean|null} [attributes] FileStat attributes
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FileStat.
                 * @memberof sandboxd.agent.v1
                 * @interface IFileStat
                 * @augments sandboxd.agent.v1.FileStat.$Properties
                 * @deprecated Use sandboxd.agent.v1.FileStat.$Properties instead.
                 */

                /**
                 * Shape of a FileStat.
                 * @typedef {sandboxd.agent.v1.FileStat.$Properties} sandboxd.agent.v1.FileStat.$Shape
                 */

                /**
                 * Constructs a new FileStat.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FileStat.
                 * @constructor
                 * @param {sandboxd.agent.v1.FileStat.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FileStat = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FileStat isLink.
                 * @member {boolean} isLink
                 * @memberof sandboxd.agent.v1.FileStat
                 * @instance
                 */
                FileStat.prototype.isLink = false;

                /**
                 * FileStat attributes.
                 * @member {boolean} attributes
                 * @memberof sandboxd.agent.v1.FileStat
                 * @instance
                 */
                FileStat.prototype.attributes = false;

                /**
                 * Creates a new FileStat instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FileStat
                 * @static
                 * @param {sandboxd.agent.v1.FileStat.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FileStat} FileStat instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FileStat.$Shape): sandboxd.agent.v1.FileStat & sandboxd.agent.v1.FileStat.$Shape;
                 *   (properties?: sandboxd.agent.v1.FileStat.$Properties): sandboxd.agent.v1.FileStat;
                 * }}
                 */
                FileStat.create = function(properties) {
                    return new FileStat(properties);
                };

                /**
                 * Encodes the specified FileStat message. Does not implicitly {@link sandboxd.agent.v1.FileStat.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FileStat
                 * @static
                 * @param {sandboxd.agent.v1.FileStat.$Properties} message FileStat message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FileStat.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.isLink != null && $Object.hasOwnProperty.call(message, "isLink") && message.isLink !== false)
                        writer.uint32(/* id 1, wireType 0 =*/8).bool(message.isLink);
                    if (message.attributes != null && $Object.hasOwnProperty.call(message, "attributes") && message.attributes !== false)
                        writer.uint32(/* id 2, wireType 0 =*/16).bool(message.attributes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FileStat message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FileStat
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileStat & sandboxd.agent.v1.FileStat.$Shape} FileStat
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FileStat.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FileStat();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.isLink = value;
                                else
                                    delete message.isLink;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.attributes = value;
                                else
                                    delete message.attributes;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FileStat;
            })();

            v1.FileList = (function() {

                /**
                 * Properties of a FileList.
                 * @typedef {Object} sandboxd.agent.v1.FileList.$Properties
                 * @property {number|null} [depth] FileList depth
                 * @property {number|null} [maxEntries] FileList maxEntries
                 * @property {Uint8Array|null} [after] FileList after
                 * @property {boolean|null} [attributes] FileList attributes
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FileList.
                 * @memberof sandboxd.agent.v1
                 * @interface IFileList
                 * @augments sandboxd.agent.v1.FileList.$Properties
                 * @deprecated Use sandboxd.agent.v1.FileList.$Properties instead.
                 */

                /**
                 * Shape of a FileList.
                 * @typedef {sandboxd.agent.v1.FileList.$Properties} sandboxd.agent.v1.FileList.$Shape
                 */

                /**
                 * Constructs a new FileList.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FileList.
                 * @constructor
                 * @param {sandboxd.agent.v1.FileList.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FileList = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FileList depth.
                 * @member {number} depth
                 * @memberof sandboxd.agent.v1.FileList
                 * @instance
                 */
                FileList.prototype.depth = 0;

                /**
                 * FileList maxEntries.
                 * @member {number} maxEntries
                 * @memberof sandboxd.agent.v1.FileList
                 * @instance
                 */
                FileList.prototype.maxEntries = 0;

                /**
                 * FileList after.
                 * @member {Uint8Array} after
                 * @memberof sandboxd.agent.v1.FileList
                 * @instance
                 */
                FileList.prototype.after = $util.newBuffer([]);

                /**
                 * FileList attributes.
                 * @member {boolean} attributes
                 * @memberof sandboxd.agent.v1.FileList
                 * @instance
                 */
                FileList.prototype.attributes = false;

                /**
                 * Creates a new FileList instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FileList
                 * @static
                 * @param {sandboxd.agent.v1.FileList.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FileList} FileList instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FileList.$Shape): sandboxd.agent.v1.FileList & sandboxd.agent.v1.FileList.$Shape;
                 *   (properties?: sandboxd.agent.v1.FileList.$Properties): sandboxd.agent.v1.FileList;
                 * }}
                 */
                FileList.create = function(properties) {
                    return new FileList(properties);
                };

                /**
                 * Encodes the specified FileList message. Does not implicitly {@link sandboxd.agent.v1.FileList.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FileList
                 * @static
                 * @param {sandboxd.agent.v1.FileList.$Properties} message FileList message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FileList.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.depth != null && $Object.hasOwnProperty.call(message, "depth") && message.depth !== 0)
                        writer.uint32(/* id 1, wireType 0 =*/8).uint32(message.depth);
                    if (message.maxEntries != null && $Object.hasOwnProperty.call(message, "maxEntries") && message.maxEntries !== 0)
                        writer.uint32(/* id 2, wireType 0 =*/16).uint32(message.maxEntries);
                    if (message.after != null && $Object.hasOwnProperty.call(message, "after") && message.after.length)
                        writer.uint32(/* id 3, wireType 2 =*/26).bytes(message.after);
                    if (message.attributes != null && $Object.hasOwnProperty.call(message, "attributes") && message.attributes !== false)
                        writer.uint32(/* id 4, wireType 0 =*/32).bool(message.attributes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FileList message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FileList
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileList & sandboxd.agent.v1.FileList.$Shape} FileList
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FileList.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FileList();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.depth = value;
                                else
                                    delete message.depth;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.maxEntries = value;
                                else
                                    delete message.maxEntries;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.after = value;
                                else
                                    delete message.after;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.attributes = value;
                                else
                                    delete message.attributes;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FileList;
            })();

            v1.MakeDirectory = (function() {

                /**
                 * Properties of a MakeDirectory.
                 * @typedef {Object} sandboxd.agent.v1.MakeDirectory.$Properties
                 * @property {number|null} [mode] MakeDirectory mode
                 * @property {boolean|null} [parents] MakeDirectory parents
                 * @property {boolean|null} [mayExist] MakeDirectory mayExist
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a MakeDirectory.
                 * @memberof sandboxd.agent.v1
                 * @interface IMakeDirectory
                 * @augments sandboxd.agent.v1.MakeDirectory.$Properties
                 * @deprecated Use sandboxd.agent.v1.MakeDirectory.$Properties instead.
                 */

                /**
                 * Shape of a MakeDirectory.
                 * @typedef {sandboxd.agent.v1.MakeDirectory.$Properties} sandboxd.agent.v1.MakeDirectory.$Shape
                 */

                /**
                 * Constructs a new MakeDirectory.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a MakeDirectory.
                 * @constructor
                 * @param {sandboxd.agent.v1.MakeDirectory.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const MakeDirectory = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * MakeDirectory mode.
                 * @member {number|null|undefined} mode
                 * @memberof sandboxd.agent.v1.MakeDirectory
                 * @instance
                 */
                MakeDirectory.prototype.mode = null;

                /**
                 * MakeDirectory parents.
                 * @member {boolean} parents
                 * @memberof sandboxd.agent.v1.MakeDirectory
                 * @instance
                 */
                MakeDirectory.prototype.parents = false;

                /**
                 * MakeDirectory mayExist.
                 * @member {boolean} mayExist
                 * @memberof sandboxd.agent.v1.MakeDirectory
                 * @instance
                 */
                MakeDirectory.prototype.mayExist = false;

                // OneOf field names bound to virtual getters and setters
                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(MakeDirectory.prototype, "_mode", {
                    get: $util.oneOfGetter($oneOfFields = ["mode"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                /**
                 * Creates a new MakeDirectory instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.MakeDirectory
                 * @static
                 * @param {sandboxd.agent.v1.MakeDirectory.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.MakeDirectory} MakeDirectory instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.MakeDirectory.$Shape): sandboxd.agent.v1.MakeDirectory & sandboxd.agent.v1.MakeDirectory.$Shape;
                 *   (properties?: sandboxd.agent.v1.MakeDirectory.$Properties): sandboxd.agent.v1.MakeDirectory;
                 * }}
                 */
                MakeDirectory.create = function(properties) {
                    return new MakeDirectory(properties);
                };

                /**
                 * Encodes the specified MakeDirectory message. Does not implicitly {@link sandboxd.agent.v1.MakeDirectory.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.MakeDirectory
                 * @static
                 * @param {sandboxd.agent.v1.MakeDirectory.$Properties} message MakeDirectory message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                MakeDirectory.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.mode != null && $Object.hasOwnProperty.call(message, "mode"))
                        writer.uint32(/* id 1, wireType 0 =*/8).uint32(message.mode);
                    if (message.parents != null && $Object.hasOwnProperty.call(message, "parents") && message.parents !== false)
                        writer.uint32(/* id 2, wireType 0 =*/16).bool(message.parents);
                    if (message.mayExist != null && $Object.hasOwnProperty.call(message, "mayExist") && message.mayExist !== false)
                        writer.uint32(/* id 3, wireType 0 =*/24).bool(message.mayExist);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a MakeDirectory message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.MakeDirectory
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.MakeDirectory & sandboxd.agent.v1.MakeDirectory.$Shape} MakeDirectory
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                MakeDirectory.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.MakeDirectory();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                message.mode = reader.uint32();
                                message._mode = "mode";
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.parents = value;
                                else
                                    delete message.parents;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.mayExist = value;
                                else
                                    delete message.mayExist;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return MakeDirectory;
            })();

            v1.FileMove = (function() {

                /**
                 * Properties of a FileMove.
                 * @typedef {Object} sandboxd.agent.v1.FileMove.$Properties
                 * @property {Uint8Array|null} [to] FileMove to
                 * @property {boolean|null} [replaces] FileMove replaces
                 * @property {boolean|null} [recursive] FileMove recursive
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FileMove.
                 * @memberof sandboxd.agent.v1
                 * @interface IFileMove
                 * @augments sandboxd.agent.v1.FileMove.$Properties
                 * @deprecated Use sandboxd.agent.v1.FileMove.$Properties instead.
                 */

                /**
                 * Shape of a FileMove.
                 * @typedef {sandboxd.agent.v1.FileMove.$Properties} sandboxd.agent.v1.FileMove.$Shape
                 */

                /**
                 * Constructs a new FileMove.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FileMove.
                 * @constructor
                 * @param {sandboxd.agent.v1.FileMove.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FileMove = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FileMove to.
                 * @member {Uint8Array} to
                 * @memberof sandboxd.agent.v1.FileMove
                 * @instance
                 */
                FileMove.prototype.to = $util.newBuffer([]);

                /**
                 * FileMove replaces.
                 * @member {boolean} replaces
                 * @memberof sandboxd.agent.v1.FileMove
                 * @instance
                 */
                FileMove.prototype.replaces = false;

                /**
                 * FileMove recursive.
                 * @member {boolean} recursive
                 * @memberof sandboxd.agent.v1.FileMove
                 * @instance
                 */
                FileMove.prototype.recursive = false;

                /**
                 * Creates a new FileMove instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FileMove
                 * @static
                 * @param {sandboxd.agent.v1.FileMove.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FileMove} FileMove instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FileMove.$Shape): sandboxd.agent.v1.FileMove & sandboxd.agent.v1.FileMove.$Shape;
                 *   (properties?: sandboxd.agent.v1.FileMove.$Properties): sandboxd.agent.v1.FileMove;
                 * }}
                 */
                FileMove.create = function(properties) {
                    return new FileMove(properties);
                };

                /**
                 * Encodes the specified FileMove message. Does not implicitly {@link sandboxd.agent.v1.FileMove.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FileMove
                 * @static
                 * @param {sandboxd.agent.v1.FileMove.$Properties} message FileMove message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FileMove.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.to != null && $Object.hasOwnProperty.call(message, "to") && message.to.length)
                        writer.uint32(/* id 1, wireType 2 =*/10).bytes(message.to);
                    if (message.replaces != null && $Object.hasOwnProperty.call(message, "replaces") && message.replaces !== false)
                        writer.uint32(/* id 2, wireType 0 =*/16).bool(message.replaces);
                    if (message.recursive != null && $Object.hasOwnProperty.call(message, "recursive") && message.recursive !== false)
                        writer.uint32(/* id 3, wireType 0 =*/24).bool(message.recursive);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FileMove message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FileMove
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileMove & sandboxd.agent.v1.FileMove.$Shape} FileMove
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FileMove.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FileMove();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.to = value;
                                else
                                    delete message.to;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.replaces = value;
                                else
                                    delete message.replaces;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.recursive = value;
                                else
                                    delete message.recursive;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FileMove;
            })();

            v1.FileRemove = (function() {

                /**
                 * Properties of a FileRemove.
                 * @typedef {Object} sandboxd.agent.v1.FileRemove.$Properties
                 * @property {boolean|null} [recursive] FileRemove recursive
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FileRemove.
                 * @memberof sandboxd.agent.v1
                 * @interface IFileRemove
                 * @augments sandboxd.agent.v1.FileRemove.$Properties
                 * @deprecated Use sandboxd.agent.v1.FileRemove.$Properties instead.
                 */

                /**
                 * Shape of a FileRemove.
                 * @typedef {sandboxd.agent.v1.FileRemove.$Properties} sandboxd.agent.v1.FileRemove.$Shape
                 */

                /**
                 * Constructs a new FileRemove.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FileRemove.
                 * @constructor
                 * @param {sandboxd.agent.v1.FileRemove.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FileRemove = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FileRemove recursive.
                 * @member {boolean} recursive
                 * @memberof sandboxd.agent.v1.FileRemove
                 * @instance
                 */
                FileRemove.prototype.recursive = false;

                /**
                 * Creates a new FileRemove instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FileRemove
                 * @static
                 * @param {sandboxd.agent.v1.FileRemove.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FileRemove} FileRemove instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FileRemove.$Shape): sandboxd.agent.v1.FileRemove & sandboxd.agent.v1.FileRemove.$Shape;
                 *   (properties?: sandboxd.agent.v1.FileRemove.$Properties): sandboxd.agent.v1.FileRemove;
                 * }}
                 */
                FileRemove.create = function(properties) {
                    return new FileRemove(properties);
                };

                /**
                 * Encodes the specified FileRemove message. Does not implicitly {@link sandboxd.agent.v1.FileRemove.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FileRemove
                 * @static
                 * @param {sandboxd.agent.v1.FileRemove.$Properties} message FileRemove message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FileRemove.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.recursive != null && $Object.hasOwnProperty.call(message, "recursive") && message.recursive !== false)
                        writer.uint32(/* id 1, wireType 0 =*/8).bool(message.recursive);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FileRemove message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FileRemove
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileRemove & sandboxd.agent.v1.FileRemove.$Shape} FileRemove
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FileRemove.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FileRemove();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.recursive = value;
                                else
                                    delete message.recursive;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FileRemove;
            })();

            v1.FileChange = (function() {

                /**
                 * Properties of a FileChange.
                 * @typedef {Object} sandboxd.agent.v1.FileChange.$Properties
                 * @property {number|null} [mode] FileChange mode
                 * @property {string|null} [owner] FileChange owner
                 * @property {number|null} [mtimeUs] FileChange mtimeUs
                 * @property {Array.<sandboxd.agent.v1.FileAttribute.$Properties>|null} [attributes] FileChange attributes
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FileChange.
                 * @memberof sandboxd.agent.v1
                 * @interface IFileChange
                 * @augments sandboxd.agent.v1.FileChange.$Properties
                 * @deprecated Use sandboxd.agent.v1.FileChange.$Properties instead.
                 */

                /**
                 * Shape of a FileChange.
                 * @typedef {sandboxd.agent.v1.FileChange.$Properties} sandboxd.agent.v1.FileChange.$Shape
                 */

                /**
                 * Constructs a new FileChange.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FileChange.
                 * @constructor
                 * @param {sandboxd.agent.v1.FileChange.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FileChange = function (properties) {
                    this.attributes = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FileChange mode.
                 * @member {number|null|undefined} mode
                 * @memberof sandboxd.agent.v1.FileChange
                 * @instance
                 */
                FileChange.prototype.mode = null;

                /**
                 * FileChange owner.
                 * @member {string} owner
                 * @memberof sandboxd.agent.v1.FileChange
                 * @instance
                 */
                FileChange.prototype.owner = "";

                /**
                 * FileChange mtimeUs.
                 * @member {number|null|undefined} mtimeUs
                 * @memberof sandboxd.agent.v1.FileChange
                 * @instance
                 */
                FileChange.prototype.mtimeUs = null;

                /**
                 * FileChange attributes.
                 * @member {Array.<sandboxd.agent.v1.FileAttribute.$Properties>} attributes
                 * @memberof sandboxd.agent.v1.FileChange
                 * @instance
                 */
                FileChange.prototype.attributes = $util.emptyArray;

                // OneOf field names bound to virtual getters and setters
                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(FileChange.prototype, "_mode", {
                    get: $util.oneOfGetter($oneOfFields = ["mode"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(FileChange.prototype, "_mtimeUs", {
                    get: $util.oneOfGetter($oneOfFields = ["mtimeUs"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                /**
                 * Creates a new FileChange instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FileChange
                 * @static
                 * @param {sandboxd.agent.v1.FileChange.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FileChange} FileChange instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FileChange.$Shape): sandboxd.agent.v1.FileChange & sandboxd.agent.v1.FileChange.$Shape;
                 *   (properties?: sandboxd.agent.v1.FileChange.$Properties): sandboxd.agent.v1.FileChange;
                 * }}
                 */
                FileChange.create = function(properties) {
                    return new FileChange(properties);
                };

                /**
                 * Encodes the specified FileChange message. Does not implicitly {@link sandboxd.agent.v1.FileChange.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FileChange
                 * @static
                 * @param {sandboxd.agent.v1.FileChange.$Properties} message FileChange message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FileChange.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.mode != null && $Object.hasOwnProperty.call(message, "mode"))
                        writer.uint32(/* id 1, wireType 0 =*/8).uint32(message.mode);
                    if (message.owner != null && $Object.hasOwnProperty.call(message, "owner") && message.owner !== "")
                        writer.uint32(/* id 2, wireType 2 =*/18).string(message.owner);
                    if (message.mtimeUs != null && $Object.hasOwnProperty.call(message, "mtimeUs"))
                        writer.uint32(/* id 3, wireType 0 =*/24).sint64(message.mtimeUs);
                    if (message.attributes != null && message.attributes.length)
                        for (let i = 0; i < message.attributes.length; ++i)
                            $root.sandboxd.agent.v1.FileAttribute.encode(message.attributes[i], writer.uint32(/* id 4, wireType 2 =*/34).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FileChange message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FileChange
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileChange & sandboxd.agent.v1.FileChange.$Shape} FileChange
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FileChange.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FileChange();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                message.mode = reader.uint32();
                                message._mode = "mode";
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.owner = value;
                                else
                                    delete message.owner;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                message.mtimeUs = reader.sint64();
                                message._mtimeUs = "mtimeUs";
                                continue;
                            }
                        case 4: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.attributes && message.attributes.length))
                                    message.attributes = [];
                                message.attributes.push($root.sandboxd.agent.v1.FileAttribute.decode(reader, reader.size(), $undefined, _depth + 1));
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FileChange;
            })();

            v1.FileRead = (function() {

                /**
                 * Properties of a FileRead.
                 * @typedef {Object} sandboxd.agent.v1.FileRead.$Properties
                 * @property {sandboxd.agent.v1.FilePlace.$Properties|null} [place] FileRead place
                 * @property {number|null} [first] FileRead first
                 * @property {number|null} [last] FileRead last
                 * @property {number|null} [lastBytes] FileRead lastBytes
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FileRead.
                 * @memberof sandboxd.agent.v1
                 * @interface IFileRead
                 * @augments sandboxd.agent.v1.FileRead.$Properties
                 * @deprecated Use sandboxd.agent.v1.FileRead.$Properties instead.
                 */

                /**
                 * Shape of a FileRead.
                 * @typedef {sandboxd.agent.v1.FileRead.$Properties} sandboxd.agent.v1.FileRead.$Shape
                 */

                /**
                 * Constructs a new FileRead.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FileRead.
                 * @constructor
                 * @param {sandboxd.agent.v1.FileRead.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FileRead = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FileRead place.
                 * @member {sandboxd.agent.v1.FilePlace.$Properties|null|undefined} place
                 * @memberof sandboxd.agent.v1.FileRead
                 * @instance
                 */
                FileRead.prototype.place = null;

                /**
                 * FileRead first.
                 * @member {number|null|undefined} first
                 * @memberof sandboxd.agent.v1.FileRead
                 * @instance
                 */
                FileRead.prototype.first = null;

                /**
                 * FileRead last.
                 * @member {number|null|undefined} last
                 * @memberof sandboxd.agent.v1.FileRead
                 * @instance
                 */
                FileRead.prototype.last = null;

                /**
                 * FileRead lastBytes.
                 * @member {number|null|undefined} lastBytes
                 * @memberof sandboxd.agent.v1.FileRead
                 * @instance
                 */
                FileRead.prototype.lastBytes = null;

                // OneOf field names bound to virtual getters and setters
                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(FileRead.prototype, "_first", {
                    get: $util.oneOfGetter($oneOfFields = ["first"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(FileRead.prototype, "_last", {
                    get: $util.oneOfGetter($oneOfFields = ["last"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(FileRead.prototype, "_lastBytes", {
                    get: $util.oneOfGetter($oneOfFields = ["lastBytes"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                /**
                 * Creates a new FileRead instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FileRead
                 * @static
                 * @param {sandboxd.agent.v1.FileRead.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FileRead} FileRead instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FileRead.$Shape): sandboxd.agent.v1.FileRead & sandboxd.agent.v1.FileRead.$Shape;
                 *   (properties?: sandboxd.agent.v1.FileRead.$Properties): sandboxd.agent.v1.FileRead;
                 * }}
                 */
                FileRead.create = function(properties) {
                    return new FileRead(properties);
                };

                /**
                 * Encodes the specified FileRead message. Does not implicitly {@link sandboxd.agent.v1.FileRead.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FileRead
                 * @static
                 * @param {sandboxd.agent.v1.FileRead.$Properties} message FileRead message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FileRead.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.place != null && $Object.hasOwnProperty.call(message, "place"))
                        $root.sandboxd.agent.v1.FilePlace.encode(message.place, writer.uint32(/* id 1, wireType 2 =*/10).fork(), _depth + 1).ldelim();
                    if (message.first != null && $Object.hasOwnProperty.call(message, "first"))
                        writer.uint32(/* id 2, wireType 0 =*/16).uint64(message.first);
                    if (message.last != null && $Object.hasOwnProperty.call(message, "last"))
                        writer.uint32(/* id 3, wireType 0 =*/24).uint64(message.last);
                    if (message.lastBytes != null && $Object.hasOwnProperty.call(message, "lastBytes"))
                        writer.uint32(/* id 4, wireType 0 =*/32).uint64(message.lastBytes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FileRead message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FileRead
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileRead & sandboxd.agent.v1.FileRead.$Shape} FileRead
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FileRead.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FileRead();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                message.place = $root.sandboxd.agent.v1.FilePlace.decode(reader, reader.size(), $undefined, _depth + 1, message.place);
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                message.first = reader.uint64();
                                message._first = "first";
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                message.last = reader.uint64();
                                message._last = "last";
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                message.lastBytes = reader.uint64();
                                message._lastBytes = "lastBytes";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FileRead;
            })();

            v1.FileWrite = (function() {

                /**
                 * Properties of a FileWrite.
                 * @typedef {Object} sandboxd.agent.v1.FileWrite.$Properties
                 * @property {sandboxd.agent.v1.FilePlace.$Properties|null} [place] FileWrite place
                 * @property {number|null} [mode] FileWrite mode
                 * @property {boolean|null} [parents] FileWrite parents
                 * @property {Array.<string>|null} [ifMatch] FileWrite ifMatch
                 * @property {Array.<string>|null} [ifNoneMatch] FileWrite ifNoneMatch
                 * @property {Array.<sandboxd.agent.v1.FileAttribute.$Properties>|null} [attributes] FileWrite attributes
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FileWrite.
                 * @memberof sandboxd.agent.v1
                 * @interface IFileWrite
                 * @augments sandboxd.agent.v1.FileWrite.$Properties
                 * @deprecated Use sandboxd.agent.v1.FileWrite.$Properties instead.
                 */

                /**
                 * Shape of a FileWrite.
                 * @typedef {sandboxd.agent.v1.FileWrite.$Properties} sandboxd.agent.v1.FileWrite.$Shape
                 */

                /**
                 * Constructs a new FileWrite.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FileWrite.
                 * @constructor
                 * @param {sandboxd.agent.v1.FileWrite.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FileWrite = function (properties) {
                    this.ifMatch = [];
                    this.ifNoneMatch = [];
                    this.attributes = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FileWrite place.
                 * @member {sandboxd.agent.v1.FilePlace.$Properties|null|undefined} place
                 * @memberof sandboxd.agent.v1.FileWrite
                 * @instance
                 */
                FileWrite.prototype.place = null;

                /**
                 * FileWrite mode.
                 * @member {number|null|undefined} mode
                 * @memberof sandboxd.agent.v1.FileWrite
                 * @instance
                 */
                FileWrite.prototype.mode = null;

                /**
                 * FileWrite parents.
                 * @member {boolean} parents
                 * @memberof sandboxd.agent.v1.FileWrite
                 * @instance
                 */
                FileWrite.prototype.parents = false;

                /**
                 * FileWrite ifMatch.
                 * @member {Array.<string>} ifMatch
                 * @memberof sandboxd.agent.v1.FileWrite
                 * @instance
                 */
                FileWrite.prototype.ifMatch = $util.emptyArray;

                /**
                 * FileWrite ifNoneMatch.
                 * @member {Array.<string>} ifNoneMatch
                 * @memberof sandboxd.agent.v1.FileWrite
                 * @instance
                 */
                FileWrite.prototype.ifNoneMatch = $util.emptyArray;

                /**
                 * FileWrite attributes.
                 * @member {Array.<sandboxd.agent.v1.FileAttribute.$Properties>} attributes
                 * @memberof sandboxd.agent.v1.FileWrite
                 * @instance
                 */
                FileWrite.prototype.attributes = $util.emptyArray;

                // OneOf field names bound to virtual getters and setters
                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(FileWrite.prototype, "_mode", {
                    get: $util.oneOfGetter($oneOfFields = ["mode"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                /**
                 * Creates a new FileWrite instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FileWrite
                 * @static
                 * @param {sandboxd.agent.v1.FileWrite.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FileWrite} FileWrite instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FileWrite.$Shape): sandboxd.agent.v1.FileWrite & sandboxd.agent.v1.FileWrite.$Shape;
                 *   (properties?: sandboxd.agent.v1.FileWrite.$Properties): sandboxd.agent.v1.FileWrite;
                 * }}
                 */
                FileWrite.create = function(properties) {
                    return new FileWrite(properties);
                };

                /**
                 * Encodes the specified FileWrite message. Does not implicitly {@link sandboxd.agent.v1.FileWrite.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FileWrite
                 * @static
                 * @param {sandboxd.agent.v1.FileWrite.$Properties} message FileWrite message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FileWrite.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.place != null && $Object.hasOwnProperty.call(message, "place"))
                        $root.sandboxd.agent.v1.FilePlace.encode(message.place, writer.uint32(/* id 1, wireType 2 =*/10).fork(), _depth + 1).ldelim();
                    if (message.mode != null && $Object.hasOwnProperty.call(message, "mode"))
                        writer.uint32(/* id 2, wireType 0 =*/16).uint32(message.mode);
                    if (message.parents != null && $Object.hasOwnProperty.call(message, "parents") && message.parents !== false)
                        writer.uint32(/* id 3, wireType 0 =*/24).bool(message.parents);
                    if (message.ifMatch != null && message.ifMatch.length)
                        for (let i = 0; i < message.ifMatch.length; ++i)
                            writer.uint32(/* id 4, wireType 2 =*/34).string(message.ifMatch[i]);
                    if (message.ifNoneMatch != null && message.ifNoneMatch.length)
                        for (let i = 0; i < message.ifNoneMatch.length; ++i)
                            writer.uint32(/* id 5, wireType 2 =*/42).string(message.ifNoneMatch[i]);
                    if (message.attributes != null && message.attributes.length)
                        for (let i = 0; i < message.attributes.length; ++i)
                            $root.sandboxd.agent.v1.FileAttribute.encode(message.attributes[i], writer.uint32(/* id 6, wireType 2 =*/50).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FileWrite message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FileWrite
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileWrite & sandboxd.agent.v1.FileWrite.$Shape} FileWrite
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FileWrite.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FileWrite();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                message.place = $root.sandboxd.agent.v1.FilePlace.decode(reader, reader.size(), $undefined, _depth + 1, message.place);
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                message.mode = reader.uint32();
                                message._mode = "mode";
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.parents = value;
                                else
                                    delete message.parents;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.ifMatch && message.ifMatch.length))
                                    message.ifMatch = [];
                                message.ifMatch.push(reader.stringVerify());
                                continue;
                            }
                        case 5: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.ifNoneMatch && message.ifNoneMatch.length))
                                    message.ifNoneMatch = [];
                                message.ifNoneMatch.push(reader.stringVerify());
                                continue;
                            }
                        case 6: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.attributes && message.attributes.length))
                                    message.attributes = [];
                                message.attributes.push($root.sandboxd.agent.v1.FileAttribute.decode(reader, reader.size(), $undefined, _depth + 1));
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FileWrite;
            })();

            v1.FileWatch = (function() {

                /**
                 * Properties of a FileWatch.
                 * @typedef {Object} sandboxd.agent.v1.FileWatch.$Properties
                 * @property {sandboxd.agent.v1.FilePlace.$Properties|null} [place] FileWatch place
                 * @property {boolean|null} [recursive] FileWatch recursive
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FileWatch.
                 * @memberof sandboxd.agent.v1
                 * @interface IFileWatch
                 * @augments sandboxd.agent.v1.FileWatch.$Properties
                 * @deprecated Use sandboxd.agent.v1.FileWatch.$Properties instead.
                 */

                /**
                 * Shape of a FileWatch.
                 * @typedef {sandboxd.agent.v1.FileWatch.$Properties} sandboxd.agent.v1.FileWatch.$Shape
                 */

                /**
                 * Constructs a new FileWatch.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FileWatch.
                 * @constructor
                 * @param {sandboxd.agent.v1.FileWatch.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FileWatch = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FileWatch place.
                 * @member {sandboxd.agent.v1.FilePlace.$Properties|null|undefined} place
                 * @memberof sandboxd.agent.v1.FileWatch
                 * @instance
                 */
                FileWatch.prototype.place = null;

                /**
                 * FileWatch recursive.
                 * @member {boolean} recursive
                 * @memberof sandboxd.agent.v1.FileWatch
                 * @instance
                 */
                FileWatch.prototype.recursive = false;

                /**
                 * Creates a new FileWatch instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FileWatch
                 * @static
                 * @param {sandboxd.agent.v1.FileWatch.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FileWatch} FileWatch instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FileWatch.$Shape): sandboxd.agent.v1.FileWatch & sandboxd.agent.v1.FileWatch.$Shape;
                 *   (properties?: sandboxd.agent.v1.FileWatch.$Properties): sandboxd.agent.v1.FileWatch;
                 * }}
                 */
                FileWatch.create = function(properties) {
                    return new FileWatch(properties);
                };

                /**
                 * Encodes the specified FileWatch message. Does not implicitly {@link sandboxd.agent.v1.FileWatch.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FileWatch
                 * @static
                 * @param {sandboxd.agent.v1.FileWatch.$Properties} message FileWatch message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FileWatch.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.place != null && $Object.hasOwnProperty.call(message, "place"))
                        $root.sandboxd.agent.v1.FilePlace.encode(message.place, writer.uint32(/* id 1, wireType 2 =*/10).fork(), _depth + 1).ldelim();
                    if (message.recursive != null && $Object.hasOwnProperty.call(message, "recursive") && message.recursive !== false)
                        writer.uint32(/* id 2, wireType 0 =*/16).bool(message.recursive);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FileWatch message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FileWatch
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileWatch & sandboxd.agent.v1.FileWatch.$Shape} FileWatch
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FileWatch.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FileWatch();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                message.place = $root.sandboxd.agent.v1.FilePlace.decode(reader, reader.size(), $undefined, _depth + 1, message.place);
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.recursive = value;
                                else
                                    delete message.recursive;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FileWatch;
            })();

            v1.FileWatchResult = (function() {

                /**
                 * Properties of a FileWatchResult.
                 * @typedef {Object} sandboxd.agent.v1.FileWatchResult.$Properties
                 * @property {sandboxd.agent.v1.FileWatchResult.Reason|null} [reason] FileWatchResult reason
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a FileWatchResult.
                 * @memberof sandboxd.agent.v1
                 * @interface IFileWatchResult
                 * @augments sandboxd.agent.v1.FileWatchResult.$Properties
                 * @deprecated Use sandboxd.agent.v1.FileWatchResult.$Properties instead.
                 */

                /**
                 * Shape of a FileWatchResult.
                 * @typedef {sandboxd.agent.v1.FileWatchResult.$Properties} sandboxd.agent.v1.FileWatchResult.$Shape
                 */

                /**
                 * Constructs a new FileWatchResult.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a FileWatchResult.
                 * @constructor
                 * @param {sandboxd.agent.v1.FileWatchResult.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const FileWatchResult = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * FileWatchResult reason.
                 * @member {sandboxd.agent.v1.FileWatchResult.Reason} reason
                 * @memberof sandboxd.agent.v1.FileWatchResult
                 * @instance
                 */
                FileWatchResult.prototype.reason = 0;

                /**
                 * Creates a new FileWatchResult instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.FileWatchResult
                 * @static
                 * @param {sandboxd.agent.v1.FileWatchResult.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.FileWatchResult} FileWatchResult instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.FileWatchResult.$Shape): sandboxd.agent.v1.FileWatchResult & sandboxd.agent.v1.FileWatchResult.$Shape;
                 *   (properties?: sandboxd.agent.v1.FileWatchResult.$Properties): sandboxd.agent.v1.FileWatchResult;
                 * }}
                 */
                FileWatchResult.create = function(properties) {
                    return new FileWatchResult(properties);
                };

                /**
                 * Encodes the specified FileWatchResult message. Does not implicitly {@link sandboxd.agent.v1.FileWatchResult.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.FileWatchResult
                 * @static
                 * @param {sandboxd.agent.v1.FileWatchResult.$Properties} message FileWatchResult message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                FileWatchResult.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.reason != null && $Object.hasOwnProperty.call(message, "reason") && message.reason !== 0)
                        writer.uint32(/* id 1, wireType 0 =*/8).int32(message.reason);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a FileWatchResult message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.FileWatchResult
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.FileWatchResult & sandboxd.agent.v1.FileWatchResult.$Shape} FileWatchResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                FileWatchResult.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.FileWatchResult();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.int32())
                                    message.reason = value;
                                else
                                    delete message.reason;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                /**
                 * Reason enum.
                 * @name sandboxd.agent.v1.FileWatchResult.Reason
                 * @enum {number}
                 * @property {number} UNKNOWN=0 UNKNOWN value
                 * @property {number} REMOVED=1 REMOVED value
                 * @property {number} UNREADABLE=2 UNREADABLE value
                 * @property {number} TOO_MANY=3 TOO_MANY value
                 */
                FileWatchResult.Reason = (function() {
                    const valuesById = $Object.create(null), values = $Object.create(valuesById);
                    values[valuesById[0] = "UNKNOWN"] = 0;
                    values[valuesById[1] = "REMOVED"] = 1;
                    values[valuesById[2] = "UNREADABLE"] = 2;
                    values[valuesById[3] = "TOO_MANY"] = 3;
                    return values;
                })();

                return FileWatchResult;
            })();

            v1.GrowDisk = (function() {

                /**
                 * Properties of a GrowDisk.
                 * @typedef {Object} sandboxd.agent.v1.GrowDisk.$Properties
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a GrowDisk.
                 * @memberof sandboxd.agent.v1
                 * @interface IGrowDisk
                 * @augments sandboxd.agent.v1.GrowDisk.$Properties
                 * @deprecated Use sandboxd.agent.v1.GrowDisk.$Properties instead.
                 */

                /**
                 * Shape of a GrowDisk.
                 * @typedef {sandboxd.agent.v1.GrowDisk.$Properties} sandboxd.agent.v1.GrowDisk.$Shape
                 */

                /**
                 * Constructs a new GrowDisk.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a GrowDisk.
                 * @constructor
                 * @param {sandboxd.agent.v1.GrowDisk.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const GrowDisk = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * Creates a new GrowDisk instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.GrowDisk
                 * @static
                 * @param {sandboxd.agent.v1.GrowDisk.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.GrowDisk} GrowDisk instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.GrowDisk.$Shape): sandboxd.agent.v1.GrowDisk & sandboxd.agent.v1.GrowDisk.$Shape;
                 *   (properties?: sandboxd.agent.v1.GrowDisk.$Properties): sandboxd.agent.v1.GrowDisk;
                 * }}
                 */
                GrowDisk.create = function(properties) {
                    return new GrowDisk(properties);
                };

                /**
                 * Encodes the specified GrowDisk message. Does not implicitly {@link sandboxd.agent.v1.GrowDisk.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.GrowDisk
                 * @static
                 * @param {sandboxd.agent.v1.GrowDisk.$Properties} message GrowDisk message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                GrowDisk.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a GrowDisk message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.GrowDisk
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.GrowDisk & sandboxd.agent.v1.GrowDisk.$Shape} GrowDisk
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                GrowDisk.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.GrowDisk();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        reader.skipType(tag & 7, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return GrowDisk;
            })();

            v1.GrowDiskResult = (function() {

                /**
                 * Properties of a GrowDiskResult.
                 * @typedef {Object} sandboxd.agent.v1.GrowDiskResult.$Properties
                 * @property {number|null} [sizeBytes] GrowDiskResult sizeBytes
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a GrowDiskResult.
                 * @memberof sandboxd.agent.v1
                 * @interface IGrowDiskResult
                 * @augments sandboxd.agent.v1.GrowDiskResult.$Properties
                 * @deprecated Use sandboxd.agent.v1.GrowDiskResult.$Properties instead.
                 */

                /**
                 * Shape of a GrowDiskResult.
                 * @typedef {sandboxd.agent.v1.GrowDiskResult.$Properties} sandboxd.agent.v1.GrowDiskResult.$Shape
                 */

                /**
                 * Constructs a new GrowDiskResult.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a GrowDiskResult.
                 * @constructor
                 * @param {sandboxd.agent.v1.GrowDiskResult.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const GrowDiskResult = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * GrowDiskResult sizeBytes.
                 * @member {number} sizeBytes
                 * @memberof sandboxd.agent.v1.GrowDiskResult
                 * @instance
                 */
                GrowDiskResult.prototype.sizeBytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                /**
                 * Creates a new GrowDiskResult instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.GrowDiskResult
                 * @static
                 * @param {sandboxd.agent.v1.GrowDiskResult.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.GrowDiskResult} GrowDiskResult instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.GrowDiskResult.$Shape): sandboxd.agent.v1.GrowDiskResult & sandboxd.agent.v1.GrowDiskResult.$Shape;
                 *   (properties?: sandboxd.agent.v1.GrowDiskResult.$Properties): sandboxd.agent.v1.GrowDiskResult;
                 * }}
                 */
                GrowDiskResult.create = function(properties) {
                    return new GrowDiskResult(properties);
                };

                /**
                 * Encodes the specified GrowDiskResult message. Does not implicitly {@link sandboxd.agent.v1.GrowDiskResult.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.GrowDiskResult
                 * @static
                 * @param {sandboxd.agent.v1.GrowDiskResult.$Properties} message GrowDiskResult message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                GrowDiskResult.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.sizeBytes != null && $Object.hasOwnProperty.call(message, "sizeBytes") && (typeof message.sizeBytes === "object" ? message.sizeBytes.low || message.sizeBytes.high : message.sizeBytes !== 0))
                        writer.uint32(/* id 1, wireType 0 =*/8).uint64(message.sizeBytes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a GrowDiskResult message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.GrowDiskResult
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.GrowDiskResult & sandboxd.agent.v1.GrowDiskResult.$Shape} GrowDiskResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                GrowDiskResult.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.GrowDiskResult();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.sizeBytes = value;
                                else
                                    delete message.sizeBytes;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return GrowDiskResult;
            })();

            v1.PortConnect = (function() {

                /**
                 * Properties of a PortConnect.
                 * @typedef {Object} sandboxd.agent.v1.PortConnect.$Properties
                 * @property {number|null} [port] PortConnect port
                 * @property {number|null} [window] PortConnect window
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a PortConnect.
                 * @memberof sandboxd.agent.v1
                 * @interface IPortConnect
                 * @augments sandboxd.agent.v1.PortConnect.$Properties
                 * @deprecated Use sandboxd.agent.v1.PortConnect.$Properties instead.
                 */

                /**
                 * Shape of a PortConnect.
                 * @typedef {sandboxd.agent.v1.PortConnect.$Properties} sandboxd.agent.v1.PortConnect.$Shape
                 */

                /**
                 * Constructs a new PortConnect.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a PortConnect.
                 * @constructor
                 * @param {sandboxd.agent.v1.PortConnect.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const PortConnect = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * PortConnect port.
                 * @member {number} port
                 * @memberof sandboxd.agent.v1.PortConnect
                 * @instance
                 */
                PortConnect.prototype.port = 0;

                /**
                 * PortConnect window.
                 * @member {number} window
                 * @memberof sandboxd.agent.v1.PortConnect
                 * @instance
                 */
                PortConnect.prototype.window = 0;

                /**
                 * Creates a new PortConnect instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.PortConnect
                 * @static
                 * @param {sandboxd.agent.v1.PortConnect.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.PortConnect} PortConnect instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.PortConnect.$Shape): sandboxd.agent.v1.PortConnect & sandboxd.agent.v1.PortConnect.$Shape;
                 *   (properties?: sandboxd.agent.v1.PortConnect.$Properties): sandboxd.agent.v1.PortConnect;
                 * }}
                 */
                PortConnect.create = function(properties) {
                    return new PortConnect(properties);
                };

                /**
                 * Encodes the specified PortConnect message. Does not implicitly {@link sandboxd.agent.v1.PortConnect.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.PortConnect
                 * @static
                 * @param {sandboxd.agent.v1.PortConnect.$Properties} message PortConnect message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                PortConnect.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.port != null && $Object.hasOwnProperty.call(message, "port") && message.port !== 0)
                        writer.uint32(/* id 1, wireType 0 =*/8).uint32(message.port);
                    if (message.window != null && $Object.hasOwnProperty.call(message, "window") && message.window !== 0)
                        writer.uint32(/* id 2, wireType 0 =*/16).uint32(message.window);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a PortConnect message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.PortConnect
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.PortConnect & sandboxd.agent.v1.PortConnect.$Shape} PortConnect
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                PortConnect.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.PortConnect();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.port = value;
                                else
                                    delete message.port;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.window = value;
                                else
                                    delete message.window;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return PortConnect;
            })();

            v1.PortConnectResult = (function() {

                /**
                 * Properties of a PortConnectResult.
                 * @typedef {Object} sandboxd.agent.v1.PortConnectResult.$Properties
                 * @property {boolean|null} [isReset] PortConnectResult isReset
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */

                /**
                 * Properties of a PortConnectResult.
                 * @memberof sandboxd.agent.v1
                 * @interface IPortConnectResult
                 * @augments sandboxd.agent.v1.PortConnectResult.$Properties
                 * @deprecated Use sandboxd.agent.v1.PortConnectResult.$Properties instead.
                 */

                /**
                 * Shape of a PortConnectResult.
                 * @typedef {sandboxd.agent.v1.PortConnectResult.$Properties} sandboxd.agent.v1.PortConnectResult.$Shape
                 */

                /**
                 * Constructs a new PortConnectResult.
                 * @memberof sandboxd.agent.v1
                 * @classdesc Represents a PortConnectResult.
                 * @constructor
                 * @param {sandboxd.agent.v1.PortConnectResult.$Properties=} [properties] Properties to set
                 * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
                 */
                const PortConnectResult = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                /**
                 * PortConnectResult isReset.
                 * @member {boolean} isReset
                 * @memberof sandboxd.agent.v1.PortConnectResult
                 * @instance
                 */
                PortConnectResult.prototype.isReset = false;

                /**
                 * Creates a new PortConnectResult instance using the specified properties.
                 * @function create
                 * @memberof sandboxd.agent.v1.PortConnectResult
                 * @static
                 * @param {sandboxd.agent.v1.PortConnectResult.$Properties=} [properties] Properties to set
                 * @returns {sandboxd.agent.v1.PortConnectResult} PortConnectResult instance
                 * @type {{
                 *   (properties: sandboxd.agent.v1.PortConnectResult.$Shape): sandboxd.agent.v1.PortConnectResult & sandboxd.agent.v1.PortConnectResult.$Shape;
                 *   (properties?: sandboxd.agent.v1.PortConnectResult.$Properties): sandboxd.agent.v1.PortConnectResult;
                 * }}
                 */
                PortConnectResult.create = function(properties) {
                    return new PortConnectResult(properties);
                };

                /**
                 * Encodes the specified PortConnectResult message. Does not implicitly {@link sandboxd.agent.v1.PortConnectResult.verify|verify} messages.
                 * @function encode
                 * @memberof sandboxd.agent.v1.PortConnectResult
                 * @static
                 * @param {sandboxd.agent.v1.PortConnectResult.$Properties} message PortConnectResult message or plain object to encode
                 * @param {$protobuf.Writer} [writer] Writer to encode to
                 * @returns {$protobuf.Writer} Writer
                 */
                PortConnectResult.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.isReset != null && $Object.hasOwnProperty.call(message, "isReset") && message.isReset !== false)
                        writer.uint32(/* id 1, wireType 0 =*/8).bool(message.isReset);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                /**
                 * Decodes a PortConnectResult message from the specified reader or buffer.
                 * @function decode
                 * @memberof sandboxd.agent.v1.PortConnectResult
                 * @static
                 * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
                 * @param {number} [length] Message length if known beforehand
                 * @returns {sandboxd.agent.v1.PortConnectResult & sandboxd.agent.v1.PortConnectResult.$Shape} PortConnectResult
                 * @throws {Error} If the payload is not a reader or valid buffer
                 * @throws {$protobuf.util.ProtocolError} If required fields are missing
                 */
                PortConnectResult.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.sandboxd.agent.v1.PortConnectResult();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.isReset = value;
                                else
                                    delete message.isReset;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return PortConnectResult;
            })();

            return v1;
        })();

        return agent;
    })();

    return sandboxd;
})();

export {
  $root as default
};
