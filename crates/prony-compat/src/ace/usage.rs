//! The output of `-h`, byte for byte that of the old programs.

use super::{Role, Socket, Test};

const CLIENT: &str = "
   -m   dbl            histogram-min-bin           0
   -M   dbl            histogram-max-bin           10000
   -x   int            histogram-num-outliers      100
   -b   int            histogram-bin-count         1000

   -C   int            client-port                 assigned by kernel
   -i   str            client-connect-addr         INADDR_ANY

   -p   int            server-port                 45453
   -H   str            server-host                 localhost

   -s   int (0-16)     payload-size-power-of-2     <MUST SET VALUE>

   -h   none           help

";

/// The usage of a test with this name.
pub(super) fn text(test: Test, program: &str) -> String {
    let socket = match test.socket {
        Socket::Stream => "SOCK_Stream",
        Socket::Seqpack => "SOCK_SEQPACK",
    };
    // The second line is aligned with the first word after the name.
    let indent = " ".repeat(program.chars().count() + 3);
    let protocol = match test.socket {
        Socket::Stream => "   -t   str (sctp|tcp) test-transport-protocol     sctp\n",
        Socket::Seqpack => "",
    };
    let count = match test.role {
        Role::Client => "   -c   int            test-iterations             1000000\n",
        Role::Server => "",
    };
    let rest = match test.role {
        Role::Client => CLIENT.to_owned(),
        Role::Server => server(test.socket),
    };
    format!(
        "{program} - Measures round trip latency statistics of ACE synchronous\n\
         {indent}messaging ({socket}) using unmarshalled ACE_CDR::Octet.\n\
         USAGE: {program} [ -<flag> [<val>] | --<name> [<val>] ]...\n\
         \n  Flag  Args           Option-Name                 Default\n\
         {count}   -n   none           test-enable-nagle           NO NAGLING\n{protocol}{rest}"
    )
}

fn server(socket: Socket) -> String {
    let pad = " ";
    let addresses = match socket {
        Socket::Stream => {
            "   -a   w.x.y.z        server-accept-addr          INADDR_ANY\n".to_owned()
        }
        // The old text has spaces at the ends of these lines.
        Socket::Seqpack => format!(
            "   -a   w.x.y.z,a.b.c.d,...  server-accept-addr    INADDR_ANY\n\
             {pad:8}(comma-separated{pad:36}\n\
             {pad:9}list of one or more{pad:32}\n\
             {pad:9}addresses){pad:41}\n"
        ),
    };
    format!(
        "\n   -p   int            server-port                 45453\n\
         {addresses}   -h   none           help\n\n"
    )
}
