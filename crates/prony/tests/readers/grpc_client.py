"""Calls the services of `prony serve --grpc` with grpcio, and checks every answer.

Usage: grpc_client.py HOST:PORT [CA-FILE]. Prints the number of calls by status, as JSON. The
messages come from the server's reflection.
"""

import collections
import json
import sys
import threading

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

TEST = "grpc.testing.TestService"
GZIP = grpc.Compression.Gzip


class Client:
    def __init__(self, channel):
        self.channel = channel
        self.statuses = collections.Counter()
        database = ProtoReflectionDescriptorDatabase(channel)
        assert TEST in database.get_services()
        pool = descriptor_pool.DescriptorPool(database)
        self.service = pool.FindServiceByName(TEST)
        self.pool = pool

    def message(self, name):
        descriptor = self.pool.FindMessageTypeByName(f"grpc.testing.{name}")
        return message_factory.GetMessageClass(descriptor)

    def method(self, name, service=None):
        """A method of the test service; of another one with messages of this one."""
        method = self.service.methods_by_name[name]
        shape = ("stream" if method.client_streaming else "unary") + "_" + (
            "stream" if method.server_streaming else "unary")
        answer = message_factory.GetMessageClass(method.output_type)
        return getattr(self.channel, shape)(
            f"/{service or TEST}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )

    def fails(self, status, call):
        """The error of a call, which ends with this status."""
        try:
            answer = call()
            if hasattr(answer, "__iter__"):
                list(answer)
        except grpc.RpcError as error:
            assert error.code() == status, error
            self.statuses[status.name] += 1
            return error
        raise AssertionError(f"no {status}")

    def ok(self, answer):
        self.statuses["OK"] += 1
        return answer

    def payload(self, size):
        return self.message("Payload")(body=bytes(size))

    def unary(self):
        empty, request = self.message("Empty"), self.message("SimpleRequest")
        assert self.ok(self.method("EmptyCall")(empty())) == empty()
        call = self.method("UnaryCall")
        large = request(response_size=314159, payload=self.payload(271828))
        for name in ["UnaryCall", "CacheableUnaryCall"]:
            answer = self.ok(self.method(name)(large))
            assert answer.payload.body == bytes(314159)
        # server_compressed_unary: the library has checked the flag and the format.
        large.response_compressed.value = True
        assert self.ok(call(large)).payload.body == bytes(314159)
        # client_compressed_unary, after a message that claims it in vain.
        large.expect_compressed.value = True
        self.fails(grpc.StatusCode.INVALID_ARGUMENT, lambda: call(large))
        assert self.ok(call(large, compression=GZIP)).payload.body == bytes(314159)
        large.expect_compressed.value = False
        assert self.ok(call(large)).payload.body == bytes(314159)

    def streams(self):
        sizes = [27182, 8, 1828, 45904]
        request = self.message("StreamingInputCallRequest")
        call = self.method("StreamingInputCall")
        inputs = [request(payload=self.payload(size)) for size in sizes]
        assert self.ok(call(iter(inputs))).aggregated_payload_size == sum(sizes)
        # The library sends short messages as they are.
        large = [one for one in inputs if len(one.payload.body) > 100]
        for one in large:
            one.expect_compressed.value = True
        self.fails(grpc.StatusCode.INVALID_ARGUMENT, lambda: call(iter(large[:1])))
        answer = self.ok(call(iter(large), compression=GZIP))
        assert answer.aggregated_payload_size == sum(sizes) - 8

        request = self.message("StreamingOutputCallRequest")
        wanted = [31415, 9, 2653, 58979]
        output = request(response_parameters=[{"size": size} for size in wanted])
        for compressed in [False, True]:
            for one in output.response_parameters[::2]:
                one.compressed.value = compressed
            answers = self.ok(list(self.method("StreamingOutputCall")(output)))
            assert [len(one.payload.body) for one in answers] == wanted

        def ask():
            for size, answer in zip(sizes, wanted):
                gate.acquire()
                yield request(
                    payload=self.payload(size), response_parameters=[{"size": answer}])

        gate = threading.Semaphore(1)
        answers = []
        for one in self.method("FullDuplexCall")(ask()):
            # The next question follows the answer.
            answers.append(len(one.payload.body))
            gate.release()
        assert self.ok(answers) == wanted
        assert self.ok(list(self.method("FullDuplexCall")(iter([])))) == []
        half = [request(response_parameters=[{"size": size}]) for size in wanted]
        answers = self.ok(list(self.method("HalfDuplexCall")(iter(half))))
        assert [len(one.payload.body) for one in answers] == wanted

    def metadata(self):
        echo = [
            ("x-grpc-test-echo-initial", "test_initial_metadata_value"),
            ("x-grpc-test-echo-trailing-bin", b"\xab\xab\xab"),
        ]
        request = self.message("SimpleRequest")(response_size=314159)
        _, call = self.method("UnaryCall").with_call(request, metadata=echo)
        self.ok(call)
        assert echo[0] in [tuple(pair) for pair in call.initial_metadata()]
        assert echo[1] in [tuple(pair) for pair in call.trailing_metadata()]
        output = self.message("StreamingOutputCallRequest")
        request = output(response_parameters=[{"size": 314159}])
        call = self.method("FullDuplexCall")(iter([request]), metadata=echo)
        assert len(self.ok(list(call))) == 1
        assert echo[0] in [tuple(pair) for pair in call.initial_metadata()]
        assert echo[1] in [tuple(pair) for pair in call.trailing_metadata()]

    def errors(self):
        unknown, simple = grpc.StatusCode.UNKNOWN, self.message("SimpleRequest")
        special = "\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \U0001f608\t\n"
        for text in ["test status message", special]:
            status = {"code": 2, "message": text}
            request = simple(response_status=status)
            assert self.fails(unknown, lambda: self.method("UnaryCall")(request)).details() == text
            output = self.message("StreamingOutputCallRequest")(response_status=status)
            call = lambda: self.method("FullDuplexCall")(iter([output]))
            assert self.fails(unknown, call).details() == text
        missing, empty = grpc.StatusCode.UNIMPLEMENTED, self.message("Empty")()
        self.fails(missing, lambda: self.method("UnimplementedCall")(empty))
        other = self.method("UnimplementedCall", "grpc.testing.UnimplementedService")
        self.fails(missing, lambda: other(empty))

    def cancels(self):
        cancelled = threading.Event()

        def nothing():
            # An input that has not ended: the server cannot answer before the cancel.
            cancelled.wait(10)
            yield from ()

        call = self.method("StreamingInputCall").future(nothing(), timeout=5)
        call.cancel()
        assert call.cancelled()
        cancelled.set()
        request = self.message("StreamingOutputCallRequest")
        gate = threading.Event()

        def ask():
            yield request(response_parameters=[{"size": 31415}])
            gate.wait(10)

        call = self.method("FullDuplexCall")(ask())
        assert len(next(call).payload.body) == 31415
        call.cancel()
        gate.set()
        sleeps = request(response_parameters=[{"size": 1, "interval_us": 5_000_000}])
        try:
            list(self.method("FullDuplexCall")(iter([sleeps]), timeout=0.05))
            raise AssertionError("no timeout")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error

    def health(self):
        stub = health_pb2_grpc.HealthStub(self.channel)
        serving = health_pb2.HealthCheckResponse.SERVING
        for service in ["", TEST]:
            request = health_pb2.HealthCheckRequest(service=service)
            assert self.ok(stub.Check(request)).status == serving
            watch = stub.Watch(request)
            assert next(watch).status == serving
            watch.cancel()
        request = health_pb2.HealthCheckRequest(service="none")
        self.fails(grpc.StatusCode.NOT_FOUND, lambda: stub.Check(request))
        watch = stub.Watch(request)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        watch.cancel()

    def reflection(self):
        """Version 1 has the messages of v1alpha."""
        call = self.channel.stream_stream(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        requests = [
            reflection_pb2.ServerReflectionRequest(list_services=""),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol=TEST),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol="none"),
        ]
        services, files, error = self.ok(list(call(iter(requests))))
        assert TEST in [one.name for one in services.list_services_response.service]
        assert len(files.file_descriptor_response.file_descriptor_proto) == 3
        assert error.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


def main():
    address, *ca = sys.argv[1:]
    if ca:
        with open(ca[0], "rb") as file:
            credentials = grpc.ssl_channel_credentials(file.read())
        channel = grpc.secure_channel(address, credentials)
    else:
        channel = grpc.insecure_channel(address)
    with channel:
        client = Client(channel)
        client.unary()
        client.streams()
        client.metadata()
        client.errors()
        client.cancels()
        client.health()
        client.reflection()
    print(json.dumps(client.statuses))


main()
