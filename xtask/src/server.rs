//! A `prony serve` or `prony echo` process that is killed when its value is dropped.

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
        let is_url = |w: &str, _: &str| w.starts_with("http://");
        let mut server = Self::start_as("serve", prony, options, is_url)?;
        server.url = format!("{}/", server.url.trim_end_matches('/'));
        Ok(server)
    }

    /// The same with `prony echo`, the responder for round trips. Its URL is an address.
    pub(crate) fn responder(prony: &mut Command) -> Result<Self> {
        let mut server = Self::start_as("echo", prony, &[], |_, before| before == "tcp")?;
        server.url = server.url.trim_end_matches(',').to_owned();
        Ok(server)
    }

    /// Start this command, and wait for the word with its address, which is given with the word
    /// before it.
    fn start_as(
        name: &str,
        prony: &mut Command,
        options: &[&str],
        is_address: impl Fn(&str, &str) -> bool,
    ) -> Result<Self> {
        let mut child = prony
            .args([name, "127.0.0.1:0"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run prony {name}"))?;
        let mut said = BufReader::new(child.stderr.take().context("no pipe")?);
        let mut server = Self { child, url: String::new() };
        let mut line = String::new();
        while said.read_line(&mut line).with_context(|| format!("prony {name}"))? > 0 {
            let mut before = "";
            for word in line.split_whitespace() {
                if is_address(word, before) {
                    word.clone_into(&mut server.url);
                    return Ok(server);
                }
                before = word;
            }
            line.clear();
        }
        bail!("prony {name} exited before it printed its address");
    }

    /// Its URL, with the path `/`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Kill it; an error if it had exited already.
    pub(crate) fn stop(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the server exited: {status}");
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
