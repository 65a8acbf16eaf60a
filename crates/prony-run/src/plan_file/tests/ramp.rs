//! Closed loops whose users start one after the other.

use expect_test::expect;
use prony_base::units::Span;

use super::super::load::summary;
use super::{check, plan, refused};

#[test]
fn a_ramp_of_users_is_read_and_written() {
    check(
        "url = 'http://h/'\nconnections = 100\nramp-up = '1m'\nduration = '5m'",
        expect![[r##"
            # Run it with: prony run FILE
            url = "http://h/"
            connections = 100
            ramp-up = "1m"
            duration = "5m"
            seed = 1
            timeout = "30s"
            connect-timeout = "5s"
            expect = "200-399"
        "##]],
    );
    let ramp = plan("url = 'http://h/'\nconnections = 100\nramp-up = 60\nduration = '5m'");
    let starts = [0, 1, 50, 99].map(|user| ramp.start_of_user(user));
    let ms = [0, 600, 30_000, 59_400].map(Span::from_millis);
    assert_eq!(starts, ms);
    assert_eq!(summary(&ramp), "closed loop of 100 connections, started over 1m");
    assert!(ramp.has_changing_rate());
    let warm = plan("url = 'http://h/'\nramp-up = '1m'\nwarmup = '1m'\nduration = '1s'");
    assert!(!warm.has_changing_rate(), "the measurement has all users");
    let none = plan("url = 'http://h/'\nramp-up = 0");
    assert_eq!(none.ramp_up, None);
}

#[test]
fn ramps_that_cannot_be_are_refused() {
    refused::check(
        &[
            "url = 'http://h/'\nrate = 5\nramp-up = '1m'",
            "url = 'http://h/'\nramp-up = 'slow'",
            "url = 'http://h/'\nconnections = 4\nramp-up = '1m'\nduration = '45s'",
        ],
        expect![[r#"
            p:3:11: `ramp-up` belongs to a closed loop, and `rate` makes the loop an open one; omit one of them
            p:2:11: `ramp-up`: 'slow' is not a time: a number is missing; write 500ms, 1m30s or 2h
            p:1:1: this plan cannot be run: the ramp of 1m starts its last user after 45s, when the load is over; make it shorter, or the load longer
        "#]],
    );
}
