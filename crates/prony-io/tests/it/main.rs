//! The drivers over loopback, each case on both: machines made for the test, peers made of std sockets.

mod child;
mod machines;
mod suite;

/// Each case of the suite as a test, once per driver.
macro_rules! on_both_drivers {
    ($($case:ident),* $(,)?) => {
        mod epoll {
            $(#[test]
            fn $case() {
                crate::suite::$case(prony_io::DriverChoice::Epoll);
            })*
        }
    };
}

on_both_drivers!(
    echo_over_a_thousand_connections,
    megabytes_in_both_directions,
    fresh_connection_per_message,
    half_close_keeps_our_direction_open,
    refused_and_the_next_address,
    reset_after_data,
    a_reset_close_is_seen_by_the_peer,
    orderly_close_of_a_server_delivers_everything,
    ticks_are_never_early_and_soon,
    stop_flags_reach_an_idle_machine,
    pulse_comes_twenty_times_a_second,
    unix_sockets,
    sources_are_used,
    accept_storm,
    no_descriptor_leaks,
    no_descriptors_left,
    no_descriptor_for_an_accept,
);
