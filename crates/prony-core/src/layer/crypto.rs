//! The cryptography under TLS, chosen by the processor.

use rustls::NamedGroup;
use rustls::crypto::{CryptoProvider, ring};

/// The groups that are offered where nobody names any, in that order. A key share goes out for the
/// first alone, so that a cheap one which every server takes comes first.
const GROUPS: [NamedGroup; 4] =
    [NamedGroup::X25519, NamedGroup::secp256r1, NamedGroup::secp384r1, NamedGroup::X25519MLKEM768];

/// ring's, which runs everywhere and allocates nothing per record, with graviola's key exchanges
/// where the processor has the instructions that they are made of (x86-64: AES, AVX2, BMI, ADX;
/// aarch64: AES and SHA-2): they are faster, and ring has no X25519MLKEM768.
pub(super) fn provider() -> CryptoProvider {
    let mut provider = ring::default_provider();
    let all = if graviola::util::is_cpu_supported() {
        rustls_graviola::kx::ALL_KX_GROUPS.to_vec()
    } else {
        provider.kx_groups
    };
    provider.kx_groups =
        GROUPS.iter().filter_map(|&name| all.iter().copied().find(|g| g.name() == name)).collect();
    provider
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::suite_ids;

    /// A plan must not depend on the processor, but for one group.
    #[test]
    fn every_suite_is_there_and_both_libraries_have_the_classical_groups() {
        let suites: Vec<u16> =
            provider().cipher_suites.iter().map(|s| u16::from(s.suite())).collect();
        for id in suite_ids() {
            assert!(suites.contains(&id), "{id:#x} is not in {suites:x?}");
        }
        for groups in [rustls_graviola::kx::ALL_KX_GROUPS, &ring::default_provider().kx_groups[..]]
        {
            for name in &GROUPS[..3] {
                assert!(groups.iter().any(|g| g.name() == *name), "{name:?}");
            }
        }
    }
}
