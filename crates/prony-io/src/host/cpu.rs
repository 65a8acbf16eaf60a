//! Cores and CPU times.

use std::io;

use prony_base::units::Span;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that the process may use, ascending; at least one.
pub fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else {
        let n = std::thread::available_parallelism().map_or(1, usize::from);
        return (0..n).collect();
    };
    let cores: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect();
    if cores.is_empty() { vec![0] } else { cores }
}

/// Pin the calling thread to one core.
pub fn pin(core: usize) -> io::Result<()> {
    pin_to(&[core])
}

/// Pin the calling thread, and the threads that it will start, to these cores; at least one.
pub fn pin_to(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &core in cores {
        if core >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(core);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Put the calling thread under the real-time scheduler (first in, first out, lowest priority).
pub fn realtime() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: `param` is readable; 0 = the calling thread.
    let r = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) };
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// User and system time of the calling thread so far.
pub fn thread_times() -> (Span, Span) {
    times(libc::RUSAGE_THREAD)
}

/// User and system time of the whole process so far.
pub fn process_times() -> (Span, Span) {
    times(libc::RUSAGE_SELF)
}

fn times(whose: libc::c_int) -> (Span, Span) {
    // SAFETY: rusage is a plain C struct of integers, for which all zeros is a valid value.
    let mut u: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `u` is writable.
    if unsafe { libc::getrusage(whose, &mut u) } < 0 {
        return (Span::ZERO, Span::ZERO);
    }
    let span = |t: libc::timeval| Span(t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000);
    (span(u.ru_utime), span(u.ru_stime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_thread_uses_one_core() {
        let last = *allowed().last().unwrap();
        let seen = std::thread::spawn(move || {
            pin(last).unwrap();
            allowed()
        });
        assert_eq!(seen.join().unwrap(), [last]);
        assert!(pin(usize::MAX).is_err() && pin_to(&[]).is_err());
    }

    #[test]
    fn realtime_sets_the_scheduler_or_is_refused() {
        // In its own thread, so that no other test is affected.
        let had = std::thread::spawn(|| {
            // SAFETY: no pointers; 0 = the calling thread.
            realtime().map(|()| unsafe { libc::sched_getscheduler(0) })
        });
        match had.join().unwrap() {
            Ok(scheduler) => assert_eq!(scheduler, libc::SCHED_FIFO),
            Err(e) => assert_eq!(e.raw_os_error(), Some(libc::EPERM)),
        }
    }

    #[test]
    fn work_increases_the_threads_time() {
        let (user, system) = thread_times();
        let start = std::time::Instant::now();
        let mut x = 1_u64;
        // On a busy machine, this thread may not run for a while.
        while start.elapsed().as_secs() < 20 {
            for _ in 0..100_000 {
                x = std::hint::black_box(x.wrapping_mul(3));
            }
            let (user2, system2) = thread_times();
            if user2 + system2 > user + system {
                let (user_all, system_all) = process_times();
                assert!(user_all + system_all >= user2 + system2, "includes the thread's time");
                return;
            }
        }
        panic!("20 s of work took no CPU time: {x}");
    }
}
