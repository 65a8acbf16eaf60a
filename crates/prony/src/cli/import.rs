//! The options of `prony import`.

use std::path::PathBuf;

use clap::Args;
use prony_import::Format;
use prony_run::values;

/// A file of another tool, as a plan file.
#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    /// The format of the file: har, curl, openapi, postman, http, vegeta, urls, wsesslog
    #[arg(value_name = "FORMAT", value_parser = format)]
    pub format: Format,
    /// The file; `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the plan to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The server of paths without one: a URL without a path
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// Read files that the input names from this folder, too
    ///
    /// By default only files in the folder of FILE are read (for standard input: the current one),
    /// and no hidden ones. Can be given several times.
    #[arg(long, value_name = "DIR")]
    pub files_from: Vec<PathBuf>,
    /// Write passwords, tokens and cookies into the plan
    ///
    /// By default they become variables, whose values are to be filled in.
    #[arg(long)]
    pub with_secrets: bool,
    /// Send values of replies as recorded, not those of the session's own replies (har)
    #[arg(long)]
    pub no_correlate: bool,
    /// Keep requests to other sites than that of the first page, such as those of analytics (har)
    #[arg(long, alias = "all-hosts")]
    pub all_sites: bool,
    /// Draw the values that a description leaves open, by this seed (openapi)
    ///
    /// By default they are the least ones, and optional fields are left out.
    #[arg(long, value_name = "N", value_parser = values::seed)]
    pub seed: Option<u64>,
    /// How often to make the operations with this tag; others have the weight 1 (openapi)
    ///
    /// With 0 they are left out. Can be given several times. Sessions are then picked at random.
    #[arg(long, value_name = "TAG=N", value_parser = weight)]
    pub weight: Vec<(String, u32)>,
}

/// The formats by name.
const FORMATS: [(&str, Format); 8] = [
    ("har", Format::Har),
    ("curl", Format::Curl),
    ("openapi", Format::OpenApi),
    ("postman", Format::Postman),
    ("http", Format::Http),
    ("vegeta", Format::Vegeta),
    ("urls", Format::Urls),
    ("wsesslog", Format::Wsesslog),
];

fn format(text: &str) -> Result<Format, String> {
    let found = FORMATS.iter().find(|(name, _)| *name == text);
    found.map(|(_, format)| *format).ok_or_else(|| match text {
        "swagger" => "unknown format; Swagger 2.0 has the format openapi".into(),
        "rest" => "unknown format; .rest files have the format http".into(),
        "siege" | "ab" | "list" | "txt" => {
            "unknown format; a URL per line is the format urls".into()
        }
        _ => {
            "unknown format; use har, curl, openapi, postman, http, vegeta, urls or wsesslog".into()
        }
    })
}

/// `TAG=N`.
fn weight(text: &str) -> Result<(String, u32), String> {
    let (tag, weight) = text.rsplit_once('=').ok_or("use TAG=N, such as pets=3")?;
    let weight = weight.trim().parse().map_err(|_| "the weight is no whole number; use TAG=N")?;
    Ok((tag.trim().to_owned(), weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_names() {
        assert_eq!(format("har"), Ok(Format::Har));
        for (text, hint) in [("siege", "the format urls"), ("x", "use har, curl")] {
            assert!(format(text).unwrap_err().contains(hint), "{text}");
        }
    }

    #[test]
    fn weights_have_a_tag() {
        assert_eq!(weight("a=b = 3"), Ok(("a=b".to_owned(), 3)));
        for text in ["pets", "pets=", "pets=-1", "pets=x"] {
            assert!(weight(text).unwrap_err().contains("use TAG=N"), "{text}");
        }
    }
}
