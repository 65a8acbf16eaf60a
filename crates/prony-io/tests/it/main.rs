//! The drivers over loopback, each case on both: machines made for the test, peers made of std
//! sockets.

mod child;
mod desk;
mod exchange;
mod load;
mod machines;
mod suite;
mod userspace;

/// Each case of the suite as a test, once per driver.
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
                match prony_io::drivers::uring::Mounted::new() {
                    Ok(_) => crate::$file::$case(prony_io::DriverChoice::Uring),
                    Err(e) => eprintln!("not tested: this kernel gives no io_uring ({e})"),
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
    suite::refused_and_the_next_address,
    suite::reset_after_data,
    suite::a_reset_close_is_seen_by_the_peer,
    suite::orderly_close_of_a_server_delivers_everything,
    suite::ticks_are_never_early_and_soon,
    suite::a_grain_makes_ticks_wait_for_each_other,
    suite::turns_come_as_often_as_they_are_asked_for,
    suite::stop_flags_reach_an_idle_machine,
    suite::pulse_comes_twenty_times_a_second,
    suite::unix_sockets,
    suite::a_full_unix_listener_is_waited_for,
    suite::sources_are_used,
    suite::accept_storm,
    suite::no_descriptor_leaks,
    suite::no_descriptors_left,
    suite::no_descriptor_for_an_accept,
    exchange::the_short_framing_over_tcp,
    exchange::long_messages_over_tcp,
    load::both_sides_count_the_same,
    load::an_open_load_keeps_its_schedule,
    load::a_hostile_server_leaves_the_sums_right,
    load::a_stop_ends_the_load_and_reports_it,
);
