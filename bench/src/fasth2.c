// fasth2: an HTTP/2 server (h2c, prior knowledge) with minimal CPU cost per request, so that the client is the bottleneck.
// One thread, epoll. It parses frame headers only: each HEADERS frame is one complete request, and gets the same reply of
// 9 + 4 + 9 + BODY bytes (":status: 200" from the static table, one literal field, DATA). Requests have no body.
//   fasth2 -p PORT [-b BODY_BYTES] [-m MAX_STREAMS]
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAXFD 4096
#define IN (1 << 18)
struct conn { size_t have, skip; int greeted; uint8_t *out; size_t len, room, off; uint8_t part[16384]; };
static struct conn *conns[MAXFD];
static int ep;
static void die(const char *m) { perror(m); exit(1); }
static uint8_t *grow(struct conn *c, size_t n) { // n more bytes of output
    if (c->len + n > c->room) { c->room = (c->len + n) * 2; c->out = realloc(c->out, c->room); if (!c->out) die("realloc"); }
    uint8_t *p = c->out + c->len; c->len += n; return p;
}
static void frame(uint8_t *p, uint32_t len, uint8_t kind, uint8_t flags, uint32_t stream) {
    p[0] = len >> 16; p[1] = len >> 8; p[2] = len; p[3] = kind; p[4] = flags; stream = htonl(stream); memcpy(p + 5, &stream, 4);
}
// 1: all sent, 0: blocked, -1: gone
static int flush(int fd, struct conn *c) {
    while (c->off < c->len) {
        ssize_t w = send(fd, c->out + c->off, c->len - c->off, MSG_NOSIGNAL);
        if (w < 0) return errno == EAGAIN ? 0 : -1;
        c->off += w;
    }
    c->off = c->len = 0; return 1;
}
static void drop(int fd) { struct conn *c = conns[fd]; close(fd); free(c->out); free(c); conns[fd] = 0; }
int main(int argc, char **argv) {
    int port = 18101, body = 128, streams = 1000, o, one = 1;
    while ((o = getopt(argc, argv, "p:b:m:")) != -1) {
        if (o == 'p') port = atoi(optarg); else if (o == 'b') body = atoi(optarg); else if (o == 'm') streams = atoi(optarg); else return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    // ":status: 200", then content-length as a literal without indexing (index 28 of the static table)
    uint8_t block[32]; char digits[12]; int size = snprintf(digits, sizeof digits, "%d", body), nb = 0;
    block[nb++] = 0x88; block[nb++] = 0x0f; block[nb++] = 28 - 15; block[nb++] = size; memcpy(block + nb, digits, size); nb += size;
    size_t rlen = 9 + nb + 9 + body; uint8_t *reply = malloc(rlen); memset(reply, 'x', rlen);
    frame(reply, nb, 1, 4, 0); memcpy(reply + 9, block, nb); frame(reply + 9 + nb, body, 0, 1, 0);
    ep = epoll_create1(0);
    int lfd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(lfd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one); setsockopt(lfd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(lfd, (void *)&a, sizeof a) || listen(lfd, 4096)) die("bind/listen");
    struct epoll_event e = {.events = EPOLLIN, .data.fd = lfd}, ev[256];
    epoll_ctl(ep, EPOLL_CTL_ADD, lfd, &e);
    static uint8_t buf[16384 + IN];
    for (;;) {
        int n = epoll_wait(ep, ev, 256, -1);
        for (int i = 0; i < n; i++) {
            int fd = ev[i].data.fd;
            if (fd == lfd) {
                int c = accept4(lfd, 0, 0, SOCK_NONBLOCK); if (c < 0) continue;
                if (c >= MAXFD) { close(c); continue; }
                conns[c] = calloc(1, sizeof **conns); if (!conns[c]) die("calloc");
                uint8_t *p = grow(conns[c], 15 + 13); // SETTINGS with the limit of streams; a large window for the connection
                frame(p, 6, 4, 0, 0); p[9] = 0; p[10] = 3; uint32_t v = htonl(streams); memcpy(p + 11, &v, 4);
                frame(p + 15, 4, 8, 0, 0); v = htonl(1 << 30); memcpy(p + 24, &v, 4);
                struct epoll_event e = {.events = EPOLLIN, .data.fd = c}; epoll_ctl(ep, EPOLL_CTL_ADD, c, &e);
                if (flush(c, conns[c]) < 0) drop(c);
                continue;
            }
            struct conn *c = conns[fd];
            if (c->len) {
                int r = flush(fd, c); if (r < 0) { drop(fd); continue; }
                if (r == 0) continue;
                struct epoll_event e = {.events = EPOLLIN, .data.fd = fd}; epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e);
            }
            memcpy(buf, c->part, c->have);
            ssize_t r = recv(fd, buf + c->have, IN, 0);
            if (r <= 0) { if (r < 0 && errno == EAGAIN) continue; drop(fd); continue; }
            size_t tot = c->have + r, at = 0;
            if (!c->greeted && tot >= 24) { at = 24; c->greeted = 1; }
            while (c->greeted && tot - at >= 9) {
                uint8_t *p = buf + at; uint32_t len = p[0] << 16 | p[1] << 8 | p[2];
                if (tot - at < 9 + len) break;
                if (p[3] == 1) { // HEADERS: one request
                    uint8_t *q = grow(c, rlen); memcpy(q, reply, rlen); memcpy(q + 5, p + 5, 4); memcpy(q + 9 + nb + 5, p + 5, 4);
                } else if (p[3] == 4 && !(p[4] & 1)) frame(grow(c, 9), 0, 4, 1, 0); // SETTINGS: acknowledge
                else if (p[3] == 6 && !(p[4] & 1)) { uint8_t *q = grow(c, 17); memcpy(q, p, 17); q[4] = 1; }
                at += 9 + len;
            }
            c->have = tot - at;
            if (c->have > sizeof c->part) { drop(fd); continue; }
            memcpy(c->part, buf + at, c->have);
            int s = flush(fd, c);
            if (s < 0) drop(fd);
            else if (s == 0) { struct epoll_event e = {.events = EPOLLOUT, .data.fd = fd}; epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e); }
        }
    }
}
