//! The programs that the tests need, and how to install them.

use anyhow::{Result, bail};

use super::Tier;
use crate::sctp;
use crate::shell::{is_root, program, run, which};

/// A program, or a file of it, and its Debian package.
type Tool = (&'static str, &'static str);

/// What the gate needs.
const TOOLS: [Tool; 11] = [
    ("nginx", "nginx"),
    ("haproxy", "haproxy"),
    ("ab", "apache2-utils"),
    ("wrk", "wrk"),
    ("tinyproxy", "tinyproxy-bin"),
    ("curl", "curl"),
    ("h2load", "nghttp2-client"),
    ("httperf", "httperf"),
    ("openssl", "openssl"),
    ("python3", "python3-venv"),
    ("tmux", "tmux"),
];

/// What `ci --full` needs as well.
const OF_FULL: [Tool; 6] = [
    ("valgrind", "valgrind"),
    ("strace", "strace"),
    ("apache2", "apache2"),
    ("caddy", "caddy"),
    ("java", "default-jre-headless"),
    ("/usr/share/java/tomcat10-catalina.jar", "libtomcat10-java"),
];

/// Programs that not every machine can have. Without them, some tests of `ci --full` are skipped
/// and listed.
const OPTIONAL: [Tool; 8] = [
    ("node", "nodejs"),
    ("npm", "npm"),
    ("pip3", "python3-pip"),
    ("nghttpd", "nghttp2-server"),
    ("h2o", "h2o"),
    ("busybox", "busybox-static"),
    ("linux.uml", "user-mode-linux"),
    ("qemu-system-x86_64", "qemu-system-x86"),
];

/// Install missing programs with apt-get, or fail with their names.
pub(super) fn install(tier: Tier) -> Result<()> {
    let required: &[&[Tool]] = match tier {
        Tier::Gate => &[&TOOLS],
        Tier::Full => &[&TOOLS, &OF_FULL],
    };
    let required = required.concat();
    let missing = missing(&required);
    if !missing.is_empty() {
        let packages = missing.join(" ");
        if !can_install() {
            bail!(
                "missing packages: {packages}\n\
                 Run `apt-get install {packages}` as root (on Debian), or run single steps"
            );
        }
        apt(&missing)?;
        if let still @ [_, ..] = &self::missing(&required)[..] {
            bail!("still missing after apt-get: {}", still.join(" "));
        }
    }
    if tier == Tier::Gate {
        return Ok(());
    }
    let optional = self::missing(&OPTIONAL);
    if !optional.is_empty()
        && can_install()
        && let Err(e) = apt(&optional)
    {
        println!("{e:#}");
    }
    sctp::prepare();
    Ok(())
}

pub(super) fn can_install() -> bool {
    which("apt-get").is_some() && is_root()
}

pub(super) fn apt(packages: &[&str]) -> Result<()> {
    let quiet = ["-q", "-y", "--no-install-recommends"];
    // Run level 1 keeps the packages from starting their servers. The tests start their own.
    let apt = |args: &[&str]| {
        let mut command = program("apt-get", args);
        command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        command
    };
    run(&mut apt(&["update", "-q"]))?;
    run(apt(&["install"]).args(quiet).args(packages))
}

fn missing(tools: &[Tool]) -> Vec<&'static str> {
    tools.iter().filter(|(tool, _)| which(tool).is_none()).map(|&(_, package)| package).collect()
}
