//! The driver when the kernel refuses further requests.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::buffers::FREED;
use super::ring::tests::forbid;
use super::*;
use crate::host::limits;
use crate::net::socket::options::SocketOptions;
use crate::time::sleep::Precision;

/// More requests than fit into the largest queue, with three per connection.
const CONNECTIONS: u32 = 1_500;

fn driver() -> Option<Uring> {
    let config = Config {
        endpoints: Vec::new(),
        listeners: Vec::new(),
        dedicated: None,
        sources: Vec::new(),
        sockets: SocketOptions::default(),
        worker: (0, 1),
        precision: Precision::Sleep,
        tcp_info: false,
        timestamps: false,
    };
    Some(Uring::new(ReadyRing::new().ok()?, config))
}

/// A second panic while the first unwinds would abort the process with all other workers.
#[test]
fn driver_panics_once_and_leaks_kernel_memory_when_the_ring_refuses_requests() {
    let run = || {
        let Some(mut driver) = driver() else { return eprintln!("no io_uring") };
        limits::raise_descriptors();
        for slot in 0..CONNECTIONS {
            let fd = Some(File::open("/dev/null").unwrap().into());
            let conn = Conn { fd, armed: true, slow: true, ..Conn::CONNECTING };
            driver.conns.insert(ConnId { slot, generation: 0 }, conn);
        }
        forbid(libc::SYS_io_uring_enter, libc::EPERM);
        let refused = catch_unwind(AssertUnwindSafe(move || {
            driver.ring.push(Request::cancel(1), 0);
            driver.ring.submit();
        }));
        let message = *refused.unwrap_err().downcast::<String>().unwrap();
        assert!(message.starts_with("io_uring accepts no more requests: "), "{message}");
        assert_eq!(FREED.get(), 0);
    };
    std::thread::spawn(run).join().unwrap();
}
