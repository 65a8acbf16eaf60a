//! A `prony serve` process that is killed when its value is dropped.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// A running target server.
pub(crate) struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Start it on a free port of the loopback. `prony` is the command before its options, and may
    /// start with another program, such as `taskset`.
    pub(crate) fn start(prony: &mut Command) -> Result<Self> {
        Self::start_with(prony, &[])
    }

    /// The same with more options.
    pub(crate) fn start_with(prony: &mut Command, options: &[&str]) -> Result<Self> {
        let mut child = prony
            .args(["serve", "127.0.0.1:0"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run prony serve")?;
        let mut said = BufReader::new(child.stderr.take().context("no pipe")?);
        let mut server = Self { child, url: String::new() };
        let mut line = String::new();
        while said.read_line(&mut line).context("prony serve")? > 0 {
            if let Some(url) = line.split_whitespace().find(|w| w.starts_with("http://")) {
                server.url = format!("{}/", url.trim_end_matches('/'));
                return Ok(server);
            }
            line.clear();
        }
        bail!("prony serve exited before it printed its address");
    }

    /// Its URL, with the path `/`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Kill it; an error if it had exited already.
    pub(crate) fn stop(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("prony serve exited: {status}");
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
