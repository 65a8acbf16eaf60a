// Connections of WebSocket that send the next text when the last one has come back. Each of CONNECTIONS virtual users opens
// one connection to URL, and closes it after EACH echoes of BYTES bytes.
import ws from 'k6/ws';

const { URL, CONNECTIONS, EACH, BYTES } = __ENV;
const text = 'x'.repeat(Number(BYTES));

export const options = {
  vus: Number(CONNECTIONS),
  iterations: Number(CONNECTIONS),
  summaryTrendStats: ['avg'],
};

export default function () {
  ws.connect(URL, {}, (socket) => {
    let left = Number(EACH);
    socket.on('open', () => socket.send(text));
    socket.on('message', () => {
      left -= 1;
      if (left > 0) socket.send(text);
      else socket.close();
    });
  });
}

export function handleSummary(data) {
  const received = data.metrics.ws_msgs_received;
  return { stdout: JSON.stringify({ requests: received ? received.values.count : 0 }) };
}
