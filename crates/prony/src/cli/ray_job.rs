//! The options of `prony ray-job`.

use std::path::PathBuf;

use clap::Args;

use super::values;

/// The most hosts of a job.
const HOSTS_MAX: u64 = 10_000;

/// A plan, and the Ray cluster on Kubernetes that runs it.
#[derive(Clone, Debug, Args)]
pub struct RayJobArgs {
    /// The plan file; it must not name other files. `-` is standard input
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// Number of hosts: one worker on each of N nodes of Kubernetes
    #[arg(long, value_name = "N", value_parser = hosts)]
    pub hosts: u32,
    /// The container image with prony and Ray, such as that of the Containerfile
    #[arg(long, value_name = "IMAGE", value_parser = word)]
    pub image: String,
    /// Name of the job, of its plan and of its secret
    #[arg(long, value_name = "NAME", default_value = "prony", value_parser = name)]
    pub name: String,
    /// Processors of each worker
    #[arg(long, value_name = "N", default_value = "2", value_parser = values::threads)]
    pub cpus: u32,
    /// Memory of each worker and of the head, as Kubernetes writes it
    #[arg(long, value_name = "SIZE", default_value = "2Gi", value_parser = word)]
    pub memory: String,
    /// Version of Ray in the image
    #[arg(long, value_name = "V", default_value = "2.52.0", value_parser = word)]
    pub ray_version: String,
}

fn hosts(text: &str) -> Result<u32, String> {
    prony_run::values::at_most(text, HOSTS_MAX)
}

/// A name that Kubernetes accepts (RFC 1123), short enough for the names that KubeRay adds to it.
fn name(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let ends = text.starts_with(|c: char| c.is_ascii_lowercase()) && !text.ends_with('-');
    if ends && text.len() <= 40 && text.bytes().all(fits) {
        Ok(text.to_owned())
    } else {
        Err("must be at most 40 lower-case letters, digits and hyphens, such as shop-load".into())
    }
}

fn word(text: &str) -> Result<String, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"') {
        Ok(text.to_owned())
    } else {
        Err("must be one word".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_kubernetes() {
        assert_eq!(name("shop-load-2").as_deref(), Ok("shop-load-2"));
        for wrong in ["", "-a", "a-", "Shop", "2shop", "a_b", &"a".repeat(41)] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
        assert!(word("registry.example/prony:1.0").is_ok() && word("a b").is_err());
    }
}
