//! A socket in memory for asynchronous code, and what runs it without a runtime.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[derive(Default)]
struct Buffers {
    /// Bytes from the network that are not read.
    arrived: Vec<u8>,
    has_ended: bool,
    /// Bytes for the network.
    written: Vec<u8>,
    reader: Option<Waker>,
}

/// The socket, in the hands of the code that uses it.
pub(super) struct Pipe(Rc<RefCell<Buffers>>);

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut buffers = self.0.borrow_mut();
        if buffers.arrived.is_empty() && !buffers.has_ended {
            buffers.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let n = buffers.arrived.len().min(buf.remaining());
        buf.put_slice(&buffers.arrived[..n]);
        buffers.arrived.drain(..n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().written.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Says that a task can go on.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One end of a connection: a task with a socket.
pub(super) struct Task {
    buffers: Rc<RefCell<Buffers>>,
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    flag: Arc<Flag>,
}

impl Task {
    pub(super) fn new<F: Future<Output = ()> + 'static>(make: impl FnOnce(Pipe) -> F) -> Self {
        let buffers = Rc::<RefCell<Buffers>>::default();
        let future: Pin<Box<dyn Future<Output = ()>>> = Box::pin(make(Pipe(Rc::clone(&buffers))));
        Self { buffers, future: Some(future), flag: Arc::new(Flag(AtomicBool::new(true))) }
    }

    pub(super) fn arrived(&mut self, bytes: &[u8]) {
        self.buffers.borrow_mut().arrived.extend_from_slice(bytes);
        self.wake();
    }

    pub(super) fn ended(&mut self) {
        self.buffers.borrow_mut().has_ended = true;
        self.wake();
    }

    fn wake(&self) {
        if let Some(reader) = self.buffers.borrow_mut().reader.take() {
            reader.wake();
        }
    }

    /// Run until it waits for the network. Returns what it has written, and whether it is over.
    pub(super) fn run(&mut self) -> (Vec<u8>, bool) {
        let waker = Waker::from(Arc::clone(&self.flag));
        let mut cx = Context::from_waker(&waker);
        while let Some(future) = &mut self.future
            && self.flag.0.swap(false, Ordering::Relaxed)
        {
            if future.as_mut().poll(&mut cx).is_ready() {
                self.future = None;
            }
        }
        (std::mem::take(&mut self.buffers.borrow_mut().written), self.future.is_none())
    }
}
