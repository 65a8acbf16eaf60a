# A client of WebSocket over HTTP/2, built on the packages h2 and wsproto.

import socket, sys
import h2.connection, h2.events, h2.settings
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage

host, port = sys.argv[1].split('//')[1].split('/')[0].split(':')
sock = socket.create_connection((host, int(port)), timeout=10)
h2c = h2.connection.H2Connection()
h2c.initiate_connection()
sock.sendall(h2c.data_to_send())
events = []

def wait(kind, stream=None):
    while True:
        for event in events:
            if isinstance(event, kind) and (stream is None or event.stream_id == stream):
                events.remove(event)
                return event
        data = sock.recv(65536)
        assert data, 'the server has closed'
        for event in h2c.receive_data(data):
            if isinstance(event, h2.events.DataReceived) and event.flow_controlled_length:
                h2c.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            events.append(event)
        sock.sendall(h2c.data_to_send())

settings = wait(h2.events.RemoteSettingsChanged)
code = h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL
assert settings.changed_settings[code].new_value == 1, settings

def connect(protocol='websocket', version='13'):
    stream = h2c.get_next_available_stream_id()
    h2c.send_headers(stream, [
        (':method', 'CONNECT'), (':protocol', protocol), (':scheme', 'http'),
        (':path', '/chat'), (':authority', host), ('sec-websocket-version', version),
        ('sec-websocket-protocol', 'chat, other'),
    ])
    sock.sendall(h2c.data_to_send())
    head = dict(wait(h2.events.ResponseReceived, stream).headers)
    return stream, {str(k, 'ascii') if isinstance(k, bytes) else k:
                    str(v, 'ascii') if isinstance(v, bytes) else v for k, v in head.items()}

def send(stream, data, ends=False):
    while data:
        room = min(h2c.local_flow_control_window(stream), h2c.max_outbound_frame_size)
        if room == 0:
            wait(h2.events.WindowUpdated)
            continue
        piece, data = data[:room], data[room:]
        h2c.send_data(stream, piece, end_stream=ends and not data)
        sock.sendall(h2c.data_to_send())

def receive(stream, ws):
    found = []
    while True:
        for event in ws.events():
            found.append(event)
        if found and getattr(found[-1], 'message_finished', True):
            return found
        ws.receive_data(wait(h2.events.DataReceived, stream).data)

first, head = connect()
assert head[':status'] == '200' and head['sec-websocket-protocol'] == 'chat', head
second, _ = connect()
one, two = Connection(ConnectionType.CLIENT), Connection(ConnectionType.CLIENT)
for stream, ws in [(first, one), (second, two)]:
    for message in ['', 'x' * 200, '\u00fc' * 70000]:
        send(stream, ws.send(TextMessage(data=message)))
        found = receive(stream, ws)
        assert ''.join(event.data for event in found) == message
    send(stream, ws.send(BytesMessage(data=b'a', message_finished=False)))
    send(stream, ws.send(BytesMessage(data=b'bc')))
    assert b''.join(bytes(event.data) for event in receive(stream, ws)) == b'abc'
    send(stream, ws.send(Ping(payload=b'there')))
    assert isinstance(receive(stream, ws)[0], Pong)
send(first, one.send(CloseConnection(code=3000, reason='done')))
closed = receive(first, one)[0]
assert isinstance(closed, CloseConnection) and closed.code == 3000, closed
wait(h2.events.StreamEnded, first)
h2c.end_stream(first)
# A frame that is not masked: the stream is closed with 1002, and the other one is not touched.
third, _ = connect()
send(third, b'\x81\x01x')
three = Connection(ConnectionType.CLIENT)
closed = receive(third, three)[0]
assert isinstance(closed, CloseConnection) and closed.code == 1002, closed
wait(h2.events.StreamEnded, third)
assert connect(protocol='chat')[1][':status'] == '501'
assert connect(version='8')[1][':status'] == '400'
send(second, two.send(TextMessage(data='still here')))
assert receive(second, two)[0].data == 'still here'
h2c.end_stream(second)
sock.sendall(h2c.data_to_send())
wait(h2.events.StreamEnded, second)
h2c.ping(b'12345678')
sock.sendall(h2c.data_to_send())
wait(h2.events.PingAckReceived)
