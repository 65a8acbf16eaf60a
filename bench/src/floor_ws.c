// floor_ws: a minimal single-threaded client of WebSocket with epoll. It opens CONNS connections and sends one masked text
// frame of BYTES on each; whenever the echo has arrived, it sends the next one. The mask is always the same, the echo is
// only counted, nothing is checked: a lower bound of the cost, not a tool.
//   floor_ws -p PORT [-c CONNS] [-s SECONDS] [-d BYTES (at most 125)] [-r MESSAGES_PER_SECOND_OF_EACH_CONNECTION]
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "floor.h"

static void handshake(int fd, int port) {
    char b[4096]; size_t n = 0;
    int len = snprintf(b, sizeof b, "GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", port);
    if (send(fd, b, len, MSG_NOSIGNAL) != len) die("send");
    do { ssize_t r = recv(fd, b + n, sizeof b - 1 - n, 0); if (r <= 0) die("handshake"); n += r; b[n] = 0; } while (!strstr(b, "\r\n\r\n"));
    if (strncmp(b, "HTTP/1.1 101", 12)) { fprintf(stderr, "no WebSocket: %s\n", b); exit(1); }
}

int main(int argc, char **argv) {
    struct opt o = parse(argc, argv);
    int bytes = o.depth > 1 ? o.depth : 64; if (bytes > 125) exit(2);
    uint8_t frame[131] = {0x81, 0x80 | bytes, 0x12, 0x34, 0x56, 0x78};
    for (int i = 0; i < bytes; i++) frame[6 + i] = 'x' ^ frame[2 + i % 4];
    size_t flen = 6 + bytes, elen = 2 + bytes;
    int ep = epoll_create1(0); int *fds = calloc(o.conns, sizeof *fds); uint32_t *got = calloc(o.conns, sizeof *got);
    static uint8_t buf[65536]; struct epoll_event ev[1024];
    for (int i = 0; i < o.conns; i++) {
        fds[i] = dial(&o, 0); handshake(fds[i], o.port); fcntl(fds[i], F_SETFL, O_NONBLOCK);
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = i}; epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &e);
    }
    struct rusage before; getrusage(RUSAGE_SELF, &before);
    uint64_t done = 0, sent = 0, t0 = now(), end = t0 + (uint64_t)(o.secs * 1e9), t = t0, ticks = 0;
    if (!o.rate) for (int i = 0; i < o.conns; i++) if (send(fds[i], frame, flen, MSG_NOSIGNAL) != (ssize_t)flen) die("send");
    for (;;) {
        int wait = 1000;
        if (o.rate) { // all connections in turn, each at its rate: what is due is sent
            t = now(); uint64_t due = (uint64_t)((t - t0) / 1e9 * o.rate * o.conns);
            for (; sent < due; sent++) if (send(fds[sent % o.conns], frame, flen, MSG_NOSIGNAL) != (ssize_t)flen) die("send");
            wait = 1;
        }
        int n = epoll_wait(ep, ev, 1024, wait);
        if (o.rate || (++ticks & 15) == 0 || n == 0) { t = now(); if (t >= end) break; }
        for (int i = 0; i < n; i++) {
            uint32_t c = ev[i].data.u32; ssize_t r = recv(fds[c], buf, sizeof buf, 0);
            if (r <= 0) { if (r < 0 && errno == EAGAIN) continue; fprintf(stderr, "connection lost\n"); return 1; }
            got[c] += r; uint32_t k = got[c] / elen; got[c] -= k * elen; done += k;
            if (!o.rate) for (; k; k--) if (send(fds[c], frame, flen, MSG_NOSIGNAL) != (ssize_t)flen) die("send");
        }
    }
    report("floor_ws", &o, done, t - t0);
}
