//! What the driver does when its ring is closed to it.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::buffers::FREED;
use super::ring::tests::forbid;
use super::*;
use crate::host::limits;
use crate::net::socket::options::SocketOptions;
use crate::time::sleep::Precision;

/// More requests than the largest queue has room for, by three of each connection.
const CONNECTIONS: u32 = 1_500;

fn driver() -> Option<Uring> {
    let config = Config {
        endpoints: Vec::new(),
        listeners: Vec::new(),
        desk: None,
        sources: Vec::new(),
        sockets: SocketOptions::default(),
        worker: (0, 1),
        precision: Precision::Sleep,
        tcp_info: false,
        timestamps: false,
    };
    Some(Uring::new(Mounted::new().ok()?, config))
}

/// A second panic on the way out of the first would end the process, and with it all other workers.
#[test]
fn a_driver_whose_ring_takes_no_more_panics_once_and_keeps_the_kernels_memory() {
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
            driver.ring.push(ring::Request::cancel(1), 0);
            driver.ring.submit();
        }));
        let said = *refused.unwrap_err().downcast::<String>().unwrap();
        assert!(said.starts_with("io_uring takes no more requests: "), "{said}");
        assert_eq!(FREED.get(), 0);
    };
    std::thread::spawn(run).join().unwrap();
}
