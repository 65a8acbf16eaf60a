//! Tests of the drivers over loopback, each case with epoll and io_uring: machines made for the
//! tests, and peers with std sockets.

mod child;
mod dedicated;
mod exchange;
mod flood;
mod load;
mod machines;
mod suite;
mod userspace;

/// Creates a test per driver from each case of the suite.
macro_rules! on_both_drivers {
    ($($file:ident::$case:ident),* $(,)?) => {
        mod epoll {
            $(#[test]
            fn $case() {
                crate::$file::$case(prony_io::DriverChoice::Epoll);
            })*
        }
        mod uring {
            $(#[test]
            fn $case() {
                match prony_io::drivers::uring::ReadyRing::new() {
                    Ok(_) => crate::$file::$case(prony_io::DriverChoice::Uring),
                    Err(e) => eprintln!("skipped: no io_uring on this kernel ({e})"),
                }
            })*
        }
    };
}

on_both_drivers!(
    suite::echo_over_a_thousand_connections,
    suite::megabytes_in_both_directions,
    suite::fresh_connection_per_message,
    suite::half_close_keeps_our_direction_open,
    suite::refused_connect_tries_the_next_address,
    suite::reset_after_data,
    suite::peer_sees_a_reset_close,
    suite::orderly_close_delivers_everything,
    suite::ticks_are_never_early_and_spin_as_chosen,
    suite::grain_groups_ticks,
    suite::yielding_machine_gets_all_its_turns,
    suite::stop_requests_reach_an_idle_machine,
    suite::pulses_come_at_intervals,
    suite::unix_sockets,
    suite::retries_connects_to_a_full_unix_listener,
    suite::source_addresses_are_used_in_turn,
    suite::accept_storm,
    suite::no_descriptor_leaks,
    suite::no_descriptors_left,
    suite::no_descriptor_for_an_accept,
    exchange::short_framing_over_tcp,
    exchange::long_messages_over_tcp,
    flood::timers_keep_the_order_of_bytes,
    load::client_and_server_counts_agree,
    load::open_load_keeps_its_schedule,
    load::counts_are_consistent_with_a_hostile_server,
    load::stop_ends_the_load_and_is_reported,
);
