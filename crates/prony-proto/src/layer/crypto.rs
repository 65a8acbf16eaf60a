//! The cryptography for TLS, chosen by the processor.

use rustls::NamedGroup;
use rustls::crypto::{CryptoProvider, ring};

/// The groups that are offered by default, in order. A key share is sent for the first one only, so
/// a cheap one that every server accepts comes first.
const GROUPS: [NamedGroup; 4] =
    [NamedGroup::X25519, NamedGroup::secp256r1, NamedGroup::secp384r1, NamedGroup::X25519MLKEM768];

/// The provider of ring, which runs everywhere and allocates nothing per record. If the processor
/// has the necessary instructions (x86-64: AES, AVX2, BMI, ADX; aarch64: AES and SHA-2), the key
/// exchanges are graviola's: they are faster, and ring has no X25519MLKEM768.
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
    use prony_plan::plan::suite_ids;

    /// A plan must not depend on the processor, except for one group.
    #[test]
    fn has_every_suite_and_the_classical_groups_on_any_processor() {
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
