use super::*;
use crate::plan_file;

fn plan(port: u16) -> Plan {
    plan_file::tests::plan(&format!("url = 'http://127.0.0.1:{port}/'\nrequests = 1"))
}

fn seconds(n: u64) -> Span {
    Span::from_secs(n)
}

/// A server of this test: Python on the port, after these words of a shell. `None`: there is none.
fn listens(before: &str) -> Option<String> {
    let has_python = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    has_python
        .is_ok_and(|status| status.success())
        .then(|| format!("{before} python3 -m http.server --bind 127.0.0.1 {{port}}"))
}

fn is_left(pid: i32) -> bool {
    cpu_of_process(pid as u32).is_some()
}

#[test]
fn a_server_that_ends_is_an_error_with_its_output() {
    let port = free_port().expect("a port");
    for (command, how) in [
        ("echo no such option: --port {port} >&2; exit 3", "exit status 3"),
        ("echo no such option: --port {port} >&2", "exit status 0"),
        ("sleep 1000 & echo no such option: --port {port} >&2; exit 3", "exit status 3"),
        ("echo no such option: --port {port}; kill -9 $$", "signal 9"),
    ] {
        let mut server = TargetProcess::start(command, port, &plan(port)).expect("a shell");
        let error = server.wait_until_ready(&plan(port), seconds(20), &|| false);
        let text = error.expect_err("it ended").to_string();
        let wanted = format!("it printed: no such option: --port {port}");
        assert!(text.contains("ended before it was ready") && text.contains(&wanted), "{text}");
        assert!(text.contains(&format!("({how})")), "{text}");
    }
}

/// No process of a server is left, wherever it has gone.
#[test]
fn all_processes_of_a_server_end() {
    for command in [
        "sleep 1000 & sleep 1000",
        "setsid sleep 1000 & sleep 1000",
        "setsid sh -c 'sleep 1000 & sleep 1000 &' ; sleep 1000",
        "(setsid sh -c '(sleep 1000 & sleep 1000 &) & trap \"\" TERM; sleep 1000' &) & sleep 1000",
        "trap '' TERM HUP INT; setsid sh -c 'setsid sleep 1000 & setsid sleep 1000 &'",
    ] {
        let port = free_port().expect("a port");
        let mut server = TargetProcess::start(command, port, &plan(port)).expect("a shell");
        server.hurry();
        let begun = Instant::now();
        let mut processes = Vec::new();
        while processes.len() < 2 && begun.elapsed() < Duration::from_secs(20) {
            processes = server.processes();
        }
        let timeout = Span::from_millis(200);
        let error = server.wait_until_ready(&plan(port), timeout, &|| false);
        let text = error.expect_err("nothing listens").to_string();
        let wanted = format!("did not accept connections at 127.0.0.1:{port}");
        assert!(text.contains(&wanted), "{command}: {text}");
        let processes = server.processes();
        assert!(processes.len() >= 2, "{command}: {processes:?}");
        let guard = server.group;
        assert_eq!(server.end(), None);
        assert!(processes.iter().all(|process| !is_left(process.pid)), "{command}");
        assert!(!is_left(guard.as_raw_nonzero().get()), "{command}");
    }
}

#[test]
fn a_wait_ends_when_the_user_stops_it() {
    let port = free_port().expect("a port");
    let mut server = TargetProcess::start("sleep 1000", port, &plan(port)).expect("a shell");
    assert!(!server.wait_until_ready(&plan(port), seconds(600), &|| true).expect("no error"));
}

#[test]
fn a_server_is_ready_when_it_accepts_and_belongs_to_its_command() {
    for before in ["", "setsid", "exec", "true;"] {
        let port = free_port().expect("a port");
        let Some(command) = listens(before) else { return };
        let mut server = TargetProcess::start(&command, port, &plan(port)).expect("a shell");
        assert!(server.wait_until_ready(&plan(port), seconds(60), &|| false).expect("it accepts"));
        server.check().expect("it runs");
        assert!(server.cpu().is_some());
        assert_eq!(server.doubt(&plan(port)), None, "{command}");
        assert_eq!(server.end(), None);
        assert_eq!(listener::in_use(&plan(port).endpoints[0]), None, "{command}");
    }
}

#[test]
fn a_server_may_leave_its_command_behind() {
    let port = free_port().expect("a port");
    let Some(command) = listens("setsid") else { return };
    let command = command + " &";
    let mut server = TargetProcess::start(&command, port, &plan(port)).expect("a shell");
    assert!(server.wait_until_ready(&plan(port), seconds(60), &|| false).expect("it accepts"));
    server.check().expect("it runs");
    assert_eq!(server.doubt(&plan(port)), None);
    drop(server);
    assert_eq!(listener::in_use(&plan(port).endpoints[0]), None);
}

#[test]
fn the_server_of_somebody_else_is_not_the_one_that_was_started() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = other.local_addr().expect("an address").port();
    let error = TargetProcess::start("sleep 100", port, &plan(port)).expect_err("it is in use");
    let text = error.to_string();
    assert!(text.contains(&format!("listens at 127.0.0.1:{port} before the server")), "{text}");
    drop(other);
    let mut server = TargetProcess::start("sleep 100", port, &plan(port)).expect("a shell");
    let _other = TcpListener::bind(("127.0.0.1", port)).expect("the port");
    assert!(server.wait_until_ready(&plan(port), seconds(60), &|| false).expect("it accepts"));
    let doubt = server.doubt(&plan(port)).expect("it is not the server");
    assert!(doubt.contains("listens at") && doubt.contains("'sleep 100' did not start it"));
}

#[test]
fn a_plan_moves_to_another_port() {
    let moved = with_port(&plan(8080), 8080, 9090);
    assert_eq!(moved.endpoints, plan(9090).endpoints);
    assert_eq!(moved.calls.to_vec(), plan(9090).calls.to_vec());
    assert_eq!(with_port(&plan(8080), 80, 9090), plan(8080));
}

#[test]
fn cpu_time_of_this_process_grows() {
    let before = cpu_of_process(std::process::id()).expect("its statistics");
    let begun = Instant::now();
    let mut n = 0_u64;
    while cpu_of_process(std::process::id()).expect("its statistics") <= before {
        n = std::hint::black_box(n + 1);
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}
