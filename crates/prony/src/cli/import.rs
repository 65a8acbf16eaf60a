//! The options of `prony import`.

use std::path::PathBuf;

use clap::Args;
use prony_import::Format;

/// A file of another tool, as a plan file.
#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    /// The format of the file: har, curl, openapi, postman, http, vegeta, urls
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
    /// Write passwords, tokens and cookies into the plan
    ///
    /// By default they become variables, whose values are to be filled in.
    #[arg(long)]
    pub with_secrets: bool,
    /// Send values of replies as recorded, not those of the session's own replies (har)
    #[arg(long)]
    pub no_correlate: bool,
}

/// The formats by name.
const FORMATS: [(&str, Format); 7] = [
    ("har", Format::Har),
    ("curl", Format::Curl),
    ("openapi", Format::OpenApi),
    ("postman", Format::Postman),
    ("http", Format::Http),
    ("vegeta", Format::Vegeta),
    ("urls", Format::Urls),
];

fn format(text: &str) -> Result<Format, String> {
    let found = FORMATS.iter().find(|(name, _)| *name == text);
    found.map(|(_, format)| *format).ok_or_else(|| match text {
        "swagger" => "unknown format; Swagger 2.0 has the format openapi".into(),
        "rest" => "unknown format; .rest files have the format http".into(),
        "siege" | "ab" | "list" | "txt" => {
            "unknown format; a URL per line is the format urls".into()
        }
        "wsesslog" => "prony reads this format as it is: prony load --session FILE URL".into(),
        _ => "unknown format; use har, curl, openapi, postman, http, vegeta or urls".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_names() {
        assert_eq!(format("har"), Ok(Format::Har));
        for (text, hint) in
            [("siege", "the format urls"), ("x", "use har, curl"), ("wsesslog", "--session")]
        {
            assert!(format(text).unwrap_err().contains(hint), "{text}");
        }
    }
}
