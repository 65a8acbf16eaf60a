"""A server of grpcio with reflection, for the tests. It decodes every message with Google's own
library, and prints what it saw as JSON when its standard input ends."""

import collections
import json
import sys
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_reflection.v1alpha import reflection

KINDS = {"string": 9, "int32": 5}
FIELDS = [("name", 1, "string"), ("count", 2, "int32")]


def pool():
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    item = file.message_type.add(name="Item")
    for name, number, kind in FIELDS:
        item.field.add(name=name, number=number, type=KINDS[kind], label=1, json_name=name)
    service = file.service.add(name="Shop")
    for name, client, server in [("Buy", 0, 0), ("Watch", 0, 1), ("Fill", 1, 0), ("Chat", 1, 1)]:
        method = service.method.add(name=name, input_type=".shop.Item", output_type=".shop.Item")
        method.client_streaming, method.server_streaming = bool(client), bool(server)
    known = descriptor_pool.Default()
    known.Add(file)
    return known


POOL = pool()
Item = message_factory.GetMessageClass(POOL.FindMessageTypeByName("shop.Item"))
seen = collections.Counter()


def note(item, context):
    seen["messages"] += 1
    seen["sum"] += item.count
    seen["name:" + item.name] += 1
    for key, value in context.invocation_metadata():
        if key == "x-test":
            seen["x-test:" + value] += 1
    left = context.time_remaining()
    seen["deadlines"] += left is not None and left < 10


def buy(item, context):
    note(item, context)
    seen["Buy"] += 1
    if item.count == 13:
        context.abort(grpc.StatusCode.NOT_FOUND, "no such item: 100 % sold out")
    return Item(name="bought " + item.name)


def watch(item, context):
    note(item, context)
    seen["Watch"] += 1
    for i in range(item.count):
        yield Item(count=i)


def fill(items, context):
    seen["Fill"] += 1
    for item in items:
        note(item, context)
    return Item()


def chat(items, context):
    seen["Chat"] += 1
    for item in items:
        note(item, context)
        yield item


def main():
    compression = grpc.Compression.Gzip if "--gzip" in sys.argv else None
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4), compression=compression)
    codec = {"request_deserializer": Item.FromString, "response_serializer": Item.SerializeToString}
    handlers = {
        "Buy": grpc.unary_unary_rpc_method_handler(buy, **codec),
        "Watch": grpc.unary_stream_rpc_method_handler(watch, **codec),
        "Fill": grpc.stream_unary_rpc_method_handler(fill, **codec),
        "Chat": grpc.stream_stream_rpc_method_handler(chat, **codec),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("shop.Shop", handlers)])
    if "--no-reflection" not in sys.argv:
        reflection.enable_server_reflection(["shop.Shop", reflection.SERVICE_NAME], server, POOL)
    if "--tls" in sys.argv:
        # The certificate and its key follow.
        cert, key = (open(name, "rb").read() for name in sys.argv[sys.argv.index("--tls") + 1 :][:2])
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, cert)]))
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    server.stop(1).wait()
    print(json.dumps(seen), flush=True)


main()
