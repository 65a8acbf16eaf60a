// floor_h2: a minimal single-threaded HTTP/2 client (h2c) with epoll. It replays one fixed header block per request with
// the next stream number, parses frame headers only, and counts the frames that end a stream: a lower bound, not a tool.
//   floor_h2 -p PORT [-c CONNS] [-d STREAMS] [-s SECONDS | -r REQUESTS] [-u URI]
// Compiled with -DTLS -lssl -lcrypto it does the same over TLS 1.3 of OpenSSL, and verifies nothing.
// Compiled with -DURING -luring it does the same (without TLS) with io_uring in place of epoll, as floor_uring does.
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
#ifdef TLS
#include <openssl/ssl.h>
#else
typedef void SSL;
#endif
#ifdef URING
#include <liburing.h>
#endif
#include "floor.h"

struct conn { SSL *tls; int fd; uint32_t next, skip, have; uint64_t bytes; uint8_t part[9], *out; size_t at; };
static uint8_t request[512], *out; static size_t rlen;
static size_t requests(struct conn *c, uint8_t *p, uint32_t k) {
    for (uint32_t i = 0; i < k; i++) {
        memcpy(p + i * rlen, request, rlen); uint32_t id = htonl(c->next); memcpy(p + i * rlen + 5, &id, 4); c->next += 2;
    }
    return k * rlen;
}
#ifdef TLS
#define SCHEME 0x87
static SSL *secure(int fd) {
    static SSL_CTX *ctx;
    if (!ctx) { ctx = SSL_CTX_new(TLS_client_method()); SSL_CTX_set_alpn_protos(ctx, (uint8_t *)"\2h2", 3); SSL_CTX_set_read_ahead(ctx, 1); }
    SSL *tls = SSL_new(ctx); SSL_set_fd(tls, fd); if (SSL_connect(tls) != 1) die("TLS");
    fcntl(fd, F_SETFL, O_NONBLOCK); return tls;
}
static void put(struct conn *c, const void *p, size_t n) { if (SSL_write(c->tls, p, n) != (int)n) die("SSL_write"); }
// 0: no whole record has come
static ssize_t get(struct conn *c, void *p, size_t n) {
    int r = SSL_read(c->tls, p, n); return r > 0 ? r : SSL_get_error(c->tls, r) == SSL_ERROR_WANT_READ ? 0 : -1;
}
static int pending(struct conn *c) { return SSL_has_pending(c->tls); }
#else
#define SCHEME 0x86
#ifdef URING
static struct io_uring ring;
static struct io_uring_sqe *sqe(void) { struct io_uring_sqe *s; while (!(s = io_uring_get_sqe(&ring))) io_uring_submit(&ring); return s; }
static void arm(struct conn *c) {
    struct io_uring_sqe *s = sqe(); io_uring_prep_recv_multishot(s, c->fd, 0, 0, 0);
    s->flags |= IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT; s->ioprio |= IORING_RECVSEND_POLL_FIRST; s->buf_group = 0; io_uring_sqe_set_data(s, c);
}
// what is put must stay as it is until the next wait; the number in `fd` is that of a registered file
static void put(struct conn *c, const void *p, size_t n) {
    struct io_uring_sqe *s = sqe(); io_uring_prep_send(s, c->fd, p, n, MSG_NOSIGNAL | MSG_WAITALL);
    s->flags |= IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS; io_uring_sqe_set_data(s, NULL);
}
#else
static int pending(struct conn *c) { (void)c; return 0; }
static SSL *secure(int fd) { (void)fd; return NULL; }
static void put(struct conn *c, const void *p, size_t n) { if (send(c->fd, p, n, MSG_NOSIGNAL) != (ssize_t)n) die("send"); }
static ssize_t get(struct conn *c, void *p, size_t n) { ssize_t r = recv(c->fd, p, n, 0); return r > 0 ? r : -1; }
#endif
#endif
// the frames in these bytes: how many end a stream; frames may be cut anywhere
static uint32_t ends(struct conn *c, const uint8_t *p, size_t n) {
    uint32_t k = 0; size_t at = 0;
    while (at < n) {
        if (c->skip) { size_t s = n - at < c->skip ? n - at : c->skip; c->skip -= s; at += s; continue; }
        const uint8_t *h = p + at;
        if (c->have || n - at < 9) {
            size_t s = 9 - c->have < n - at ? 9 - c->have : n - at; memcpy(c->part + c->have, h, s); c->have += s; at += s;
            if (c->have < 9) break;
            c->have = 0; h = c->part;
        } else at += 9;
        c->skip = h[0] << 16 | h[1] << 8 | h[2];
        if (h[3] <= 1) k += h[4] & 1;
        else if (h[3] == 4 && !(h[4] & 1)) put(c, "\0\0\0\4\1\0\0\0\0", 9);
        else if (h[3] == 3 || h[3] == 7) { fprintf(stderr, "reset or GOAWAY\n"); exit(1); }
    }
    return k;
}
static struct opt o;
static void prepare(int argc, char **argv) {
    o = parse(argc, argv);
    char host[32]; int nh = snprintf(host, sizeof host, "127.0.0.1:%d", o.port), nu = strlen(o.uri);
    if (nu > 120) exit(2);
    uint8_t *b = request + 9; // :method GET and :scheme from the static table; :path and :authority as literals
    *b++ = 0x82; *b++ = SCHEME; *b++ = 4; *b++ = nu; memcpy(b, o.uri, nu); b += nu; *b++ = 1; *b++ = nh; memcpy(b, host, nh); b += nh;
    size_t block = b - request - 9; rlen = 9 + block; request[1] = block >> 8; request[2] = block; request[3] = 1; request[4] = 5;
    out = malloc(rlen * o.depth);
}
// preface; SETTINGS with windows of 2^30 - 1; the same for the connection
static void greet(struct conn *c) {
    static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\6\4\0\0\0\0\0\0\4\x3f\xff\xff\xff\0\0\4\x08\0\0\0\0\0\x3f\xff\0\0";
    put(c, hello, sizeof hello - 1);
}
// the window of the connection is 2^30
static void widen(struct conn *c, size_t n) {
    c->bytes += n;
    if (c->bytes >> 28) { put(c, "\0\0\4\x08\0\0\0\0\0\x10\0\0\0", 13); c->bytes -= 1 << 28; }
}
#ifdef URING
#define BUFFERS 2048
#define SIZE 32768
static struct io_uring_buf_ring *br; static uint8_t *mem;
static void start(struct conn *cs) {
    struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE, .cq_entries = 16384};
    int r = io_uring_queue_init_params(4096, &ring, &p); if (r) { errno = -r; die("io_uring"); }
    io_uring_register_ring_fd(&ring);
    if (posix_memalign((void **)&br, 4096, BUFFERS * sizeof(struct io_uring_buf))) die("mem");
    struct io_uring_buf_reg reg = {.ring_addr = (uintptr_t)br, .ring_entries = BUFFERS, .bgid = 0};
    if ((r = io_uring_register_buf_ring(&ring, &reg, 0))) { errno = -r; die("buf_ring"); }
    io_uring_buf_ring_init(br);
    mem = malloc((size_t)BUFFERS * SIZE);
    for (int i = 0; i < BUFFERS; i++) io_uring_buf_ring_add(br, mem + (size_t)i * SIZE, SIZE, i, BUFFERS - 1, i);
    io_uring_buf_ring_advance(br, BUFFERS);
    int *fds = malloc(sizeof(int) * o.conns);
    for (int i = 0; i < o.conns; i++) { fds[i] = dial(&o, 0); cs[i].fd = i; cs[i].next = 1; cs[i].out = malloc(3 * rlen * o.depth); }
    if ((r = io_uring_register_files(&ring, fds, o.conns))) { errno = -r; die("files"); }
}
// those before may still be in a submission: at most as many requests as streams
static void next(struct conn *c, uint32_t k) {
    if (c->at + k > 3 * (size_t)o.depth) c->at = 0;
    uint8_t *p = c->out + c->at * rlen; c->at += k; put(c, p, requests(c, p, k));
}
int main(int argc, char **argv) {
    prepare(argc, argv);
    struct conn *cs = calloc(o.conns, sizeof *cs); start(cs);
    uint64_t done = 0, t0 = now(), end = t0 + (uint64_t)(o.secs * 1e9), t = t0, ticks = 0;
    for (int i = 0; i < o.conns; i++) { arm(&cs[i]); greet(&cs[i]); next(&cs[i], o.depth); }
    for (;;) {
        int r = io_uring_submit_and_wait(&ring, 1); if (r < 0 && r != -EINTR) { errno = -r; die("wait"); }
        if (o.rate && done >= o.rate) { t = now(); break; }
        if ((++ticks & 15) == 0) { t = now(); if (!o.rate && t >= end) break; }
        unsigned head, n = 0, back = 0; struct io_uring_cqe *cqe;
        io_uring_for_each_cqe(&ring, head, cqe) {
            n++;
            struct conn *c = io_uring_cqe_get_data(cqe); uint32_t k = 0;
            if (!c) { fprintf(stderr, "send failed: %d\n", cqe->res); return 1; }
            if (cqe->res <= 0 && cqe->res != -ENOBUFS) { fprintf(stderr, "recv: %d\n", cqe->res); return 1; }
            if (cqe->flags & IORING_CQE_F_BUFFER) {
                unsigned b = cqe->flags >> IORING_CQE_BUFFER_SHIFT; uint8_t *p = mem + (size_t)b * SIZE;
                if (cqe->res > 0) { k = ends(c, p, cqe->res); widen(c, cqe->res); }
                io_uring_buf_ring_add(br, p, SIZE, b, BUFFERS - 1, back++);
            }
            if (!(cqe->flags & IORING_CQE_F_MORE)) arm(c);
            done += k;
            if (k) next(c, k);
        }
        if (back) io_uring_buf_ring_advance(br, back);
        io_uring_cq_advance(&ring, n);
    }
    report("floor_h2_uring", &o, done, t - t0);
}
#else
int main(int argc, char **argv) {
    prepare(argc, argv);
    int ep = epoll_create1(0); struct conn *cs = calloc(o.conns, sizeof *cs);
    static uint8_t buf[262144]; struct epoll_event ev[1024];
    uint64_t done = 0, t0 = now(), end = t0 + (uint64_t)(o.secs * 1e9), t = t0, ticks = 0;
    for (int i = 0; i < o.conns; i++) {
        struct conn *c = &cs[i]; c->fd = dial(&o, 0); c->tls = secure(c->fd); c->next = 1;
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c}; epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e);
        greet(c);
        put(c, out, requests(c, out, o.depth));
    }
    for (;;) {
        int n = epoll_wait(ep, ev, 1024, 1000);
        if (o.rate && done >= o.rate) { t = now(); break; }
        if ((++ticks & 15) == 0 || n == 0) { t = now(); if (!o.rate && t >= end) break; }
        for (int i = 0; i < n; i++) {
            struct conn *c = ev[i].data.ptr; ssize_t r; uint32_t k = 0;
            do {
                if ((r = get(c, buf, sizeof buf)) < 0) { fprintf(stderr, "connection lost\n"); return 1; }
                k += ends(c, buf, r); widen(c, r);
            } while (r && pending(c));
            done += k;
            if (k) put(c, out, requests(c, out, k));
        }
    }
    report("floor_h2", &o, done, t - t0);
}
#endif
