//! `#[derive(Merge)]`: each field of a structure is added to that of another one.

use proc_macro::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Path, Result, parse_macro_input};

/// Implement `prony_base::merge::Merge` for a structure with named fields: each field is merged by
/// its own `Merge`, or by the function in `#[merge(function)]`, a `fn(&mut T, &T)`.
#[proc_macro_derive(Merge, attributes(merge))]
pub fn merge(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    merged(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn merged(input: &DeriveInput) -> Result<proc_macro2::TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.span(), "Merge is for structures"));
    };
    let fields = data.fields.iter().map(|field| {
        let Some(name) = &field.ident else {
            return Err(Error::new(field.span(), "Merge is for fields with names"));
        };
        let by = match function(field)? {
            Some(function) => quote!(#function),
            None => quote!(::prony_base::merge::Merge::merge),
        };
        Ok(quote!(#by(&mut self.#name, &other.#name);))
    });
    let fields = fields.collect::<Result<Vec<_>>>()?;
    let name = &input.ident;
    let (generics, of, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        impl #generics ::prony_base::merge::Merge for #name #of #bounds {
            fn merge(&mut self, other: &Self) {
                #(#fields)*
            }
        }
    })
}

/// The function that a field names for itself.
fn function(field: &Field) -> Result<Option<Path>> {
    let attribute = field.attrs.iter().find(|a| a.path().is_ident("merge"));
    attribute.map(|a| a.parse_args()).transpose()
}
