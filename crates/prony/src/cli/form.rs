//! Options of multi-part forms.

use clap::Args;
use prony_run::error::Error;
use prony_run::form::{Form, PartArg};

use super::REQUEST;

/// Options of multi-part forms.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct FormArgs {
    /// Send a multi-part form with this part: name=TEXT, name=@FILE, name=<FILE; may be repeated
    ///
    /// As curl's -F: @ uploads a file, < takes the text from a file. ;type=TYPE and ;filename=NAME
    /// may follow; a text with ; can be in double quotes. @- reads standard input.
    #[arg(
        short = 'F', long = "form", value_name = "PART", help_heading = REQUEST,
        value_parser = PartArg::parse, allow_hyphen_values = true,
        conflicts_with_all = ["session_file", "body", "content_type"],
    )]
    pub form: Vec<PartArg>,
}

impl FormArgs {
    /// Whether there is a form.
    pub(super) fn is_asked(&self) -> bool {
        !self.form.is_empty()
    }

    /// The form, with the files that it names.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn form(&self) -> Result<Option<Form>, Error> {
        let parts = self.form.iter().map(|part| part.clone().read("--form"));
        let parts: Vec<_> = parts.collect::<Result<_, _>>()?;
        Ok((!parts.is_empty()).then(|| Form::new(parts)))
    }
}
